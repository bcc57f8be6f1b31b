"""The use of a run over its time, in a file of bounded size.

A look is taken every two seconds at first, and every ten once the run is long. The file holds at most `MOST` points;
once it is full, two become one, so that it always covers the whole run.
"""

from __future__ import annotations

import os

from .files import CURVE, as_json, write_atomically

MOST = 300  # points; even
FIRST_S, SLOWEST_S = 2.0, 10.0  # between two looks


class Curve:
    """Points of a run: until when, s since its start; processor time so far, s; memory at most since the point before,
    bytes.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, CURVE)
        self._every_s = FIRST_S  # covered by a point
        self._points: list[tuple[float, float, int]] = []

    @property
    def look_s(self) -> float:
        """Time between two looks, s."""
        return min(self._every_s, SLOWEST_S)

    def add(self, at_s: float, cpu_s: float, memory_bytes: int) -> None:
        """Take a look in, and write the file. OSError where that is not possible."""
        before, last = self._points[:-1], self._points[-1:]
        since_s = before[-1][0] if before else 0.0
        if last and at_s - since_s <= self._every_s:
            self._points, memory_bytes = before, max(memory_bytes, last[0][2])
        used_s = max([cpu_s, *(used for _, used, _ in last)])
        self._points.append((round(at_s, 2), round(used_s, 3), memory_bytes))
        if len(self._points) == MOST:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [(at, used, max(first[2], most)) for first, (at, used, most) in pairs]
            self._every_s *= 2.0
        write_atomically(self._path, as_json({"points": self._points}))
