"""The true progress of a virtual job, which the scheduler never sees.

The account of `core.work`, repeated for one job, so that a schedule played by the service can be compared with the
twin's to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class VirtualJob:
    """A job that only takes time.

    work_s: on one unit; speed: how much faster on 0, 1, 2, ... units; restart_s: lost whenever its units change
    after it has run.
    """

    work_s: float
    speed: Sequence[float]
    restart_s: float = 0.0
    units: int = 0
    finish_at: float = math.inf  # under the units it holds

    def __post_init__(self) -> None:
        self._left, self._rate, self._stall, self._since, self._attained = self.work_s, 0.0, 0.0, 0.0, 0.0
        self._units_before, self._stall_before = 0, 0.0
        self._left_at_start = self.work_s

    def hold(self, units: int, now_s: float, faster: float = 1.0) -> None:
        """Let the job work on `units` units, or on none, from now on; faster: times as fast as elsewhere."""
        self._settle(now_s)
        if units > self.units == 0:
            self._left_at_start = self._left
        self.units = units
        if units == 0:
            self._rate = self._stall = 0.0
            self.finish_at = math.inf
            return
        if units == self._units_before:
            self._stall = self._stall_before
        else:
            self._stall = self.restart_s if self._attained > 0.0 else 0.0
        self._rate = self.speed[units] * faster
        self.finish_at = now_s + self._stall + self._left / self._rate

    def idle(self, now_s: float) -> None:
        """Stop the job: it keeps its units for now and does no work."""
        self._settle(now_s)
        self._rate = self._stall = 0.0
        self.finish_at = math.inf

    def leave(self, now_s: float) -> None:
        """The job has left: when it holds units again, even at this instant, it has to be started again."""
        self.hold(0, now_s)
        self._units_before = 0

    def lose_run(self, now_s: float) -> None:
        """The job has left, and lost what it did since it started; what it had saved before, it has still."""
        self.leave(now_s)
        self._left, self._attained = self._left_at_start, 0.0

    def progress_frac(self, now_s: float) -> float:
        """The work done so far."""
        worked = max(0.0, now_s - self._since - self._stall)
        return 1.0 - max(0.0, self._left - self._rate * worked) / self.work_s if self.work_s > 0.0 else 1.0

    def _settle(self, now_s: float) -> None:
        if now_s <= self._since:
            return
        if self.units > 0:
            worked = max(0.0, now_s - self._since - self._stall)
            self._attained += self.units * (now_s - self._since)
            self._left = max(0.0, self._left - self._rate * worked)
            self._stall -= min(self._stall, now_s - self._since)
        self._units_before, self._stall_before = self.units, self._stall
        self._since = now_s
