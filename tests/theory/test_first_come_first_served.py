"""FIFO on rigid jobs is the textbook's M/M/1, M/M/k and M/G/1."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest

from betimes import Workload, simulate
from tests.theory.queues import (
    Floats,
    Size,
    agrees,
    bounded_pareto,
    deterministic,
    exponential,
    poisson_workload,
    responses,
)

JOBS = 200_000


def kiefer_wolfowitz(workload: Workload, servers: int) -> Floats:
    """Finish times of first come, first served on so many servers, by the recursion on their workloads."""
    free_at = np.zeros(servers)
    finish = np.empty(len(workload))
    for row, (submit, work) in enumerate(zip(workload.submit_s, workload.work_s, strict=True)):
        first = int(free_at.argmin())
        finish[row] = free_at[first] = max(submit, free_at[first]) + work
    return finish


def erlang_c(servers: int, load: float) -> float:
    """The probability that an arrival waits in an M/M/k queue; load: arrival rate over service rate."""
    waiting = load**servers / factorial(servers) * servers / (servers - load)
    return waiting / (sum(load**n / factorial(n) for n in range(servers)) + waiting)


@pytest.mark.parametrize("load_frac", [0.3, 0.7, 0.85])
def test_mm1(load_frac: float) -> None:
    result = simulate(poisson_workload(JOBS, load_frac, exponential(), seed=1), "fifo", units=1)
    agrees(responses(result), 1.0 / (1.0 - load_frac), precision=0.04)


@pytest.mark.parametrize(("servers", "load_frac"), [(2, 0.7), (8, 0.85)])
def test_mmk(servers: int, load_frac: float) -> None:
    workload = poisson_workload(JOBS, load_frac, exponential(), seed=2, units=servers)
    result = simulate(workload, "fifo", units=servers)
    load = servers * load_frac
    waits = erlang_c(servers, load)
    agrees(responses(result), 1.0 + waits / (servers - load), precision=0.03)
    waited = result.jobs.start_s - result.jobs.submit_s
    agrees((waited > 0.0).astype(float), waits, precision=0.03)


@pytest.mark.parametrize("size", [deterministic(), exponential(), bounded_pareto()], ids=lambda s: s.name)
def test_mg1_waits_by_pollaczek_and_khinchine(size: Size) -> None:
    load_frac = 0.7
    result = simulate(poisson_workload(JOBS, load_frac, size, seed=3), "fifo", units=1)
    wait = load_frac / size.mean * size.second_moment / (2.0 * (1.0 - load_frac))
    agrees(result.jobs.start_s - result.jobs.submit_s, wait, precision=0.05)


@pytest.mark.parametrize("servers", [1, 3])
def test_every_single_finish_by_recursion(servers: int) -> None:
    workload = poisson_workload(20_000, 0.9, bounded_pareto(), seed=4, units=servers)
    result = simulate(workload, "fifo", units=servers)
    np.testing.assert_allclose(result.jobs.finish_s, kiefer_wolfowitz(workload, servers), rtol=1e-12)
