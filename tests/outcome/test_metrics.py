"""Every measure on numbers worked out by hand, and the bounds it must keep."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.outcome import metrics

POSITIVE = st.floats(1e-3, 1e6)
LISTS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


def test_times_count_from_the_submission() -> None:
    submit_s, start_s, finish_s = np.array([0.0, 5.0]), np.array([1.0, 5.0]), np.array([4.0, np.nan])
    assert metrics.wait(submit_s, start_s).tolist() == [1.0, 0.0]
    assert metrics.jct(submit_s, finish_s)[0] == 4.0
    assert np.isnan(metrics.jct(submit_s, finish_s)[1])


def test_slowdown_is_jct_over_run_time_alone() -> None:
    # One node, FIFO: three jobs of 10, 10 and 5 seconds arriving at 0, 1, 2 finish at 10, 20, 15.
    jct_s = np.array([10.0, 19.0, 13.0])
    assert metrics.slowdown(jct_s, np.array([10.0, 10.0, 5.0])).tolist() == [1.0, 1.9, 2.6]


def test_bounded_slowdown_forgives_short_jobs_their_wait() -> None:
    jct_s, run_s = np.array([11.0, 4.0, 40.0, 6.0]), np.array([1.0, 2.0, 20.0, 3.0])
    assert metrics.bounded_slowdown(jct_s, run_s).tolist() == [1.1, 1.0, 2.0, 1.0]
    assert metrics.bounded_slowdown(jct_s, run_s, bound_s=2.0).tolist() == [5.5, 2.0, 2.0, 2.0]


def test_prediction_error_is_positive_for_a_late_job() -> None:
    finish_s, predicted_s = np.array([20.0, 15.0, 12.5]), np.array([15.0, 20.0, np.nan])
    error = metrics.prediction_error(np.full(3, 10.0), finish_s, predicted_s)
    assert error[:2].tolist() == [1.0, -0.5]
    assert np.isnan(error[2])


def test_fair_finish_time_is_bounded_by_the_jobs_width() -> None:
    # 8 units among 4 active jobs: a job gets 2, but one that can use only 1 gets that.
    fair = metrics.fair_finish_time(np.array([12.0, 12.0]), np.array([6, 1]), np.array([4.0, 4.0]), 8)
    assert fair.tolist() == [6.0, 12.0]


def test_unfairness_of_a_job_that_came_early_is_none() -> None:
    assert metrics.unfairness(np.array([5.0, 15.0]), np.array([10.0, 10.0])).tolist() == [0.0, 0.5]


def test_makespan_runs_from_first_submission_to_last_finish() -> None:
    assert metrics.makespan(np.array([2.0, 3.0, 4.0]), np.array([9.0, np.nan, 7.0])) == 7.0
    assert math.isnan(metrics.makespan(np.array([2.0]), np.array([np.nan])))


def test_utilisation_is_of_all_unit_seconds() -> None:
    assert metrics.utilisation(np.array([6.0, 4.0]), 4, 5.0) == 0.5
    assert math.isnan(metrics.utilisation(np.array([6.0]), 4, math.nan))


def test_percentiles_interpolate() -> None:
    values = np.array([40.0, 10.0, 20.0, 30.0])
    assert metrics.percentile(values, 50) == 25.0
    assert metrics.percentile(values, 90) == pytest.approx(37.0)
    assert math.isnan(metrics.percentile(np.empty(0), 50))
    assert math.isnan(metrics.mean(np.empty(0)))


@given(LISTS, st.randoms(use_true_random=False))
def test_a_mean_does_not_depend_on_the_order(values: list[float], order: random.Random) -> None:
    shuffled = list(values)
    order.shuffle(shuffled)
    assert metrics.mean(np.array(shuffled)) == metrics.mean(np.array(values))
    assert min(values) - 1e-9 <= metrics.mean(np.array(values)) <= max(values) + 1e-9


@given(LISTS)
def test_percentiles_rise_and_stay_inside(values: list[float]) -> None:
    found = [metrics.percentile(np.array(values), percent) for percent in (0, 25, 50, 90, 99, 100)]
    assert found[0] == min(values)
    assert found[-1] == max(values)
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(found))


@given(POSITIVE, POSITIVE, POSITIVE)
def test_an_error_tells_the_truth_back(submit_s: float, jct_s: float, predicted_s: float) -> None:
    arrays = (np.array([submit_s]), np.array([submit_s + jct_s]), np.array([submit_s + predicted_s]))
    error = metrics.prediction_error(*arrays)[0]
    predicted = arrays[2][0] - submit_s
    assert predicted * (1 + error) == pytest.approx(arrays[1][0] - submit_s, rel=1e-6, abs=1e-6)


@given(POSITIVE, POSITIVE, st.integers(1, 64), st.floats(1, 1000), st.integers(1, 1000))
def test_nobody_is_owed_more_than_running_alone(
    work_s: float, jct_s: float, width: int, contention: float, units: int
) -> None:
    fair = metrics.fair_finish_time(np.array([work_s]), np.array([width]), np.array([contention]), units)
    assert fair[0] >= work_s / width * (1 - 1e-12)
    assert metrics.unfairness(np.array([jct_s]), fair)[0] >= 0.0


def test_effective_price_is_that_of_jobs_times_mean_hours_times_mean_units() -> None:
    found = metrics.effective_price(12.0, np.array([3600.0, 7200.0]), np.array([1, 3]))
    assert found == 12.0 / (2 * 1.5 * 2)
    assert np.isnan(metrics.effective_price(1.0, np.zeros(0), np.zeros(0)))
