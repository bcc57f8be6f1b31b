"""Jobs that may come: stretches of those that have, drawn from moments of the past that are like the present one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.kernels import Floats

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

    Jobs come in bursts, and a selection happens while some wait: what follows is not what follows any moment. So a
    stretch begins as long after a submission of the past as now is after the last one, with none in between (the Palm
    distribution, estimated from the past). stretches: how many a selection draws.
    """

    def __init__(self, seed: int, stretches: int) -> None:
        self._seed, self._stretches = seed, stretches

    def draw(self, past: NDArray[Any], now_s: float) -> list[NDArray[Any]]:
        """Rows of `Arrival`, submitted from now on; each list may be empty."""
        lots = np.random.default_rng([self._seed, DRAWS, int(np.float64(now_s).view(np.uint64))])
        count = self._stretches
        # One from each of as many equal parts of the past: the mean over them varies less than that of free draws.
        places = (np.arange(count) + lots.random(count)) / count
        latest_s = max(0.0, now_s - HORIZON_S)
        begins_s = places * latest_s
        alike_s = _moments_like_now(past["submit_s"], now_s, latest_s)
        if len(alike_s) > 0:
            begins_s = alike_s[np.minimum((places * len(alike_s)).astype(np.int64), len(alike_s) - 1)]
        return [_stretch(past, begin_s, now_s) for begin_s in begins_s.tolist()]


def _moments_like_now(submit_s: Floats, now_s: float, latest_s: float) -> Floats:
    """When in the past, up to `latest_s`, the last submission was as long ago as it is now."""
    if len(submit_s) == 0:
        return submit_s
    since_s = now_s - submit_s[-1]
    moments_s = submit_s[:-1] + since_s
    return moments_s[(moments_s <= submit_s[1:]) & (moments_s <= latest_s)]


def _stretch(past: NDArray[Any], from_s: float, now_s: float) -> NDArray[Any]:
    """The jobs of the horizon that begins at `from_s`, as if it began now."""
    first, last = np.searchsorted(past["submit_s"], (from_s, from_s + HORIZON_S), side="right")
    coming = past[int(first) : min(int(last), int(first) + MOST_JOBS)].copy()
    coming["submit_s"] += now_s - from_s
    return coming
