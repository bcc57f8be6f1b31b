"""A search as it is ordered, in full: the process that carries it out needs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from betimes.cluster import Cluster
from betimes.foresight.tuning import Front, Progress, Search, tune
from betimes.service.tuning.recent import Recent
from betimes.service.views.models import TuneSpec


@dataclass(frozen=True)
class Order:
    """What to search, on what, and by what policies to measure it: the first is the one in force."""

    spec: TuneSpec
    recent: Recent
    cluster: Cluster
    restart_s: float
    resize_interval_s: float
    resize_gain: bool
    baselines: tuple[str, ...]

    def carry_out(self, stopped: Callable[[], bool], progress: Callable[[Progress], object]) -> Front:
        """The front. Jobs that the cluster cannot hold now are left out. Raises as `tune` does."""
        spec = self.spec
        return tune(
            self.recent.workload,
            spec.objectives,
            cluster=self.cluster,
            curves=self.recent.curves,
            sizes=spec.sizes,
            restart_s=self.restart_s,
            resize_interval_s=self.resize_interval_s,
            resize_gain=self.resize_gain,
            on_wide="drop",
            how=Search(
                evaluations=spec.evaluations,
                budget_s=spec.budget_s,
                solver=spec.solver,
                seed=spec.seed,
                jobs=spec.jobs,
                baselines=self.baselines,
                cached=False,  # the workload is another one the next time
            ),
            stopped=stopped,
            progress=progress,
        )
