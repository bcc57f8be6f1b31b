"""The errors of past promises: of those that were alike, and how far the truth lay outside of their quantiles."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

FEW = 30  # residuals, before there is a margin; and promises by which the two sources are compared
RESIDUALS = 500  # latest of a class
ENOUGH = 100  # residuals before a class has its own margin

LEAST = 20  # errors of promises that are alike, before their quantiles are used
MOST_ALIKE = 500
MOST_OF_ANOTHER = 3  # of one command, for jobs of another: a hundred runs of one say little of the next
OUTWEIGH = 200  # errors of this cluster, beside which those of others count no more

Raw = tuple[float, float, float]
"""Low, median and high quantile of log(JCT / anchor), before the margin."""


Prior = Sequence[Sequence[float]]
"""Errors of promises on other clusters, log(JCT / JCT in the play-out), in order, by class of promise: first of those
that rest on learned run times, then of those that rest on what is asked for."""

_OF_OTHERS = Path(__file__).with_name("errors_of_others.csv")


@cache
def errors_of_others() -> Prior:
    """The errors of young clusters in public logs, which this version has learned: its file says how."""
    lines = [line for line in _OF_OTHERS.read_text().splitlines() if not line.startswith("#")]
    return tuple(tuple(map(float, line.split(",")[1:])) for line in lines)


class Likeness(NamedTuple):
    """The key by which promises are alike: the job's user and command, and where its belief is from.

    outran: the job has outrun the belief that its first promise rests on. First promises say nothing of such a one.
    stated: its user has said how long it takes, and too few of its kin have finished to know better.
    tells: its error says something of jobs of other commands (`Described.tells`).
    """

    user: str
    command: str
    basis: str
    outran: bool = False
    stated: bool = False
    tells: bool = True

    def classes(self) -> tuple[tuple[str | None, ...], ...]:
        """From that of its own command to that of all; null stands for any."""
        of_basis = (
            (self.user, self.command, self.basis),
            (self.user, None, self.basis),
            (None, None, self.basis),
        )
        return of_basis if self.outran else (*of_basis, (None, None, None))


class Window:
    """The latest `most` values, and their quantiles."""

    def __init__(self, most: int, values: Iterable[float] = ()) -> None:
        self.values: deque[float] = deque(maxlen=most)
        self._sorted: list[float] = []
        for value in values:
            self.add(value)

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: float) -> None:
        """Add a value; the oldest leaves where there are too many."""
        if len(self.values) == self.values.maxlen:
            del self._sorted[bisect_left(self._sorted, self.values[0])]
        self.values.append(value)
        insort(self._sorted, value)

    def quantile(self, level: float) -> float:
        """A quantile by linear interpolation; of at least one value."""
        place = level * (len(self._sorted) - 1)
        below = min(int(place), len(self._sorted) - 1)
        above = min(below + 1, len(self._sorted) - 1)
        return self._sorted[below] + (place - below) * (self._sorted[above] - self._sorted[below])


class Alike:
    """The latest errors of promises of one class, log(JCT / JCT in the play-out): at most `each` of one command."""

    def __init__(self, each: int, values: Iterable[tuple[str, float]] = ()) -> None:
        self.each = each
        self.of: dict[str, deque[float]] = {}  # by command; the last used is the last
        self._sorted: list[float] = []
        for command, value in values:
            self.add(command, value)

    def add(self, command: str, value: float) -> None:
        """Add an error; an older one of the command leaves, or of the command that was used longest ago."""
        latest = self.of.pop(command, None) or deque[float]()
        self.of[command] = latest
        latest.append(value)
        insort(self._sorted, value)
        if len(latest) > self.each:
            self._leave(latest)
        elif len(self._sorted) > MOST_ALIKE:
            first = next(iter(self.of))
            self._leave(self.of[first])
            if not self.of[first]:
                del self.of[first]

    def __len__(self) -> int:
        return len(self._sorted)

    def _leave(self, latest: deque[float]) -> None:
        del self._sorted[bisect_left(self._sorted, latest.popleft())]

    def raw(self, level: float, *, is_told: bool = False) -> Raw | None:
        """The quantiles, by rank, so that few values reach far; null: there are too few.

        is_told: the play-out itself counts a little more than all of them.
        """
        known = self._sorted
        if len(known) < LEAST:
            return None
        if is_told:
            known = sorted([*known, *[0.0] * (len(known) + 1)])
        low, high = _ends(known, level)
        return low, known[len(known) // 2], high

    def raw_beside(self, others: Sequence[float], level: float, median: float) -> Raw:
        """As `raw`, with ends of these errors and of `others` together, however few these are.

        median: where these are too few; others do not move it.
        """
        raw = self.raw(level)
        median = median if raw is None else raw[1]
        low, high = _ends(sorted([*self._sorted, *others]), level)
        return min(low, median), median, max(high, median)

    def values(self) -> list[tuple[str, float]]:
        """All of it, for `Alike` to be made again."""
        return [(command, value) for command, latest in self.of.items() for value in latest]


def _ends(known: Sequence[float], level: float) -> tuple[float, float]:
    """Low and high quantile of values in order, by rank."""
    count = len(known)
    outside = max(math.floor((count + 1) * (1.0 - level) / 2.0 + 1e-9) - 1, 0)
    outside = min(outside, (count - 1) // 2)
    return known[outside], known[count - 1 - outside]


class Margins:
    """The latest residuals of one source by class of promise: how far the truth lay outside its quantiles."""

    def __init__(self) -> None:
        self.kinds: dict[int, Window] = {}
        self.recent = Window(2 * RESIDUALS)  # of all classes

    def add(self, kind: int, residual: float) -> None:
        """The truth was so far outside; below 0: inside."""
        self.kinds.setdefault(kind, Window(RESIDUALS)).add(residual)
        self.recent.add(residual)

    def margin(self, kind: int, rate: float) -> float:
        """The margin of a class: it would have covered all but `rate` of its latest promises."""
        used = self.kinds.get(kind, self.recent)
        if len(used) < ENOUGH:
            used = self.recent
        return used.quantile(1.0 - rate) if len(used) >= FEW else 0.0
