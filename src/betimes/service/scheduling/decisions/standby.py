"""What stands in for an engine whose kernels are not compiled yet: it keeps accounts, and decides nothing.

Jobs go on with what they hold. Runs that end, nodes that vanish and progress that is reported are recorded as under an
engine; jobs that come wait with the scheduler until there is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from betimes.service.engines.accounts import Account
from betimes.service.engines.messages import Decisions, Inputs, Restored
from betimes.service.engines.speedups import speed


@dataclass
class _Work:
    """A job's work: its account, and what has gone on since that was true."""

    account: Account
    units: int
    rate: float  # work a second, once the stall is over

    def at(self, now_s: float) -> Account:
        """The account as of now."""
        before = self.account
        passed_s = max(0.0, now_s - before.since_s)
        worked_s = max(0.0, passed_s - before.stall_s)
        return replace(
            before,
            since_s=max(now_s, before.since_s),
            left_s=max(0.0, before.left_s - self.rate * worked_s),
            attained=before.attained + self.units * passed_s,
            stall_s=max(0.0, before.stall_s - passed_s),
        )


class Standby:
    """Stands in for an engine; work is counted as that of this kind counts it."""

    def __init__(self, kind: Literal["pool", "nodes"]) -> None:
        self.kind = kind
        self._jobs: dict[int, _Work] = {}

    @property
    def slot_of(self) -> Mapping[int, _Work]:
        """The jobs that it knows."""
        return self._jobs

    def restore(self, carried: Restored, now_s: float) -> None:
        """Take over a job as it stands."""
        rate, units = 0.0, carried.units
        if carried.alone is not None:
            rate, units = 1.0, carried.wanted.max_units
        elif carried.units and self.kind == "pool":
            rate = speed(carried.wanted, carried.units)
        elif carried.units and carried.leave_by_s == float("inf"):
            # One that is to leave its nodes works no more.
            rate = 1.0
        self._jobs[carried.wanted.job] = _Work(carried.account, units, rate)

    def next_timer_s(self) -> float:
        """Never: nothing happens by itself."""
        return math.inf

    def catch_up(self, now_s: float) -> list[Decisions]:
        """Nothing goes off."""
        return []

    def happen(self, now_s: float, what: Inputs) -> list[Decisions]:
        """Let everything but submissions happen; nothing is decided."""
        for number in what.gone:
            self._rest(number, now_s)
        for number in what.done:
            del self._jobs[number]
        for number in what.lost:
            self.lose(number, now_s)
        for number, left_s in what.believed:
            self._believe(number, left_s, now_s)
        return []

    def lose(self, job: int, now_s: float) -> None:
        """A job has lost what it held, without a decision."""
        if not self._jobs[job].units:
            return
        work = self._rest(job, now_s)
        if self.kind == "pool":  # on nodes it is counted when the job is asked to leave
            work.account = replace(work.account, preemptions=work.account.preemptions + 1)

    def open_node(self, number: int, is_up: bool) -> None:
        """Nothing: no node is given anything new."""

    def account(self, job: int) -> Account:
        """How far a job has come, true when its units last changed."""
        return self._jobs[job].account

    def believed_left(self, job: int, now_s: float) -> float:
        """Work that is believed to be left now."""
        return self._jobs[job].at(now_s).left_s

    def first_waiting(self) -> int | None:
        """Null: there is no order yet."""
        return None

    def _rest(self, number: int, now_s: float) -> _Work:
        """A job holds nothing from now on."""
        work = self._jobs[number]
        work.account = replace(work.at(now_s), stall_s=0.0)
        work.units, work.rate = 0, 0.0
        return work

    def _believe(self, number: int, left_s: float, now_s: float) -> None:
        work = self._jobs[number]
        if work.rate > 0.0:
            work.account = work.at(now_s)
        size_s = work.account.size_s + left_s - work.account.left_s
        work.account = replace(work.account, size_s=size_s, left_s=left_s)
