"""Shared by the benchmarks of the nodes engine: CPU seconds of a run and of what stands around it, the mixture."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from betimes.cluster import Cluster
from betimes.policies import NODES_POLICIES, parse_nodes_policy
from betimes.twin.nodes.closed_loop import keep_loaded
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload
from betimes.workload.generators import generate

LOAD = 2.0  # of FitGpp's mixture, kept under FIFO


class OnNodes(NamedTuple):
    """Medians over some equal simulations, CPU seconds: of the event loop, and of all around it."""

    loop_s: float
    around_s: float
    events: int


def on_nodes(build: Callable[[], NodesSimulation], repeats: int) -> OnNodes:
    """Set up, run and collect a simulation, `repeats` times; compiled code is warm after `warm_up`."""
    loops: list[float] = []
    around: list[float] = []
    events = 0
    for _ in range(repeats):
        started = time.process_time()
        run = build()
        ready = time.process_time()
        run.run()
        done = time.process_time()
        events = run.result().timing.events
        loops.append(done - ready)
        around.append(ready - started + time.process_time() - done)
    return OnNodes(statistics.median(loops), statistics.median(around), events)


def built(
    workload: Workload, policy: str, cluster: Cluster, sizes: str = "true", seed: int = 0
) -> Callable[[], NodesSimulation]:
    """Sets a simulation up whenever it is called."""
    chosen = parse_nodes_policy(policy)
    return lambda: NodesSimulation(
        workload, chosen, SimulationOptions(cluster=cluster, sizes=Sizes(sizes), seed=seed)
    )


def nodes_of_fitgpp(count: int) -> Cluster:
    return Cluster.uniform(count, gpu=8, cpu=32, memory_gib=256)


def mixture(jobs: int, resolution_s: float = 0.0) -> Workload:
    """FitGpp's jobs, all submitted at 0."""
    return generate(f"fitgpp:jobs={jobs},resolution_s={resolution_s:g}", units=1, seed=1)


def calibrated(workload: Workload, cluster: Cluster, repeats: int) -> tuple[Workload, float]:
    """The workload that keeps the cluster at LOAD, and the CPU seconds that it takes to find out, their median."""
    loaded = workload
    taken: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        loaded = keep_loaded(workload, cluster, LOAD)
        taken.append(time.process_time() - started)
    return loaded, statistics.median(taken)


def warm_up() -> None:
    """Compile, or load, what simulations on nodes and the calibration of their load take."""
    cluster = nodes_of_fitgpp(2)
    workload = keep_loaded(mixture(50), cluster, LOAD)
    for name, policy in NODES_POLICIES.items():
        if not policy.rents:
            on_nodes(built(workload, name, cluster), 1)
