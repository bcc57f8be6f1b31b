"""Jobs that may come: stretches of past submissions, drawn from moments like the present one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.kernels import Floats, Ints

HORIZON_S = 3600.0
"""Length of a stretch; the machines of most offers are billed by the hour."""

MOST_JOBS = 300
"""Of a stretch; later ones are left out."""

CHOICE = 8
"""Candidate moments for each stretch that is drawn."""

NEWEST_JOBS = 1_000
"""Candidate moments follow one of these: workloads change within weeks."""

CONFIRMING = 2
"""How many times as many stretches are drawn to confirm a choice as to make it."""

DRAWS, OTHER_DRAWS = 0xA881, 0xC0F1  # set the draws of stretches apart from other draws of the seed


class Draws(Protocol):
    """A source of jobs that may be submitted next."""

    def draw(self, past: NDArray[Any], now_s: float, *, to_confirm: bool = False) -> list[NDArray[Any]]:
        """Scenarios: rows of `Arrival`, at most `MOST_JOBS`, in order of submission, from now on.

        past: the jobs submitted so far, as `Submitted.jobs`. to_confirm: draw other scenarios, to confirm a choice.
        """
        ...


class Arrivals:
    """Draws jobs that may be submitted next; the draw depends on the time and the seed, not on earlier draws.

    Jobs come in bursts, and selections happen while some wait, so a random moment of the past is no model of the next
    hour. A stretch therefore begins as long after a past submission as now is after the last one, with none in between
    (the Palm distribution, estimated from the newest jobs); of `CHOICE` times as many candidates, the stretches with
    about as many submissions in the hour before as now are taken. stretches: how many a selection draws.
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
    """Numbers below `among`, one from each of `count` equal parts (stratified: their mean varies less)."""
    places = (np.arange(count) + lots.random(count)) * (among / count)
    return np.minimum(places.astype(np.int64), among - 1)


def _moments_like_now(submit_s: Floats, now_s: float, latest_s: float) -> Ints:
    """Submissions followed by at least as long a gap as the last one; that time was over by `latest_s`."""
    if len(submit_s) == 0:
        return np.zeros(0, np.int64)
    moments_s = submit_s[:-1] + (now_s - submit_s[-1])
    return np.flatnonzero((moments_s <= submit_s[1:]) & (moments_s <= latest_s))


def _load(submit_s: Floats, rows: Ints) -> Floats:
    """The logarithm of the number of jobs submitted in the hour up to each of these submissions."""
    return np.log1p(rows + 1 - np.searchsorted(submit_s, submit_s[rows] - HORIZON_S, side="right"))


def _stretch(past: NDArray[Any], from_s: float, now_s: float) -> NDArray[Any]:
    """The jobs of the horizon that begins at `from_s`, as if it began now."""
    first, last = np.searchsorted(past["submit_s"], (from_s, from_s + HORIZON_S), side="right")
    coming = past[int(first) : min(int(last), int(first) + MOST_JOBS)].copy()
    coming["submit_s"] += now_s - from_s
    return coming
