"""Random jobs on a few nodes of several shapes: gangs, trial jobs, grace periods, estimates, many things at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup
from betimes.twin.nodes.tasks import Tasks
from tests.theory.nodes.watching import Vector, demands_of, finds_room, taken_as_they_are

SHAPES: tuple[tuple[float, float, float], ...] = ((4.0, 8.0, 16.0), (2.0, 8.0, 4.0), (0.0, 6.0, 12.0))


@dataclass(frozen=True)
class Mixture:
    """Jobs, and the nodes that hold them; every job fits the empty cluster."""

    workload: Workload
    cluster: Cluster
    tasks: Tasks

    @property
    def demands(self) -> list[Vector]:
        return demands_of(self.tasks)

    @property
    def capacity(self) -> list[Vector]:
        return [(gpu, cpu, memory) for gpu, cpu, memory in self.cluster.capacity.tolist()]


def mixture(
    seed: int,
    *,
    jobs: int = 120,
    load_frac: float = 0.8,
    nodes: tuple[int, ...] = (2, 1, 1),
    whole_seconds: bool = True,
    widest: int = 4,
) -> Mixture:
    """`load_frac` of the cluster is offered, by the resource most in demand; nodes: how many of each shape."""
    rng = np.random.default_rng(seed)
    groups = [NodeGroup(f"n{at}", count, *SHAPES[at]) for at, count in enumerate(nodes) if count]
    cluster = Cluster("mixed", tuple(groups))
    capacity = [(gpu, cpu, memory) for gpu, cpu, memory in cluster.capacity.tolist()]
    counts, demands = list[int](), list[Vector]()
    while len(counts) < jobs:
        gpu, cpu, memory = np.minimum(rng.geometric([0.5, 0.45, 0.4]) - [1, 0, 0], [8, 16, 16]).tolist()
        demand = (gpu * 500, cpu * 500, memory * 512)
        count = 1 if rng.random() < 0.6 else int(rng.integers(2, widest + 1))
        if finds_room(demand, count, capacity):
            counts.append(count)
            demands.append(demand)
    run_s = np.ceil(rng.lognormal(3.0, 1.0, jobs)) if whole_seconds else rng.lognormal(3.0, 1.0, jobs)
    needed = (np.array(counts) * run_s) @ (np.array(demands) / cluster.total).clip(0.0)
    gap_s = needed.max() / (load_frac * jobs)
    submit_s = np.cumsum(rng.exponential(gap_s, jobs))
    estimate_s = run_s * rng.choice([1.0, 1.0, 2.0, 5.0], jobs)
    grace_s = rng.choice([0.0, 0.0, 3.0, 10.0], jobs) if whole_seconds else rng.exponential(5.0, jobs)
    workload = Workload.from_columns(
        submit_s=np.floor(submit_s) if whole_seconds else submit_s,
        work_s=run_s,
        estimate_s=estimate_s,
        grace_s=grace_s,
        qos=(rng.random(jobs) < 0.3).astype(np.int8),
        priority=rng.integers(0, 4, jobs),
    )
    return Mixture(workload, cluster, taken_as_they_are(counts, demands))
