"""Ciw, a discrete-event simulator of queues, as a second opinion on the same arrivals and the same sizes."""

from __future__ import annotations

import ciw
import numpy as np
import pytest

from betimes import Workload, simulate
from tests.theory.one_after_another import OneAfterAnother
from tests.theory.queues import Floats, Size, bounded_pareto, exponential, poisson_workload

JOBS = 600


def ciw_finish_times(workload: Workload, servers: float, *, sharing: bool = False) -> Floats:
    """Finish times in order of submission, by first come first served or by processor sharing."""
    gaps = np.diff(workload.submit_s, prepend=0.0).tolist()
    network = ciw.create_network(
        arrival_distributions=[OneAfterAnother(gaps)],
        service_distributions=[OneAfterAnother(workload.work_s.tolist())],
        number_of_servers=[servers],
    )
    simulation = ciw.Simulation(network, node_class=ciw.PSNode if sharing else None)
    simulation.simulate_until_max_customers(len(workload), method="Finish")
    records = sorted(simulation.get_all_records(), key=lambda record: record.arrival_date)
    return np.array([record.exit_date for record in records])


@pytest.mark.parametrize("servers", [1, 4])
def test_first_come_first_served(servers: int) -> None:
    workload = poisson_workload(JOBS, 0.9, bounded_pareto(), seed=41, units=servers)
    ours = simulate(workload, "fifo", units=servers)
    np.testing.assert_allclose(ours.jobs.finish_s, ciw_finish_times(workload, servers), rtol=1e-9)


@pytest.mark.parametrize("size", [exponential(), bounded_pareto()], ids=lambda s: s.name)
def test_processor_sharing(size: Size) -> None:
    workload = poisson_workload(JOBS, 0.8, size, seed=42)
    ours = simulate(workload, "max-min", units=1, fractional=True)
    theirs = ciw_finish_times(workload, float("inf"), sharing=True)
    np.testing.assert_allclose(ours.jobs.finish_s, theirs, rtol=1e-7)
