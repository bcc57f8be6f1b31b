"""The price of an instance type over time: a step function."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from betimes.cluster.checks import MOST_USD_PER_H, check_amount
from betimes.errors import ClusterError


@dataclass(frozen=True)
class Prices:
    """`usd_per_h` at first, and from each of `changes` (at_s, usd_per_h), in their order, that instead.

    Of changes at one instant the last holds. Raises ClusterError, naming the field.
    """

    usd_per_h: float
    changes: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        check_amount("usd_per_h", self.usd_per_h, MOST_USD_PER_H)
        last_s = -math.inf
        for at_s, usd_per_h in self.changes:
            check_amount("usd_per_h", usd_per_h, MOST_USD_PER_H)
            if not last_s <= at_s < math.inf:
                raise ClusterError(f"field changes: a price from {at_s} comes after one from {last_s}")
            last_s = at_s

    @property
    def latest(self) -> float:
        """The price after all changes."""
        return self.changes[-1][1] if self.changes else self.usd_per_h

    def at(self, at_s: float) -> float:
        """The price of what begins then."""
        known = self._by(at_s)
        return self.changes[known - 1][1] if known else self.usd_per_h

    def changed(self, at_s: float, usd_per_h: float) -> Prices:
        """The same with another price from then on, which is no earlier than the last change."""
        return Prices(self.usd_per_h, (*self.changes, (at_s, usd_per_h)))

    def pieces(self, since_s: float, until_s: float) -> Iterator[tuple[float, float, float]]:
        """The prices in force between two instants: (from_s, to_s, usd_per_h), in order of time."""
        from_s, price = since_s, self.at(since_s)
        for at_s, usd_per_h in self.changes[self._by(since_s) :]:
            if at_s >= until_s:
                break
            yield from_s, at_s, price
            from_s, price = at_s, usd_per_h
        yield from_s, until_s, price

    def _by(self, at_s: float) -> int:
        """How many changes there have been by then."""
        return bisect_right(self.changes, at_s, key=itemgetter(0))
