"""The use of a run over its time, in a file of bounded size.

A look is taken every two seconds at first, and every ten once the run is long. The file holds at most `MOST` points;
once it is full, two become one, so that it always covers the whole run.
"""

from __future__ import annotations

import os

from .files import CURVE, as_json, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 300  # points; even
FIRST_S, SLOWEST_S = 2.0, 10.0  # between two looks


class Curve:
    """Points of a run: until when, s since its start; processor time so far, s; memory at most since the point before,
    bytes; and, where its GPUs were measured, the time so far that they were busy, s, and bytes of their memory at most.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, CURVE)
        self._every_s = FIRST_S  # covered by a point
        self._points: list[tuple[Any, ...]] = []
        self._gpu_s = 0.0
        self._about: dict[str, int] = {}

    @property
    def look_s(self) -> float:
        """Time between two looks, s."""
        return min(self._every_s, SLOWEST_S)

    def add(
        self, at_s: float, cpu_s: float, memory_bytes: int, gpus: tuple[float, int, int] | None = None
    ) -> None:
        """Take a look in, and write the file. OSError where that is not possible.

        gpus: those busy, bytes of their memory in use, and in all; null: not measured.
        """
        before, last = self._points[:-1], self._points[-1:]
        since_s = before[-1][0] if before else 0.0
        used_s = max([cpu_s, *(point[1] for point in last)])
        point: tuple[Any, ...] = (round(at_s, 2), round(used_s, 3), memory_bytes)
        if gpus is not None:
            self._gpu_s += gpus[0] * (at_s - (last[0][0] if last else 0.0))
            self._about["gpu_memory_bytes"] = gpus[2]
            point += (round(self._gpu_s, 3), gpus[1])
        if last and at_s - since_s <= self._every_s:
            self._points, point = before, _joined(last[0], point)
        self._points.append(point)
        if len(self._points) == MOST:
            self._points = list(map(_joined, self._points[::2], self._points[1::2]))
            self._every_s *= 2.0
        write_atomically(self._path, as_json({"points": self._points, **self._about}))


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """A point for the time of two that follow each other."""
    gpus = [point[3:] for point in (one, other) if point[3:]]
    of_gpus = (gpus[-1][0], max(most for _, most in gpus)) if gpus else ()
    return (*other[:2], max(one[2], other[2]), *of_gpus)
