"""The interval around a promise, from how far this service's own promises have been off.

The quantiles are those of the ratio of the true time to the promised one, over the last promises whose jobs have
finished: of the same command and basis where there are enough, else of the same user and basis, else of the same basis,
else of all. Of another command only the latest few count, since a hundred runs of one say little of the next. What
share may lie outside is adapted to what does (adaptive conformal inference, Gibbs and Candes 2021): one rate for each
end, shared by all classes. A miss counts when the upper end passes, not when the job ends, so that long jobs vote as
early as short ones.

All of it is a fold of the event log: a recovery, and a replay, give the same intervals.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

MOST = 500  # promises that are remembered
LEAST = 20  # of a class, before its quantiles are used
MOST_OF_ANOTHER = 3  # of one command, for jobs of another
RATE = 0.02  # of the adaptation
SLACK_S = 1.0  # added to both times of a ratio: a second more or less is no error
INTERVAL = ("finish_low_at", "finish_median_at", "finish_high_at", "level")
"""A promise's interval in the rows of table `quotes`."""
SAME_S = 1e-3  # instants that are no further apart are one


class Interval(NamedTuple):
    """Low, median and high of an end, seconds since 1970."""

    low_at: float
    median_at: float
    high_at: float


@dataclass
class Open:
    """A promise whose job is not over; without an interval, `high_at` is null."""

    user: str
    command: str  # `JobSpec.history_key`
    basis: str
    made_at: float
    finish_at: float
    low_at: float | None
    high_at: float | None
    level: float
    is_late: bool = False  # its upper end has passed


class PromiseErrors:
    """Promises that are open, and the errors of the last ones that were kept or broken."""

    def __init__(self) -> None:
        self._known: deque[tuple[str, str, str, float]] = deque(maxlen=MOST)  # user, command, basis, ratio
        self._open: dict[int, list[Open]] = {}  # by job
        self._ends: list[tuple[float, int, int]] = []  # upper ends: instant, job, place in its list
        self._low, self._high = 0.0, 0.0  # added to the share that may lie outside, at either end
        self._sorted: dict[
            tuple[str | None, str | None, str | None], list[float]
        ] = {}  # ratios by class, until one is added

    def around(
        self, user: str, command: str, basis: str, made_at: float, finish_at: float | None, level: float
    ) -> Interval | None:
        """The interval that an end lies in with probability `level`; null: there are few jobs like this one yet."""
        if finish_at is None:
            return None
        classes = ((user, command, basis), (user, None, basis), (None, None, basis), (None, None, None))
        ratios = next((found for each in classes if len(found := self._ratios(*each)) >= LEAST), None)
        if ratios is None:
            return None
        promised_s, outside = max(0.0, finish_at - made_at) + SLACK_S, (1.0 - level) / 2.0
        low, high = _rank(ratios, outside + self._low), _rank(ratios, outside + self._high)
        ends = ratios[low], ratios[len(ratios) // 2], ratios[len(ratios) - 1 - high]
        return Interval(*(made_at + max(0.0, promised_s * ratio - SLACK_S) for ratio in sorted(ends)))

    def promised(self, job: int, user: str, command: str, quote: dict[str, Any]) -> None:
        """A promise was made to a job, as table `quotes` has it."""
        if quote["finish_at"] is None:
            return
        found = self._open.setdefault(job, [])
        low_at, high_at = quote.get("finish_low_at"), quote.get("finish_high_at")
        times = quote["made_at"], quote["finish_at"], low_at, high_at
        found.append(Open(user, command, quote["basis"], *times, quote.get("level") or 0.0))
        if high_at is not None:
            heapq.heappush(self._ends, (high_at, job, len(found) - 1))

    def passed(self, at: float) -> None:
        """Count the promises whose upper end lies before an instant."""
        while self._ends and self._ends[0][0] + SAME_S < at:
            end_at, job, place = heapq.heappop(self._ends)
            found = self._open.get(job, ())
            if place < len(found) and found[place].high_at == end_at:  # else the job is over, or held since
                found[place].is_late = True
                self._settle(found[place], low=False, high=True)

    def finished(self, job: int, at: float) -> None:
        """A job has finished at an instant, at the latest now."""
        for one in self._open.pop(job, ()):
            self._known.append((one.user, one.command, one.basis, _ratio(one, at)))
            self._sorted.clear()
            if one.low_at is None or one.high_at is None:
                continue
            if not one.is_late:
                self._settle(one, low=at < one.low_at - SAME_S, high=False)
            elif at <= one.high_at + SAME_S:  # nobody knew of its end when the bound passed
                self._high += RATE

    def dropped(self, job: int) -> None:
        """A job has ended otherwise, or its promises are void."""
        self._open.pop(job, None)

    def _settle(self, one: Open, *, low: bool, high: bool) -> None:
        outside = (1.0 - one.level) / 2.0
        self._low += RATE * (outside - low)
        self._high += RATE * (outside - high)

    def _ratios(self, user: str | None, command: str | None, basis: str | None) -> list[float]:
        """The ratios of a class in ascending order; null stands for any."""
        if (user, command, basis) not in self._sorted:
            found, counts = list[float](), Counter[tuple[str, str]]()
            for whose, what, from_, ratio in reversed(self._known):
                if user in (None, whose) and command in (None, what) and basis in (None, from_):
                    counts[whose, what] += 1
                    if command is not None or counts[whose, what] <= MOST_OF_ANOTHER:
                        found.append(ratio)
            self._sorted[user, command, basis] = sorted(found)
        return self._sorted[user, command, basis]

    def to_json(self) -> dict[str, Any]:
        """All of it, for a snapshot."""
        promises = {str(job): [asdict(one) for one in found] for job, found in self._open.items()}
        return {"known": list(self._known), "open": promises, "low": self._low, "high": self._high}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> PromiseErrors:
        """That of a snapshot."""
        made = cls()
        made._known.extend(tuple(each) for each in body["known"])
        made._open = {int(job): [Open(**one) for one in found] for job, found in body["open"].items()}
        made._low, made._high = body["low"], body["high"]
        made._ends = [
            (one.high_at, job, place)
            for job, found in made._open.items()
            for place, one in enumerate(found)
            if one.high_at is not None and not one.is_late
        ]
        heapq.heapify(made._ends)
        return made


def _ratio(one: Open, at: float) -> float:
    return (max(0.0, at - one.made_at) + SLACK_S) / (max(0.0, one.finish_at - one.made_at) + SLACK_S)


def _rank(ratios: Sequence[float], outside: float) -> int:
    """How many of the ratios lie beyond an end outside of which this share may be; fewer for few ratios."""
    return min(max(math.floor((len(ratios) + 1) * outside + 1e-9) - 1, 0), (len(ratios) - 1) // 2)
