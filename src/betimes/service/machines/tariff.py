"""What a machine costs by the second, when its price changes: exact."""

from __future__ import annotations

import math
from fractions import Fraction


class Tariff:
    """The price of an instance type over time. Instants are given in their order."""

    def __init__(self, usd_per_h: float) -> None:
        self._from: list[tuple[float, Fraction]] = [(-math.inf, Fraction(usd_per_h))]

    @property
    def usd_per_h(self) -> float:
        """The present price."""
        return float(self._from[-1][1])

    def change(self, at_s: float, usd_per_h: float) -> None:
        """Another price, for every second that begins at `at_s` or later."""
        self._from.append((at_s, Fraction(usd_per_h)))

    def charge(self, since_s: float, until_s: float) -> Fraction:
        """USD for a machine that ran so long: every second begun is charged in full, at the price when it began."""
        begun = 0
        total = Fraction(0)
        for number, (_, usd_per_h) in enumerate(self._from, start=1):
            change_s = self._from[number][0] if number < len(self._from) else math.inf
            by_then = _seconds_begun(since_s, min(change_s, until_s))
            total += (by_then - begun) * usd_per_h / 3600
            begun = by_then
        return total


def _seconds_begun(since_s: float, before_s: float) -> int:
    # Fractions: a difference of floats may round up to a second that was never begun.
    return math.ceil(Fraction(before_s) - Fraction(since_s)) if before_s > since_s else 0
