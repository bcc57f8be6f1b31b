"""Ciw, a discrete-event simulator of queues, on the same arrivals, sizes and priorities: the same waits."""

from __future__ import annotations

import ciw
import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import JobColumns
from tests.theory.nodes.test_priorities import Kind, classes_workload
from tests.theory.one_after_another import OneAfterAnother
from tests.theory.queues import Floats, bounded_pareto, exponential, poisson_workload

JOBS = 2000


def ciw_times(workload: Workload, servers: int, *, preempts: bool = False) -> tuple[Floats, Floats]:
    """When each job first started and when it was done; the highest priority is served first."""
    levels = int(workload.priority.max()) + 1
    arrivals, services = {}, {}
    for level in range(levels):
        of = workload.priority == level
        arrivals[str(level)] = [OneAfterAnother(np.diff(workload.submit_s[of], prepend=0.0).tolist())]
        services[str(level)] = [OneAfterAnother(workload.work_s[of].tolist())]
    ranks = {str(level): levels - 1 - level for level in range(levels)}
    network = ciw.create_network(
        arrival_distributions=arrivals,
        service_distributions=services,
        number_of_servers=[servers],
        priority_classes=(ranks, ["resume" if preempts else False]),
    )
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(len(workload), method="Finish")
    start, finish = np.full(len(workload), np.inf), np.full(len(workload), np.nan)
    for record in simulation.get_all_records():
        row = int(np.argmin(np.abs(workload.submit_s - record.arrival_date)))
        start[row] = min(start[row], record.service_start_date)
        if record.record_type == "service":
            finish[row] = record.exit_date
    return start, finish


def same_as_ciw(
    workload: Workload, policy: str, cluster: Cluster, servers: int, *, preempts: bool = False
) -> JobColumns:
    jobs = simulate_nodes(workload, policy, cluster=cluster).jobs
    start, finish = ciw_times(workload, servers, preempts=preempts)
    np.testing.assert_allclose(jobs.start_s, start, rtol=1e-9)
    np.testing.assert_allclose(jobs.finish_s, finish, rtol=1e-9)
    return jobs


@pytest.mark.parametrize("servers", [1, 4])
@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative", "skip-over"])
def test_first_come_first_served(policy: str, servers: int) -> None:
    # Where all jobs are as wide there is no gap to fill, so that those who would fill it are FIFO too.
    workload = poisson_workload(JOBS, 0.9, bounded_pareto(), seed=41, units=servers)
    for cluster in (Cluster.pool(servers), Cluster.uniform(servers, cpu=1)):
        same_as_ciw(workload, policy, cluster, servers)


def jobs_of_several_priorities(seed: int, servers: int) -> Workload:
    kinds = [
        Kind(servers * rate, size)
        for rate, size in ((0.4, exponential(0.5)), (0.6, exponential(0.5)), (0.35, bounded_pareto()))
    ]
    return classes_workload(kinds, seed, as_trials=False)[:JOBS]


@pytest.mark.parametrize("servers", [1, 3])
def test_priorities_without_preemption(servers: int) -> None:
    workload = jobs_of_several_priorities(43, servers)
    jobs = same_as_ciw(workload, "lowest-priority:P=0", Cluster.uniform(servers, cpu=1), servers)
    assert jobs.preemptions.sum() == 0


@pytest.mark.parametrize("servers", [1, 3])
def test_priorities_with_preemption(servers: int) -> None:
    # The victim is of the lowest priority, and among those who started last: by the same rule in both.
    workload = jobs_of_several_priorities(44, servers)
    jobs = same_as_ciw(
        workload, "lowest-priority:P=1000", Cluster.uniform(servers, cpu=1), servers, preempts=True
    )
    assert jobs.preemptions.sum() > JOBS / 10
