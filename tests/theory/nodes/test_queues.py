"""First come, first served and size-based orders on nodes are the textbook's queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from betimes import Result
from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from tests.theory.nodes.replications import JOBS, agrees, seeds_for, steady, steady_mean, waits
from tests.theory.queues import (
    Floats,
    Size,
    bounded_pareto,
    deterministic,
    exponential,
    integral,
    partial_moment,
    poisson_workload,
)
from tests.theory.test_first_come_first_served import erlang_c

MACHINES: dict[str, Callable[[int], Cluster]] = {
    "one pool of units": Cluster.pool,
    "nodes of one core": lambda count: Cluster.uniform(count, cpu=1),
}


@lru_cache(maxsize=4)
def runs(policy: str, machine: str, servers: int, load_frac: float, size: Size) -> list[Result]:
    cluster = MACHINES[machine](servers)
    return [
        simulate_nodes(poisson_workload(JOBS, load_frac, size, seed, units=servers), policy, cluster=cluster)
        for seed in seeds_for(policy, servers, load_frac, size.name)
    ]


EXPONENTIAL, PARETO = exponential(), bounded_pareto()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("servers", "load_frac"), [(1, 0.7), (4, 0.8), (8, 0.85)])
def test_mmc_waits_are_erlang_c(machine: str, servers: int, load_frac: float) -> None:
    waited = [waits(result) for result in runs("fifo", machine, servers, load_frac, EXPONENTIAL)]
    must_wait = erlang_c(servers, servers * load_frac)
    drain = servers * (1.0 - load_frac)  # the rate at which the queue of those that wait empties
    agrees([steady_mean((wait > 0.0).astype(float)) for wait in waited], must_wait, precision=0.02)
    agrees([steady_mean(wait) for wait in waited], must_wait / drain, precision=0.06)
    for long in (0.5 / drain, 2.0 / drain):
        tail = must_wait * np.exp(-drain * long)
        agrees([steady_mean((wait > long).astype(float)) for wait in waited], tail, precision=0.15)


@pytest.mark.parametrize("load_frac", [0.3, 0.6, 0.8])
def test_mm1_number_in_system_is_geometric(load_frac: float) -> None:
    # What an arrival finds: its own probability for each number, for Poisson arrivals see time averages.
    def found(result: Result) -> Floats:
        ends = np.sort(result.jobs.finish_s)
        return steady(np.arange(float(JOBS)) - np.searchsorted(ends, result.jobs.submit_s))

    numbers = [found(result) for result in runs("fifo", "one pool of units", 1, load_frac, EXPONENTIAL)]
    for n in range(4):
        agrees([float(np.mean(x == n)) for x in numbers], (1.0 - load_frac) * load_frac**n, precision=0.03)


@pytest.mark.parametrize("size", [deterministic(), EXPONENTIAL, PARETO], ids=lambda s: s.name)
def test_mg1_waits_by_pollaczek_and_khinchine(size: Size) -> None:
    load_frac = 0.7
    means = [steady_mean(waits(r)) for r in runs("fifo", "nodes of one core", 1, load_frac, size)]
    agrees(means, load_frac * size.second_moment / (2.0 * (1.0 - load_frac)), precision=0.05)


def wait_behind(size: Size, load_frac: float, load_before: Callable[[float], float], x: float) -> float:
    """Mean wait of a job of size x where nobody is interrupted and so much load goes before it (Phipps 1956)."""
    return load_frac * size.second_moment / (2.0 * (1.0 - load_before(x)) ** 2)


@pytest.mark.parametrize("order", ["sjf", "ljf"])
@pytest.mark.parametrize("size", [EXPONENTIAL, PARETO], ids=lambda s: s.name)
def test_mg1_by_size_waits_as_phipps_has_it(order: str, size: Size) -> None:
    load_frac = 0.7

    def shorter(x: float) -> float:
        return load_frac * partial_moment(size, x, 1)

    def before(x: float) -> float:
        return shorter(x) if order == "sjf" else load_frac - shorter(x)

    expected = integral(
        lambda x: size.density(x) * wait_behind(size, load_frac, before, x), size.low, size.high
    )
    results = runs(f"{order}:backfill=strict", "one pool of units", 1, load_frac, size)
    agrees([steady_mean(waits(r)) for r in results], expected, precision=0.07)
    for x in np.quantile(results[0].jobs.work_s, [0.2, 0.5, 0.8]):
        around = x * np.exp([-0.1, 0.0, 0.1])
        curve = [wait_behind(size, load_frac, before, y) for y in around]
        means = []
        for result in results:
            work = result.jobs.work_s
            near = np.abs(np.log(work / x)) < 0.1
            relative = waits(result) / np.interp(work, around, curve)
            means.append(steady_mean(relative, near))
        agrees(means, 1.0, precision=0.07)
