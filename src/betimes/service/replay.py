"""A trace as jobs that only take time, for the real service on a virtual clock."""

from __future__ import annotations

import numpy as np

from betimes.cluster import Cluster
from betimes.cluster.resources import PER_UNIT
from betimes.errors import ClusterError, InputError
from betimes.foresight.engines import NODES
from betimes.service.building import kind_of
from betimes.service.executors.virtual import SPEEDS, WORK
from betimes.service.machines.files import machines_of_cluster
from betimes.service.machines.machine import Machine
from betimes.service.spec import Curve, JobSpec
from betimes.twin.nodes.tasks import tasks_of
from betimes.workload import Workload
from betimes.workload.speedup import SpeedupTable, bind

TRIAL = 1


def machines_for(cluster: Cluster) -> list[Machine]:
    """The nodes of a trace's cluster; a pool is one node that is as large as the pool."""
    if not cluster.is_pool:
        return machines_of_cluster(cluster)
    return [Machine("pool", "virtual", "pool", float(cluster.units), 0.0, 0.0)]


def arrivals(
    workload: Workload,
    cluster: Cluster,
    policy: str,
    curves: SpeedupTable | None = None,
    *,
    grace: bool = True,
) -> list[tuple[float, JobSpec]]:
    """(submit_s, job) of every job that the cluster can hold, in order. What it truly takes is in its environment.

    In a pool jobs are elastic, and a unit is a core or a GPU of the pool's nodes; on nodes they are the tasks that
    `betimes simulate` makes of them. Without estimates the truth is told. Raises InputError for none that fits.
    """
    table, _ = bind(workload.curve_names, int(workload.max_units.max(initial=1)), curves)
    full = table.at(workload.curve, workload.max_units)
    truth_s = workload.work_s / full
    told_s = np.where(np.isnan(workload.estimate_s), truth_s, workload.estimate_s)
    told_s = np.maximum(told_s, 1.0)
    on_nodes = kind_of(policy)[0] == NODES
    tasks = tasks_of(workload, cluster) if on_nodes else None
    gpus = not cluster.is_pool and bool(cluster.total[0] > 0)
    found: list[tuple[float, JobSpec]] = []
    for row in range(len(workload)):
        units, least = int(workload.max_units[row]), int(workload.min_units[row])
        if tasks is not None:
            if tasks.refused[row]:
                continue
            units = least = int(tasks.count[row])
            gpu, cpu, memory_gib = (
                float(amount) / per for amount, per in zip(tasks.demand[row], PER_UNIT, strict=True)
            )
            work_s, speeds = float(truth_s[row]), [1.0] * units
            curve: str | Curve = "linear"
        else:
            gpu, cpu, memory_gib = (1.0, 0.0, 0.0) if gpus else (0.0, 1.0, 0.0)
            work_s = float(workload.work_s[row])
            speeds = table.speedup[workload.curve[row], 1 : units + 1].tolist()
            curve = Curve(speedup=dict(enumerate(speeds, 1)))
        spec = JobSpec(
            command=["replayed"],
            name=str(workload.job_id[row]),
            workdir="/",
            gpu=gpu,
            cpu=cpu,
            memory_gib=memory_gib,
            min_units=least,
            max_units=units,
            curve=curve,
            qos="trial" if workload.qos[row] == TRIAL else "best-effort",
            priority=int(workload.priority[row]),
            grace_s=float(workload.grace_s[row]) if grace and on_nodes else 0.0,
            estimate_s=float(told_s[row]),
            env={WORK: repr(work_s), SPEEDS: ",".join(map(repr, speeds))},
        )
        found.append((float(workload.submit_s[row]), spec))
    if not found:
        raise InputError(f"{workload.name}: no job fits {cluster.name}")
    return found


def cluster_for(units: int | None, cluster: Cluster | None) -> Cluster:
    """The cluster that was asked for; raises ClusterError for none."""
    if cluster is not None:
        return cluster
    if units is None:
        raise ClusterError("a replayed trace needs a machine: give --units N or --nodes FILE.toml")
    return Cluster.pool(units)
