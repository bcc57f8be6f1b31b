"""An operator's objective in place of utility: a metric of the jobs, or the cost of machines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError, PolicyError
from betimes.foresight.objectives import Objective, parse_objective
from betimes.foresight.portfolio.lookahead import Ended, Foreseen, Simulated
from betimes.kernels import Floats, as_array
from betimes.outcome import metrics
from betimes.policies.nodes.portfolio import UTILITY
from betimes.units import S_PER_H

COST = "cost"
KNOWN = ("jct", "wait", "slowdown", "pred_err", "makespan")
"""Metrics of a job that need no other jobs."""


@dataclass(frozen=True)
class Cost:
    """The cost of rented machines plus the price of an hour that a job waits, in USD."""

    wait_usd_per_h: float = 0.0


def asked_for(text: str, rents: bool) -> Objective | Cost | None:
    """An objective, the cost, or None for utility; raises PolicyError for an objective that selections cannot use.

    rents: whether some member rents machines.
    """
    where = f"policy portfolio, parameter objective: {text}"
    if text == UTILITY:
        return None
    metric, colon, rest = text.partition(":")
    if metric == COST:
        if not rents:
            raise PolicyError(
                f"{where}: no member rents machines, so that all cost the same; choose another objective"
            )
        return Cost(_usd_per_h(rest, where) if colon else 0.0)
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


def _usd_per_h(text: str, where: str) -> float:
    try:
        usd = float(text)
    except ValueError:
        usd = math.nan
    if not 0.0 <= usd < math.inf:
        raise PolicyError(
            f"{where}: what is paid is one sum of all machines; write objective=cost, or objective=cost:0.5 where an "
            "hour for which a job waits counts like 0.5 USD"
        )
    return usd


@dataclass
class Aim:
    """The value of members' simulations by an objective; smaller is better.

    alone: of the simulated jobs; else of the whole run, with the finished jobs. begin_s: start of a makespan.
    """

    objective: Objective | Cost
    alone: bool
    begin_s: float = 0.0
    _submit_s: Floats = field(default_factory=lambda: np.zeros(0))  # by row
    _promised_s: Floats = field(default_factory=lambda: np.zeros(0))  # likewise
    _past: Floats = field(default_factory=lambda: np.zeros(0))
    _finished: int = 0

    def look(self, run: Simulated) -> None:
        """Take submitted and finished jobs into account; called before members are simulated."""
        arrivals = as_array(run.trace.arrivals)
        self._submit_s, self._promised_s = arrivals["submit_s"], run.promised_s
        if not self.alone and isinstance(self.objective, Objective):
            finished = int(run.trace.finished[0])
            outcomes = as_array(run.trace.outcomes)[self._finished : finished]
            values = self._of_each(self.objective, outcomes, arrivals["run_s"][outcomes["row"]])
            self._past = np.concatenate([self._past, values])
            self._finished = finished

    def value(self, foreseen: Foreseen, outcomes: Ended, run_s: Floats) -> float:
        """The value of a simulation with these outcomes: seconds or a ratio; a cost in USD from now on."""
        objective = self.objective
        if not isinstance(objective, Objective):
            wait_h = float(self._wait_s(outcomes, run_s).sum()) / S_PER_H
            return foreseen.used_usd + objective.wait_usd_per_h * wait_h
        values = np.concatenate([self._past, self._of_each(objective, outcomes, run_s)])
        if objective.predicts and len(values) == 0:
            return 0.0  # no job has a promise to keep
        if objective.metric == "makespan":
            return float(values.max())
        return objective.measured(values)

    def _of_each(self, objective: Objective, outcomes: NDArray[Any], run_s: Floats) -> Floats:
        """The metric of each of these jobs; of promises, that of each job that has one."""
        if objective.predicts:
            rows = outcomes["row"]
            promised_s = self._promised_s[rows]
            errors = metrics.prediction_error(self._submit_s[rows], outcomes["finish_s"], promised_s)
            return np.abs(errors[~np.isnan(promised_s)])
        jct_s = metrics.jct(self._submit_s[outcomes["row"]], outcomes["finish_s"])
        if objective.metric == "makespan":
            return outcomes["finish_s"] - self.begin_s
        if objective.metric == "wait":
            return metrics.wait(self._submit_s[outcomes["row"]], outcomes["start_s"])
        return metrics.slowdown(jct_s, run_s) if objective.metric == "slowdown" else jct_s

    def _wait_s(self, outcomes: NDArray[Any], run_s: Floats) -> Floats:
        """The waiting time of each of these jobs, s; work lost by preemption counts as waiting."""
        began_s = np.where(outcomes["preemptions"] > 0, outcomes["finish_s"] - run_s, outcomes["start_s"])
        return np.maximum(began_s - self._submit_s[outcomes["row"]], 0.0)
