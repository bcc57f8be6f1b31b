"""Jobs that may come: stretches of those that have, drawn from anywhere in the past."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

HORIZON_S = 3600.0
"""How far a stretch reaches; the machines of most offers are paid by the hour."""

MOST_JOBS = 300
"""Of a stretch; later ones are left out."""

DRAWS = 0xA881  # sets the draws of stretches apart from other draws of the seed


class Draws(Protocol):
    """What says which jobs may be submitted next."""

    def draw(self, past: NDArray[Any], now_s: float) -> list[NDArray[Any]]:
        """Scenarios: rows of `Arrival`, at most `MOST_JOBS`, in order of submission, from now on.

        past: the jobs that have been submitted, as `Submitted.jobs`.
        """
        ...


class Arrivals:
    """Draws what may be submitted next; the same at the same time with the same seed, whatever was drawn before.

    stretches: how many a selection draws; of fewer these are the first.
    """

    def __init__(self, seed: int, stretches: int) -> None:
        self._seed, self._stretches = seed, stretches

    def draw(self, past: NDArray[Any], now_s: float) -> list[NDArray[Any]]:
        """Rows of `Arrival`, submitted from now on; each list may be empty."""
        lots = np.random.default_rng([self._seed, DRAWS, int(np.float64(now_s).view(np.uint64))])
        latest_s = max(0.0, now_s - HORIZON_S)
        return [
            _stretch(past, from_s, now_s) for from_s in lots.uniform(0.0, latest_s, self._stretches).tolist()
        ]


def _stretch(past: NDArray[Any], from_s: float, now_s: float) -> NDArray[Any]:
    """The jobs of the horizon that begins at `from_s`, as if it began now."""
    first, last = np.searchsorted(past["submit_s"], (from_s, from_s + HORIZON_S), side="right")
    coming = past[int(first) : min(int(last), int(first) + MOST_JOBS)].copy()
    coming["submit_s"] += now_s - from_s
    return coming
