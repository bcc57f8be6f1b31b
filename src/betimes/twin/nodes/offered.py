"""The load that a workload offers to nodes, and the same workload with gaps for another load."""

from __future__ import annotations

import math

import numpy as np

from betimes.cluster import Cluster
from betimes.errors import InputError
from betimes.twin.nodes.tasks import tasks_of
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable, bind


def offered_load(workload: Workload, cluster: Cluster, curves: SpeedupTable | None = None) -> float:
    """Demand x run time over capacity x the span of the submissions, of the resource most in demand.

    Jobs that the empty cluster cannot run do not count. Infinite where all are submitted at one time.
    """
    tasks = tasks_of(workload, cluster)
    kept = ~tasks.refused
    if not kept.any():
        return 0.0
    jobs = workload[np.flatnonzero(kept)]
    table, _ = bind(jobs.curve_names, int(jobs.max_units.max()), curves)
    run_s = jobs.work_s / table.at(jobs.curve, jobs.max_units)
    demand = (tasks.count[:, None] * tasks.demand)[kept]
    there = cluster.total > 0
    wanted = (run_s @ demand)[there] / cluster.total[there]
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
    return float(wanted.max()) / span_s if span_s > 0 else math.inf


def scaled_to(
    workload: Workload, cluster: Cluster, load_frac: float, curves: SpeedupTable | None = None
) -> Workload:
    """The same jobs with gaps such that `offered_load` is `load_frac`; raises InputError where no gaps do that."""
    offered = offered_load(workload, cluster, curves)
    if offered == 0.0:
        raise InputError(f"--load {load_frac:g}: no job of {workload.name} fits the cluster {cluster.name}")
    if math.isinf(offered):
        raise InputError(f"--load {load_frac:g}: the jobs of {workload.name} are all submitted at one time")
    # `scale_load` stretches from its own measure of the load to the given one: here by offered / load_frac.
    return workload.scale_load(workload.offered_load(1) / offered * load_frac, 1)
