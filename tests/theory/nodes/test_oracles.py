"""Start times of strict first come, first served by recursions that know nothing of events."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup
from betimes.foresight.nodes.simulate import simulate_nodes
from tests.theory.queues import Floats, bounded_pareto, poisson_workload

JOBS = 100_000


def starts_by_heap(workload: Workload, servers: int) -> Floats:
    """Single-core jobs in order of submission, each on the core that is free first (waiting policies, A.3)."""
    free_at = [0.0] * servers
    start = np.empty(len(workload))
    for row, (submit, work) in enumerate(
        zip(workload.submit_s.tolist(), workload.work_s.tolist(), strict=True)
    ):
        start[row] = max(submit, free_at[0])
        heapq.heapreplace(free_at, float(start[row]) + work)
    return start


def starts_by_sorting(workload: Workload, units: int) -> Floats:
    """Jobs of several units, strictly in order: each starts when the units it needs are free, and none before it."""
    free_at = np.zeros(units)
    start, before = np.empty(len(workload)), 0.0
    run_s = workload.work_s / workload.max_units
    for row, width in enumerate(workload.max_units.tolist()):
        before = start[row] = max(workload.submit_s[row], before, free_at[width - 1])
        free_at[:width] = before + run_s[row]
        free_at.sort()
    return start


CLUSTERS = {
    "a pool": (Cluster.pool(64), 64),
    "nodes of 4 cores": (Cluster.uniform(16, cpu=4), 64),
    "nodes of several sizes": (
        Cluster("mixed", tuple(NodeGroup(f"c{n}", n, 0.0, float(n), 8.0 * n) for n in (1, 2, 3, 5))),
        39,
    ),
}


@pytest.mark.parametrize("placement", ["first", "best", "worst"])
@pytest.mark.parametrize("machine", CLUSTERS)
def test_single_core_jobs_start_when_the_heap_says(machine: str, placement: str) -> None:
    cluster, cores = CLUSTERS[machine]
    workload = poisson_workload(JOBS, 0.97, bounded_pareto(), seed=61, units=cores)
    jobs = simulate_nodes(workload, f"fifo:placement={placement}", cluster=cluster).jobs
    start = starts_by_heap(workload, cores)
    assert np.mean(start > workload.submit_s) > 0.5
    np.testing.assert_array_equal(jobs.start_s, start)


@pytest.mark.parametrize("policy", ["skip-over", "easy", "conservative:window=1"])
def test_there_are_no_gaps_between_single_core_jobs(policy: str) -> None:
    workload = poisson_workload(10_000, 0.9, bounded_pareto(), seed=62, units=64)
    for name in ("a pool", "nodes of 4 cores"):
        jobs = simulate_nodes(workload, policy, cluster=CLUSTERS[name][0]).jobs
        np.testing.assert_array_equal(jobs.start_s, starts_by_heap(workload, 64))


def test_wide_jobs_on_a_pool_start_when_the_sorted_units_say() -> None:
    rng = np.random.default_rng(63)
    units, jobs = 64, 20_000
    width = np.minimum(1 + rng.geometric(0.12, jobs), units)
    width[rng.random(jobs) < 0.02] = units
    run_s = bounded_pareto().draw(rng, jobs)
    workload = Workload.from_columns(
        # Strict order leaves units idle in front of a wide job: a load that it can bear.
        submit_s=np.cumsum(rng.exponential(np.mean(width * run_s) / (0.6 * units), jobs)),
        work_s=run_s * width,
        min_units=width,
        max_units=width,
    )
    result = simulate_nodes(workload, "fifo", cluster=Cluster.pool(units))
    start = starts_by_sorting(workload, units)
    assert 0.2 < np.mean(start > workload.submit_s) < 0.99
    np.testing.assert_allclose(result.jobs.start_s, start, rtol=1e-12)


def test_jobs_of_the_whole_cluster_queue_at_one_server() -> None:
    # A gang on every node at once: Lindley's recursion.
    rng = np.random.default_rng(64)
    jobs = 20_000
    workload = Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(1.2, jobs)),
        work_s=8.0 * rng.exponential(1.0, jobs),
        min_units=8,
        max_units=8,
        cpu=1.0,
    )
    result = simulate_nodes(workload, "fifo", cluster=Cluster.uniform(8, cpu=1.5))
    np.testing.assert_allclose(result.jobs.start_s, starts_by_sorting(workload, 8), rtol=1e-12)
