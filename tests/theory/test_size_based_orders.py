"""SRPT, least attained service, and blind orders in M/G/1, by their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from betimes import simulate
from tests.theory.queues import (
    Size,
    agrees,
    bounded_pareto,
    capped_moment,
    exponential,
    integral,
    partial_moment,
    poisson_workload,
    responses,
)


def srpt_response(size: Size, rate: float, x: float) -> float:
    """Mean response of a job of size x under shortest remaining processing time (Schrage and Miller 1966)."""

    def load_upto(t: float) -> float:
        return rate * partial_moment(size, t, 1)

    waiting = rate * capped_moment(size, x, 2) / (2.0 * (1.0 - load_upto(x)) ** 2)
    residence = integral(lambda t: 1.0 / (1.0 - load_upto(t)), 0.0, x)
    return waiting + residence


def foreground_background_response(size: Size, rate: float, x: float) -> float:
    """Mean response of a job of size x when the least attained service is always served (Kleinrock II, 4.6)."""
    load = rate * capped_moment(size, x, 1)
    return x / (1.0 - load) + rate * capped_moment(size, x, 2) / (2.0 * (1.0 - load) ** 2)


def mean_over_sizes(size: Size, response: dict[float, float]) -> float:
    """E[T(S)] from T at the nodes of Gauss-Legendre quadrature in the logarithm of the size."""
    nodes, weights = _quadrature(size)
    return sum(
        w * x * size.density(x) * response[x] for x, w in zip(nodes.tolist(), weights.tolist(), strict=True)
    )


def nodes_of(size: Size) -> list[float]:
    return _quadrature(size)[0].tolist()


def _quadrature(size: Size) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.log(max(size.low, 1e-6 * size.mean)), np.log(size.high)
    points, weights = np.polynomial.legendre.leggauss(60)
    return np.exp(low + (high - low) * (points + 1.0) / 2.0), weights * (high - low) / 2.0


@pytest.mark.parametrize("size", [exponential(), bounded_pareto()], ids=lambda s: s.name)
def test_srtf_on_one_unit_is_srpt(size: Size) -> None:
    load_frac = 0.8
    result = simulate(poisson_workload(200_000, load_frac, size, seed=11), "srtf", units=1)
    expected = mean_over_sizes(size, {x: srpt_response(size, load_frac, x) for x in nodes_of(size)})
    agrees(responses(result), expected, precision=0.03)


def test_srsf_and_srtf_agree_where_every_job_has_one_unit() -> None:
    workload = poisson_workload(20_000, 0.8, exponential(), seed=12)
    a, b = (simulate(workload, policy, units=1) for policy in ("srsf", "srtf"))
    np.testing.assert_array_equal(a.jobs.finish_s, b.jobs.finish_s)


def test_srpt_response_by_size() -> None:
    size, load_frac = bounded_pareto(), 0.8
    result = simulate(poisson_workload(200_000, load_frac, size, seed=13), "srtf", units=1)
    work, response = result.jobs.work_s, responses(result)
    for x in np.quantile(work, [0.1, 0.5, 0.9, 0.99]):
        near = np.abs(np.log(work / x)) < 0.1
        around = x * np.exp([-0.1, -0.05, 0.0, 0.05, 0.1])
        expected = np.interp(work[near], around, [srpt_response(size, load_frac, y) for y in around])
        agrees(response[near] / expected, 1.0, precision=0.06)


@pytest.mark.parametrize("size", [exponential(), bounded_pareto()], ids=lambda s: s.name)
def test_las_with_a_small_quantum_is_foreground_background(size: Size) -> None:
    load_frac = 0.7
    workload = poisson_workload(60_000, load_frac, size, seed=14)
    expected = mean_over_sizes(
        size, {x: foreground_background_response(size, load_frac, x) for x in nodes_of(size)}
    )
    agrees(responses(simulate(workload, "las:quantum=0.01", units=1)), expected, precision=0.03)


@pytest.mark.parametrize("policy", ["fifo", "las:quantum=0.3", "max-min"])
def test_orders_that_do_not_look_at_sizes_have_one_mean_in_mm1(policy: str) -> None:
    # Whatever a blind order does, memoryless sizes leave the number in the system the same process.
    load_frac = 0.7
    workload = poisson_workload(100_000, load_frac, exponential(), seed=15)
    result = simulate(workload, policy, units=1, fractional=True)
    agrees(responses(result), 1.0 / (1.0 - load_frac), precision=0.03)


def test_las_beats_sharing_where_most_of_the_work_is_in_few_large_jobs() -> None:
    heavy = poisson_workload(60_000, 0.8, bounded_pareto(), seed=16)
    las, sharing = (
        responses(simulate(heavy, policy, units=1, fractional=True)).mean()
        for policy in ("las:quantum=0.05", "max-min")
    )
    assert las < 0.9 * sharing
