"""Max-min shares of jobs that can use the whole pool are processor sharing: only the mean size matters."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import Result, simulate
from tests.theory.queues import (
    Size,
    agrees,
    bounded_pareto,
    deterministic,
    exponential,
    poisson_workload,
    responses,
)

UNITS = 8
LOAD_FRAC = 0.7
SIZES = [exponential(), deterministic(), bounded_pareto()]


def run(size: Size, jobs: int = 150_000, seed: int = 21) -> Result:
    workload = poisson_workload(jobs, LOAD_FRAC, size, seed, units=UNITS, max_units=UNITS)
    return simulate(workload, "max-min", units=UNITS, fractional=True)


@pytest.mark.parametrize("size", SIZES, ids=lambda s: s.name)
def test_mean_response_depends_on_the_mean_size_only(size: Size) -> None:
    agrees(responses(run(size)), size.mean / UNITS / (1.0 - LOAD_FRAC), precision=0.03)


@pytest.mark.parametrize("size", SIZES, ids=lambda s: s.name)
def test_response_is_linear_in_size(size: Size) -> None:
    result = run(size)
    work = result.jobs.work_s
    stretch = responses(result) / (work / UNITS)
    agrees(stretch, 1.0 / (1.0 - LOAD_FRAC), precision=0.03)
    if size.second_moment > size.mean**2:
        for low, high in ((0.0, 0.1), (0.45, 0.55), (0.9, 0.98), (0.98, 1.0)):
            within = (work >= np.quantile(work, low)) & (work <= np.quantile(work, high))
            agrees(stretch[within], 1.0 / (1.0 - LOAD_FRAC), precision=0.08)


def test_arrivals_see_a_geometric_number() -> None:
    # In M/G/1-PS the number in the system is geometric whatever the sizes; Poisson arrivals see time averages.
    result = run(bounded_pareto())
    submit, finish = result.jobs.submit_s, np.sort(result.jobs.finish_s)
    present = np.arange(len(submit)) - np.searchsorted(finish, submit)
    for n in range(5):
        agrees((present == n).astype(float), (1.0 - LOAD_FRAC) * LOAD_FRAC**n, precision=0.04)


def test_narrow_jobs_are_a_queue_without_waiting_until_the_pool_is_full() -> None:
    # One unit a job and as many units as ever needed: M/G/infinity, every job runs at its own pace.
    workload = poisson_workload(20_000, 0.2, exponential(), 23, units=64)
    result = simulate(workload, "max-min", units=64, fractional=True)
    np.testing.assert_allclose(result.jobs.finish_s, workload.submit_s + workload.work_s, rtol=1e-12)
