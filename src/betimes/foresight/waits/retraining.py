"""A model of waits that is trained anew while the simulation goes on: on a schedule, and where its errors grow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from betimes.core.nodes.wait_features import DECIDED_S, PREDICTED_S
from betimes.errors import PolicyError
from betimes.foresight.waits.learning import FEWEST, evaluate, fit, observe
from betimes.kernels import as_array
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import run_rows

SHORTEST_S = 3600.0
PERIODS = 4  # of the past to train on
LOOKS = 8  # in a period: whether errors have grown
DRIFT = 2.0  # times the error on jobs held back in training: train at once
HELD_BACK = 0.2  # of the jobs, to know that error


class Retraining:
    """A step for `NodesSimulation.run` that trains the model again every `every_s`, and where errors have doubled.

    It is trained on the jobs that were submitted in the last PERIODS and have ended: their run times are known, so that
    what would have waited for how long is simulated, also for those that never waited. Raises PolicyError.
    """

    def __init__(self, run: NodesSimulation, every_s: float, kind: str = "boosting") -> None:
        if every_s < SHORTEST_S:
            raise PolicyError(
                f"policy {run.policy}, parameter retrain: expected at least 1h, found {every_s:g} s"
            )
        self.run, self.every_s, self.kind = run, every_s, kind
        self.next_s = float(run.jobs.submit_s[0]) + every_s
        self.look_s = every_s / LOOKS
        self.error_s = float("inf")
        self.told = 0  # outcomes that a training has seen
        self.trained_s: list[float] = []
        self.drifted_s: list[float] = []

    def __call__(self, stop: int) -> int:
        """Submit the jobs up to row `stop`, or up to where the next look is due; returns the loop's status."""
        run, submit_s = self.run, self.run.jobs.submit_s
        row = int(run.row[0])
        if row < len(submit_s) and not run.state.cluster[0].pending:
            now_s = float(submit_s[row])
            if now_s >= self.next_s:
                self._train(now_s)
            elif self._has_drifted():
                self.drifted_s.append(now_s)
                self._train(now_s)
            due_s = min(self.next_s, now_s + self.look_s)
            stop = min(stop, max(row + 1, int(np.searchsorted(submit_s, due_s))))
        return run_rows(run.state, run.rules, run.trace, run.row, stop, math.inf)

    def _train(self, now_s: float) -> None:
        run = self.run
        self.next_s = now_s + self.every_s
        ended = as_array(run.trace.outcomes)["row"][: run.trace.finished[0]]
        self.told = len(ended)
        recent = np.sort(ended[run.jobs.submit_s[ended] >= now_s - PERIODS * self.every_s])
        if len(recent) < FEWEST:
            return
        observed = observe(run.jobs[recent], run.policy, run.cluster, sizes=run.sizes)
        cut = int((1.0 - HELD_BACK) * len(observed))
        if cut < FEWEST:
            return
        model = fit(self.kind, observed[slice(0, cut)])
        self.error_s = evaluate(model, observed[slice(cut, None)]).error_s
        self.trained_s.append(now_s)
        run.rules = model.into(run.rules)

    def _has_drifted(self) -> bool:
        """Whether the waits since the last training were predicted much worse than in training."""
        run = self.run
        came: Any = as_array(run.trace.outcomes)[self.told : run.trace.finished[0]]
        rows = run.trace.features[self.told : run.trace.finished[0]]
        waited = (came["offer"] < 0) & ~np.isnan(rows[:, PREDICTED_S])
        if np.sum(waited) < FEWEST:
            return False
        error_s = np.abs(came["start_s"] - rows[:, DECIDED_S] - rows[:, PREDICTED_S])[waited]
        return float(error_s.mean()) > DRIFT * self.error_s


def stepping(run: NodesSimulation) -> Callable[[int], int] | None:
    """The step of a run whose policy is to be trained again, None: it is not."""
    every_s = run.policy.values.get("retrain")
    return Retraining(run, float(every_s)) if isinstance(every_s, int | float) and every_s > 0.0 else None
