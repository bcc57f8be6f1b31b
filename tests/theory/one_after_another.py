"""Given arrivals and given sizes for Ciw."""

from __future__ import annotations

from collections.abc import Iterable

import ciw.dists


class OneAfterAnother(ciw.dists.Distribution):
    """The values of a sequence, then infinity: no further arrival.

    Ciw's own `Sequential` starts again from the beginning, and holds an iterator that it copies, which Python warns of
    since 3.12 and does not allow since 3.14.
    """

    def __init__(self, values: Iterable[float]) -> None:
        self._values = list(values)
        self._next = 0

    def sample(self, t: float | None = None, ind: object = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The next value."""
        self._next += 1
        return self._values[self._next - 1] if self._next <= len(self._values) else float("inf")
