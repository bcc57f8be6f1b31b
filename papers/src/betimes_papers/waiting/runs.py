"""Runs of waiting policies on the later part of a trace, and their measures."""

from __future__ import annotations

import shutil
import weakref
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from betimes_papers.waiting.traces import Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from betimes.foresight.waits import Evaluation
    from betimes.workload import Workload

NOISE_SIGMA = 0.1253
"""Sigma of a relative error of 10 % in the mean."""

Figures = dict[str, float]
"""`on_demand` (% of owned machines' cost), `on_demand_usd`, `total_usd`, `wait` (h, mean of all jobs), `rented` (%)."""

UNITS = {
    "on_demand": "% of fixed", "wait": "h", "rented": "% of jobs", "on_demand_increase": "%",
    "on_demand_points": "points of fixed", "wait_increase": "%", "total_increase": "%", "mcc": "", "mape": "%",
    "shorter": "% of jobs",
}  # fmt: skip


class Runs:
    """Runs on one trace; models of waits are kept in files and fitted once for each policy."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.folder = Path(mkdtemp(prefix="betimes-waiting-"))
        weakref.finalize(self, shutil.rmtree, self.folder)
        self.models: dict[tuple[str, str, int], tuple[Path, Evaluation]] = {}
        self.estimates: dict[str, Workload] = {}

    @cached_property
    def machines(self) -> int:
        """The baseline's number of owned machines."""
        return self.case.cheapest()

    def figures(
        self, policy: str, machines: int | None = None, run_times: str | None = None, sizes: str = "true"
    ) -> Figures:
        """The figures of one run of the later jobs.

        run_times: the predictor of run times, for a policy that uses estimates; `sizes` is then `estimate`.
        """
        from betimes.foresight.nodes.simulate import simulate_nodes
        from betimes.outcome import summarise
        from betimes.policies import parse_nodes_policy
        from betimes.twin.nodes.streaming import StreamedSimulation
        from betimes.twin.options import SimulationOptions
        from betimes.twin.sizes import Sizes

        cluster, believed = (
            self.case.owned(machines or self.machines),
            sizes if run_times is None else "estimate",
        )
        if self.case.in_chunks is not None:
            chunks = self.case.in_chunks()
            if run_times is not None:
                chunks = map(self._estimator(run_times), chunks)
            options = SimulationOptions(cluster=cluster, sizes=Sizes(believed))
            run = StreamedSimulation(chunks, parse_nodes_policy(policy), options)
            run.run()
            found = run.result().summary()
        else:
            jobs = self.case.later if run_times is None else self.estimated(run_times)
            found = summarise(simulate_nodes(jobs, policy, cluster=cluster, sizes=believed))
        on_demand, fixed = float(found["on_demand_usd"]), float(found["fixed_usd"])
        return {
            "on_demand": 100.0 * on_demand / fixed,
            "on_demand_usd": on_demand,
            "total_usd": on_demand + fixed,
            "wait": float(found["wait_mean_h"]),
            "rented": 100.0 * float(found["rented_frac"]),
        }

    def model(self, kind: str, policy: str, machines: int | None = None) -> tuple[Path, Evaluation] | None:
        """A model of waits under a policy, fitted to the earlier jobs, and its evaluation on the later ones.

        None: too few of the earlier jobs wait.
        """
        from betimes.foresight.waits import FEWEST, evaluate, fit, observe
        from betimes.policies import parse_nodes_policy

        count = machines or self.machines
        key = (kind, policy, count)
        if key not in self.models:
            cluster, chosen = self.case.owned(count), parse_nodes_policy(policy)
            seen = observe(self.case.earlier, chosen, cluster)
            if len(seen) < FEWEST:
                return None
            model = fit(kind, seen)
            path = self.folder / f"{len(self.models)}.npz"
            model.save(path)
            self.models[key] = path, evaluate(model, observe(self.case.later, chosen, cluster))
        return self.models[key]

    def estimated(self, kind: str) -> Workload:
        """The later jobs with predicted run times as estimates: a kind of `run_times`, or `10 % error`."""
        if kind not in self.estimates:
            self.estimates[kind] = self._estimator(kind)(self.case.later)
        return self.estimates[kind]

    def _estimator(self, kind: str) -> Callable[[Workload], Workload]:
        """A function that replaces estimates by predicted run times, for the parts of the later jobs in order."""
        import numpy as np

        from betimes.foresight.waits.run_times import run_time_predictor

        if kind != "10 % error":
            predict = run_time_predictor(kind, self.case.earlier)
            return lambda jobs: replace(jobs, estimate_s=predict(jobs))
        rng = np.random.default_rng(1)

        def with_error(jobs: Workload) -> Workload:
            error = 1.0 + NOISE_SIGMA * rng.standard_normal(len(jobs))
            return replace(jobs, estimate_s=np.maximum(1.0, jobs.work_s / jobs.max_units * error))

        return with_error


def increased(mine: Figures, base: Figures) -> Figures:
    """The figures, and their increase over those of the oracle: in %, and of cost on demand in points of fixed cost.

    The axes of figures 7 and 9 are in points: the cost on demand in % of the owned machines'.
    """
    pairs = (("on_demand", "on_demand_usd"), ("wait", "wait"), ("total", "total_usd"))
    known = [(name, key) for name, key in pairs if key in mine and base[key] > 0.0]
    points = {"on_demand_points": mine["on_demand"] - base["on_demand"]} if "on_demand" in mine else {}
    return mine | points | {f"{name}_increase": 100.0 * (mine[key] / base[key] - 1.0) for name, key in known}
