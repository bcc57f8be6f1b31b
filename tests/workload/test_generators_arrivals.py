"""Arrival processes: rate, shape, burstiness, replay."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.workload.generators.arrivals import (
    batches,
    mmpp,
    poisson,
    replayed,
    resampled,
    stretched,
)

N = 100_000
BURSTY = {"burst_ratio": 8.0, "burst_frac": 0.2, "burst_jobs": 6.0}


def rng(seed: int = 11) -> np.random.Generator:
    return np.random.default_rng(seed)


def cv2(gaps: np.ndarray) -> float:
    return float(np.var(gaps) / np.mean(gaps) ** 2)


def mmpp_gap_cv2(mean_gap_s: float, *, burst_ratio: float, burst_frac: float, burst_jobs: float) -> float:
    """Squared coefficient of variation of the gaps of `mmpp` (Fischer, Meier-Hellstern 1993)."""
    calm = 1.0 / (mean_gap_s * (burst_frac * burst_ratio + 1.0 - burst_frac))
    burst = burst_ratio * calm
    leave_burst = burst / burst_jobs
    leave_calm = leave_burst * burst_frac / (1.0 - burst_frac)
    both = leave_burst + leave_calm
    spread = 2.0 * leave_burst * leave_calm * (burst - calm) ** 2
    return 1.0 + spread / (both**2 * (burst * calm + burst * leave_calm + calm * leave_burst))


def test_poisson_gaps_are_exponential() -> None:
    gaps = poisson(rng(), N, 30.0)
    assert gaps[0] == 0
    assert gaps[1:].mean() == pytest.approx(30, rel=0.01)
    ordered = np.sort(gaps[1:])
    distance = np.max(np.abs(-np.expm1(-ordered / 30.0) - np.arange(1, N) / (N - 1)))
    assert distance < 1.63 / np.sqrt(N)  # Kolmogorov-Smirnov, 1%


def test_poisson_counts_have_variance_equal_to_mean() -> None:
    times = np.cumsum(poisson(rng(), N, 1.0))
    counts = np.bincount((times / 20).astype(int))[:-1]
    assert np.var(counts) / np.mean(counts) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("batch_jobs", [1.0, 4.0, 25.0])
def test_batches_have_the_stated_size_rate_and_variability(batch_jobs: float) -> None:
    gaps = batches(rng(), N, 5.0, batch_jobs)
    assert gaps[0] == 0
    assert gaps[1:].mean() == pytest.approx(5, rel=0.05)
    assert N / (np.count_nonzero(gaps) + 1) == pytest.approx(batch_jobs, rel=0.03)
    assert cv2(gaps[1:]) == pytest.approx(2 * batch_jobs - 1, rel=0.08)


@pytest.mark.parametrize("burst_jobs", [1.0, 6.0, 40.0])
def test_mmpp_has_the_stated_rate_and_variability(burst_jobs: float) -> None:
    shape = BURSTY | {"burst_jobs": burst_jobs}
    gaps = mmpp(rng(), N, 12.0, **shape)
    assert len(gaps) == N
    assert gaps[0] == 0
    assert np.all(gaps >= 0)
    assert gaps[1:].mean() == pytest.approx(12, rel=0.03)
    expected = mmpp_gap_cv2(12.0, **shape)
    assert expected > 1.1
    assert cv2(gaps[1:]) == pytest.approx(expected, rel=0.05)


def test_mmpp_gap_variability_agrees_with_the_matrix_form() -> None:
    calm = 1 / (12 * (0.2 * 8 + 0.8))
    burst = 8 * calm
    leave_burst, leave_calm = burst / 6, burst / 6 * 0.2 / 0.8
    rates = np.diag([burst, calm])
    moves = np.array([[-leave_burst, leave_burst], [leave_calm, -leave_calm]])
    at_arrivals = np.array([0.2, 0.8]) @ rates
    at_arrivals /= at_arrivals.sum()
    inverse = np.linalg.inv(rates - moves)
    first = (at_arrivals @ inverse).sum()
    second = 2 * (at_arrivals @ inverse @ inverse).sum()
    assert first == pytest.approx(12)
    assert mmpp_gap_cv2(12.0, **BURSTY) == pytest.approx(second / first**2 - 1, rel=1e-12)


def test_mmpp_with_equal_rates_is_poisson() -> None:
    assert mmpp_gap_cv2(3.0, burst_ratio=1.0, burst_frac=0.3, burst_jobs=5.0) == 1.0
    gaps = mmpp(rng(), N, 3.0, burst_ratio=1.0, burst_frac=0.3, burst_jobs=5.0)
    assert cv2(gaps[1:]) == pytest.approx(1, rel=0.03)


def test_mmpp_of_few_jobs_in_long_states() -> None:
    for seed in range(20):
        gaps = mmpp(rng(seed), 5, 1.0, burst_ratio=100.0, burst_frac=0.001, burst_jobs=1e9)
        assert len(gaps) == 5
        assert gaps[0] == 0


def test_replay_keeps_the_order_and_starts_again() -> None:
    np.testing.assert_array_equal(replayed(6, [1, 2, 3]), [0, 1, 2, 3, 1, 2])
    np.testing.assert_array_equal(replayed(3, [1, 2, 3]), [0, 1, 2])
    np.testing.assert_allclose(replayed(4, [1, 2, 3], 10.0), [0, 5, 10, 15])
    np.testing.assert_array_equal(replayed(1, [5.0], 3.0), [0])


def test_resampling_draws_from_the_gaps_and_meets_the_mean() -> None:
    drawn = resampled(rng(), 1000, [1.0, 5.0, 100.0])
    assert drawn[0] == 0
    assert set(drawn[1:]) == {1.0, 5.0, 100.0}
    assert resampled(rng(), 1000, [1.0, 5.0, 100.0], 7.0)[1:].mean() == pytest.approx(7, rel=1e-12)


@pytest.mark.parametrize("gaps", [[], [1.0, float("nan")], [1.0, -2.0], [float("inf")], [[1.0, 2.0]]])
def test_bad_gaps_are_refused(gaps: list) -> None:
    with pytest.raises(InputError, match="gaps to replay"):
        replayed(5, gaps)


def test_gaps_of_zero_cannot_be_stretched() -> None:
    with pytest.raises(InputError, match="one instant"):
        replayed(5, [0.0, 0.0], 10.0)
    np.testing.assert_array_equal(stretched(np.zeros(1), 10.0), [0])


def test_one_and_no_job() -> None:
    for jobs in (0, 1):
        np.testing.assert_array_equal(mmpp(rng(), jobs, 2.0, **BURSTY), np.zeros(jobs))
        expected = np.zeros(jobs)
        np.testing.assert_array_equal(poisson(rng(), jobs, 2.0), expected)
        np.testing.assert_array_equal(batches(rng(), jobs, 2.0, 3.0), expected)
        np.testing.assert_array_equal(replayed(jobs, [1.0]), expected)


def test_the_same_seed_gives_the_same_gaps() -> None:
    np.testing.assert_array_equal(mmpp(rng(4), 500, 2.0, **BURSTY), mmpp(rng(4), 500, 2.0, **BURSTY))
    assert not np.array_equal(poisson(rng(4), 50, 2.0), poisson(rng(5), 50, 2.0))
