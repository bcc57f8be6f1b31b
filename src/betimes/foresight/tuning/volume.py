"""How good a front is: which points no other dominates, and the hypervolume that they dominate (moocore)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from betimes.kernels import Floats, Ints

ROOM = 0.1  # beyond the worst cost, so that a point at the edge of the box counts for something


@dataclass(frozen=True)
class Box:
    """Where hypervolume is measured: from the best to somewhat beyond the worst cost that the first points had."""

    best: tuple[float, ...]
    reference: tuple[float, ...]

    @classmethod
    def around(cls, costs: Floats) -> Box | None:
        """The box of (points, objectives) costs; impossible points do not count, and of nothing there is none."""
        finite = costs[np.isfinite(costs).all(axis=1)]
        if not len(finite):
            return None
        best, worst = finite.min(axis=0), finite.max(axis=0)
        span = np.asarray(
            np.where(worst > best, worst - best, np.maximum(1.0, np.abs(best))), dtype=np.float64
        )
        return cls(tuple(best.tolist()), tuple((worst + ROOM * span).tolist()))

    def volume(self, costs: Floats) -> float:
        """The part of the box that (points, objectives) costs dominate; above 1 where they are better than its best."""
        best, reference = np.array(self.best), np.array(self.reference)
        scaled = (costs - best) / (reference - best)
        inside = scaled[(scaled < 1.0).all(axis=1)]
        if not len(inside):
            return 0.0
        moocore: Any = import_module("moocore")  # without types; a service starts without it
        return float(moocore.hypervolume(inside, ref=np.ones(len(best))))


def front_of(costs: Floats) -> Ints:
    """Rows of the (points, objectives) costs that no other is better than, sorted by them; of equals the first.

    Impossible points (infinite) are never among them.
    """
    finite = np.flatnonzero(np.isfinite(costs).all(axis=1))
    order = finite[np.lexsort((finite, *costs[finite].T[::-1]))]
    kept: list[int] = []
    for row in order:
        if not any(bool(np.all(costs[other] <= costs[row])) for other in kept):
            kept.append(int(row))
    return np.array(kept, dtype=np.int64)
