"""The operator's own objective in place of utility: a metric of the jobs, or what is paid for machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError, PolicyError
from betimes.foresight.objectives import Objective, parse_objective
from betimes.foresight.portfolio.lookahead import Ended, Foreseen
from betimes.kernels import Floats, as_array
from betimes.outcome import metrics
from betimes.policies.nodes.portfolio import UTILITY
from betimes.twin.nodes.simulation import NodesSimulation

COST = "cost"
KNOWN = ("jct", "wait", "slowdown", "makespan")
"""Metrics that are known of a job before it is promised anything, and without its neighbours."""


def asked_for(text: str) -> Objective | str | None:
    """An objective, `cost`, or None for utility; raises PolicyError for one by which no selection can go."""
    where = f"policy portfolio, parameter objective: {text}"
    if text in (UTILITY, COST):
        return None if text == UTILITY else COST
    metric = text.partition(":")[0]
    if metric == COST:
        raise PolicyError(f"{where}: what is paid is one sum of all machines; write objective=cost")
    try:
        objective = parse_objective(text)
    except InputError as error:
        raise PolicyError(
            f"policy portfolio, parameter objective: {error}; or {UTILITY}, or {COST}"
        ) from error
    if objective.metric not in KNOWN:
        raise PolicyError(
            f"{where}: a simulation of the jobs that wait does not show {objective.metric}; choose "
            f"{UTILITY}, {COST}, or one of {', '.join(KNOWN)}"
        )
    return objective


@dataclass
class Aim:
    """What the members' simulations come to by an objective; smaller is better.

    alone: of the jobs simulated; else of the whole run, with the jobs that have finished.
    """

    run: NodesSimulation
    objective: Objective | str
    alone: bool
    _past: list[Floats] = field(default_factory=list[Floats])
    _finished: int = 0

    def __post_init__(self) -> None:
        """Raises PolicyError for cost where nothing can be rented."""
        if self.objective == COST and not self.run.rents:
            raise PolicyError(
                "policy portfolio, parameter objective: cost: no member rents machines, so that all cost the same; "
                "choose another objective"
            )

    def look(self) -> None:
        """Take the jobs that have finished since the last time into account."""
        if not self.alone and isinstance(self.objective, Objective):
            finished = int(self.run.trace.finished[0])
            outcomes = as_array(self.run.trace.outcomes)[self._finished : finished]
            run_s = as_array(self.run.trace.arrivals)["run_s"][outcomes["row"]]
            self._past = [np.concatenate([*self._past, self._of_each(outcomes, run_s)])]
            self._finished = finished

    def value(self, foreseen: Foreseen, outcomes: Ended, run_s: Floats) -> float:
        """Of a simulation, and what came of its jobs: in seconds or as a ratio, cost in USD from now on."""
        objective = self.objective
        if not isinstance(objective, Objective):
            return foreseen.used_s / 3600.0 * float(self.run.state.offers[0].usd_per_h)
        values = np.concatenate([*self._past, self._of_each(outcomes, run_s)])
        if objective.metric == "makespan":
            return float(values.max())
        return objective.measured(values)

    def _of_each(self, outcomes: NDArray[Any], run_s: Floats) -> Floats:
        """The metric of each of these jobs."""
        assert isinstance(self.objective, Objective)
        submit_s = as_array(self.run.trace.arrivals)["submit_s"][outcomes["row"]]
        metric, jct_s = self.objective.metric, metrics.jct(submit_s, outcomes["finish_s"])
        if metric == "makespan":
            return outcomes["finish_s"] - float(self.run.jobs.submit_s[0])
        if metric == "wait":
            return metrics.wait(submit_s, outcomes["start_s"])
        return metrics.slowdown(jct_s, run_s) if metric == "slowdown" else jct_s
