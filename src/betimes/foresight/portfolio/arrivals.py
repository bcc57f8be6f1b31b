"""Jobs that may come: stretches of those that have, drawn from anywhere in a run's past."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.kernels import as_array
from betimes.twin.nodes.simulation import NodesSimulation

SCENARIOS = 5
"""Stretches that each selection draws."""

HORIZON_S = 3600.0
"""How far a stretch reaches; the machines of most offers are paid by the hour."""

MOST_JOBS = 300
"""Of a stretch; later ones are left out."""

DRAWS = 0xA881  # sets the draws of stretches apart from other draws of the seed


class Draws(Protocol):
    """What says which jobs may be submitted next."""

    def draw(self, now_s: float) -> list[NDArray[Any]]:
        """Scenarios: rows of `Arrival`, at most `MOST_JOBS`, in order of submission, from now on."""
        ...


class Arrivals:
    """Draws what may be submitted next; jobs that have not finished are as long as is believed."""

    def __init__(self, run: NodesSimulation) -> None:
        self._run = run
        self._lots = np.random.default_rng([run.seed, DRAWS])
        self._finished = np.zeros(len(run.jobs), dtype=bool)
        self._noted = 0

    def draw(self, now_s: float) -> list[NDArray[Any]]:
        """Rows of `Arrival`, submitted from now on; each list may be empty."""
        run, submitted = self._run, int(self._run.row[0])
        outcomes = as_array(run.trace.outcomes)["row"][self._noted : int(run.trace.finished[0])]
        self._finished[outcomes] = True
        self._noted += len(outcomes)
        past = as_array(run.trace.arrivals)[:submitted]
        latest_s = max(0.0, now_s - HORIZON_S)
        return [
            self._stretch(past, float(self._lots.uniform(0.0, latest_s)), now_s) for _ in range(SCENARIOS)
        ]

    def _stretch(self, past: NDArray[Any], from_s: float, now_s: float) -> NDArray[Any]:
        """The jobs of the horizon that begins at `from_s`, as if it began now."""
        first, last = np.searchsorted(past["submit_s"], (from_s, from_s + HORIZON_S), side="right")
        rows = slice(int(first), min(int(last), int(first) + MOST_JOBS))
        coming = past[rows].copy()
        coming["submit_s"] += now_s - from_s
        coming["run_s"] = np.where(self._finished[rows], coming["run_s"], coming["believed_s"])
        coming["believed_s"] = coming["run_s"]
        coming["believed_per_work"] = 1.0
        return coming
