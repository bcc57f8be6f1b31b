"""Jobs that may come: stretches of those that have, drawn from moments of the past that are like the present one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.kernels import Floats, Ints

HORIZON_S = 3600.0
"""How far a stretch reaches; the machines of most offers are paid by the hour."""

MOST_JOBS = 300
"""Of a stretch; later ones are left out."""

CHOICE = 8
"""Moments that are looked at for each stretch that is drawn."""

NEWEST_JOBS = 1_000
"""Moments that follow one of these are looked at: what is submitted changes within weeks."""

CONFIRMING = 2
"""Times as many stretches are drawn to confirm a choice as to make it."""

DRAWS, OTHER_DRAWS = 0xA881, 0xC0F1  # set the draws of stretches apart from other draws of the seed


class Draws(Protocol):
    """What says which jobs may be submitted next."""

    def draw(self, past: NDArray[Any], now_s: float, *, to_confirm: bool = False) -> list[NDArray[Any]]:
        """Scenarios: rows of `Arrival`, at most `MOST_JOBS`, in order of submission, from now on.

        past: the jobs that have been submitted, as `Submitted.jobs`. to_confirm: a choice that was made by others.
        """
        ...


class Arrivals:
    """Draws what may be submitted next; the same at the same time with the same seed, whatever was drawn before.

    Jobs come in bursts, and a selection happens while some wait: what follows is not what follows any moment. So a
    stretch begins as long after a submission of the past as now is after the last one, with none in between (the Palm
    distribution, estimated from the newest jobs); of `CHOICE` times as many, those are taken before which about as many
    jobs were submitted in an hour as now. stretches: how many a selection draws.
    """

    def __init__(self, seed: int, stretches: int) -> None:
        self._seed, self._stretches = seed, stretches

    def draw(self, past: NDArray[Any], now_s: float, *, to_confirm: bool = False) -> list[NDArray[Any]]:
        """Rows of `Arrival`, submitted from now on; each list may be empty."""
        stream, count = (
            (OTHER_DRAWS, CONFIRMING * self._stretches) if to_confirm else (DRAWS, self._stretches)
        )
        lots = np.random.default_rng([self._seed, stream, int(np.float64(now_s).view(np.uint64))])
        latest_s, submit_s = max(0.0, now_s - HORIZON_S), past["submit_s"]
        first = max(0, int(np.searchsorted(submit_s, latest_s, side="right")) - NEWEST_JOBS)
        after = first + _moments_like_now(submit_s[first:], now_s, latest_s)
        if len(after) == 0:
            begins_s = lots.uniform(min(latest_s, float(submit_s[first])) if first else 0.0, latest_s, count)
        else:
            drawn = after[_places(lots, CHOICE * count, len(after))]
            last = len(submit_s) - 1
            unlike = np.abs(_load(submit_s, drawn) - _load(submit_s, np.array([last])))
            nearest = drawn[np.argsort(unlike, kind="stable")[:count]]
            begins_s = submit_s[nearest] + (now_s - submit_s[last])
        return [_stretch(past, begin_s, now_s) for begin_s in begins_s.tolist()]


def _places(lots: np.random.Generator, count: int, among: int) -> Ints:
    """Numbers below `among`, one from each of `count` equal parts: their mean varies less than that of free draws."""
    places = (np.arange(count) + lots.random(count)) * (among / count)
    return np.minimum(places.astype(np.int64), among - 1)


def _moments_like_now(submit_s: Floats, now_s: float, latest_s: float) -> Ints:
    """The submissions after which there was none for as long as there is none now; by `latest_s` that time was over."""
    if len(submit_s) == 0:
        return np.zeros(0, np.int64)
    moments_s = submit_s[:-1] + (now_s - submit_s[-1])
    return np.flatnonzero((moments_s <= submit_s[1:]) & (moments_s <= latest_s))


def _load(submit_s: Floats, rows: Ints) -> Floats:
    """The logarithm of how many jobs were submitted in the hour up to each of these submissions."""
    return np.log1p(rows + 1 - np.searchsorted(submit_s, submit_s[rows] - HORIZON_S, side="right"))


def _stretch(past: NDArray[Any], from_s: float, now_s: float) -> NDArray[Any]:
    """The jobs of the horizon that begins at `from_s`, as if it began now."""
    first, last = np.searchsorted(past["submit_s"], (from_s, from_s + HORIZON_S), side="right")
    coming = past[int(first) : min(int(last), int(first) + MOST_JOBS)].copy()
    coming["submit_s"] += now_s - from_s
    return coming
