"""The twin as evaluator: a policy's text in, the objectives' values out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from betimes.foresight.objectives import Values
from betimes.foresight.predict import run_rows_predicting
from betimes.foresight.sampling import drawn
from betimes.foresight.simulate import predicting
from betimes.foresight.tuning.problem import Problem
from betimes.kernels import Floats, as_array
from betimes.outcome import Result
from betimes.policies import parse_policy
from betimes.twin.pool.simulation import Simulation
from betimes.twin.pool.trace_loop import run_rows


class Evaluator:
    """Runs policies on one problem; all that does not depend on the policy is done once."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        run_rows.load()
        if problem.predicts:
            run_rows_predicting.load()
        self._wanted = drawn(len(problem.workload), problem.predict_sample, problem.seed)

    def values(self, policy: str) -> Values | None:
        """The objectives' values, in their order; None where some job never finishes under the policy.

        Raises PolicyError and PolicyViolation.
        """
        result = self.result(policy)
        if not result.jobs.finished.all():
            return None
        values = tuple(objective.value(result) for objective in self.problem.objectives)
        return values if all(map(math.isfinite, values)) else None

    def result(self, policy: str, progress: Callable[[int], object] | None = None) -> Result:
        """The whole result of one run; progress receives the number of jobs submitted so far."""
        run = self._simulation(policy)
        run.run(predicting(run, self._wanted) if self.problem.predicts else None, progress)
        return run.result()

    def sizes(self) -> Floats:
        """(jobs,) the sizes that the scheduler believes at submission, seconds on one unit."""
        return np.array(as_array(self._simulation("fifo").trace.arrivals)["believed"])

    def _simulation(self, policy: str) -> Simulation:
        problem = self.problem
        return Simulation(
            problem.workload,
            parse_policy(policy),
            units=problem.units,
            fractional=problem.fractional,
            curves=problem.curves,
            sizes=problem.sizes,
            seed=problem.seed,
            restart_s=problem.restart_s,
            resize_interval_s=problem.resize_interval_s,
            resize_gain=problem.resize_gain,
            cluster=problem.cluster,
            timeline=problem.watches,
        )
