"""What the progress that a job reports says about the work it has left.

Work is in seconds on one unit, as everywhere in the core: a second at speed-up 4 is four of them. So a job that is
resized keeps its pace, which is work per step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LEAST_LEFT_S = 0.01  # a job that still runs has something left, whatever it reports (the core's least belief)
LEAST_SEEN_S = 2.0
TOLERANCE_FRAC = 0.05
TOLERANCE_S = 1.0

_STRETCHES = 128  # that are remembered; an even number
_LEAST_RECENT = 8  # of them that count, where there are so many
_SHARE = 0.1  # of the others, that one may count for
_FIRST_WORK = 0.25  # in one at first; doubled whenever there are too many


def differs(new_s: float, old_s: float, frac: float = TOLERANCE_FRAC, least_s: float = TOLERANCE_S) -> bool:
    """Whether a belief about the remaining work is materially another than the one held now.

    It is if it is off by more than `least_s` and by more than `frac` of the larger one. `old_s` is what is believed
    to remain *now*, the work done since it was formed taken off: a job that goes on as believed never differs, and
    what does not differ must reach neither the policy nor the account of its work.
    """
    return abs(new_s - old_s) > max(least_s, frac * max(new_s, old_s))


class ProgressRate:
    """Work per step of one job, over the later half of what it was seen doing.

    What was seen is cut into stretches of about equal work. No stretch counts for more than a tenth of the others'
    work, nor for more than a tenth of their steps (while there are few, for twice its part): so a slow start, a
    stall or a burst hardly matters, while regular pauses (evaluation, checkpoints), soon a small part each, count in
    full. Only what lies between two reports of one run is taken for speed: neither the time of a restart, nor steps
    that it repeats or skips. What was learnt in earlier runs stays. Nothing is said before `least_seen_s` seconds of
    progress were seen. At most 128 stretches are remembered.
    """

    def __init__(self, least_seen_s: float = LEAST_SEEN_S) -> None:
        self._least_seen_s = least_seen_s
        self._speed = 0.0
        self._at_s = math.inf  # up to when work is counted; nothing is before a run begins
        self._work = 0.0  # since the last step
        self._ran_s = 0.0
        self._report: _Report | None = None  # the last one of this run
        self._clear()

    def begin(self, at_s: float, speed: float) -> None:
        """A run begins, at a speed-up over one unit: the job's first, or another from its checkpoint."""
        self._speed, self._at_s = speed, at_s
        self._work = self._ran_s = 0.0
        self._report = None

    def resize(self, at_s: float, speed: float) -> None:
        """The run goes on at another speed, without a restart."""
        self._count_until(at_s)
        self._speed = speed

    def report(self, at_s: float, done: float, total: float) -> float | None:
        """The work believed to remain after `done` of `total` steps, of any size and not only whole ones.

        Null: nothing is known yet, or the report says nothing new: progress that has not changed has no consequence
        at all. Raises ValueError for what is no progress: below 0, not finite, or no total.
        """
        if not (0 <= done < math.inf and 0 < total < math.inf):
            raise ValueError(f"expected steps done, and a total above 0, found {done} of {total}")
        before, said = self._report, _Report(done, total)
        if said == before:
            return None  # before anything is counted: two sums may differ from one by a rounding error
        self._count_until(at_s)
        self._report = said
        if before is None:
            self._work = self._ran_s = 0.0
        elif done > before.done:
            self._learn(done - before.done)
        elif done < before.done:
            if total != before.total:
                self._clear()  # other steps: what one of them takes is not known
            self._work = self._ran_s = 0.0
        return self._left(total - done)

    def _count_until(self, at_s: float) -> None:
        if at_s > self._at_s:
            self._work += self._speed * (at_s - self._at_s)
            self._ran_s += at_s - self._at_s
            self._at_s = at_s

    def _clear(self) -> None:
        self._seen_s = 0.0
        self._full_work = _FIRST_WORK
        self._stretches: list[_Stretch] = []
        self._open = _Stretch(0.0, 0.0)

    def _learn(self, steps: float) -> None:
        """Steps were done with the work since the last ones."""
        self._open = _joined(self._open, _Stretch(self._work, steps))
        self._seen_s += self._ran_s
        self._work = self._ran_s = 0.0
        if self._open.work < self._full_work:
            return
        self._stretches.append(self._open)
        self._open = _Stretch(0.0, 0.0)
        if len(self._stretches) == _STRETCHES:
            self._stretches = [*map(_joined, self._stretches[::2], self._stretches[1::2])]
            self._full_work *= 2.0

    def _left(self, steps: float) -> float | None:
        if self._seen_s < self._least_seen_s or not self._stretches:
            return None
        recent = self._stretches[-max(_LEAST_RECENT, len(self._stretches) // 2) :]
        left = steps * _fair_sum([each.work for each in recent]) / _fair_sum([each.steps for each in recent])
        return max(left, LEAST_LEFT_S) if math.isfinite(left) else None


class _Report(NamedTuple):
    done: float
    total: float


class _Stretch(NamedTuple):
    work: float
    steps: float


def _joined(one: _Stretch, other: _Stretch) -> _Stretch:
    return _Stretch(one.work + other.work, one.steps + other.steps)


def _fair_sum(parts: list[float]) -> float:
    """The sum, none of the parts counting for more than its share of the others.

    Work and steps are cut alike, so at a constant pace their ratio is not changed.
    """
    if len(parts) == 1:
        return parts[0]
    total = sum(parts)
    share = max(_SHARE, 2.0 / len(parts))
    return sum(min(part, share * (total - part)) for part in parts)
