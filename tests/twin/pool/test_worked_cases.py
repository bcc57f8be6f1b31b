"""The specification's worked cases, and those of the rules beyond it, through the real engine, to the digit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import simulate, summarise
from betimes.errors import PolicyError
from betimes.policies.pool.wfq_classes import exponential_weights, largest_variation, thresholds_by_variation
from tests.reference import Job, run
from tests.reference.cases import DYNAMIC, T1, Dynamic
from tests.reference.one_shot_cases import (
    EIGHT_SIZES,
    ONE_SHOT,
    T8_LARGEST_PREFIX_VARIATION,
    T8_THRESHOLDS,
    T8_WEIGHTS,
    OneShot,
)
from tests.reference.own_cases import OWN_DYNAMIC, OWN_ONE_SHOT
from tests.twin.pool.driving import (
    Setup,
    as_stated,
    recorded_segments,
    run_engine,
    units_after_arrivals,
    workload_of,
)

EXACT = 1e-9
PRINTED = 5.1e-5  # half of the last of four printed decimals


def assert_near(ours: Any, expected: Any, tolerance: float = EXACT) -> None:
    """Numbers, or sequences of the same length."""
    if isinstance(expected, Sequence):
        assert len(ours) == len(expected)
        for one, other in zip(ours, expected, strict=True):
            assert_near(one, other, tolerance)
    else:
        assert abs(float(ours) - float(expected)) <= tolerance, (ours, expected)


def engine_setup(case: Dynamic) -> Setup:
    return Setup(
        case.jobs, case.units, case.policy, case.fractional, float(case.restart_s), case.sizes, predict=True
    )


@pytest.mark.parametrize("case", DYNAMIC + OWN_DYNAMIC, ids=lambda case: case.name)
def test_dynamic_case(case: Dynamic) -> None:
    result = run_engine(engine_setup(case))
    jobs = result.jobs
    assert_near(jobs.finish_s, case.finish)
    if case.predicted is not None:
        assert_near(jobs.predicted_finish_s, case.predicted)
    for index, promises in (case.predictions or {}).items():
        assert_near(jobs.predicted_finish_s[index], promises[0])
    if case.contention is not None:
        assert_near(jobs.contention_mean, [Fraction(*samples) for samples in case.contention])
    if case.preemptions is not None:
        assert jobs.preemptions.tolist() == list(case.preemptions)
    if case.resizes is not None:
        assert jobs.resizes.tolist() == list(case.resizes)
    if case.restart_lost_s is not None:
        assert_near(jobs.restart_s, case.restart_lost_s)
    if case.segments is not None:
        assert_near(recorded_segments(result), case.segments)


@pytest.mark.parametrize("case", DYNAMIC, ids=lambda case: case.name)
def test_summary_of_a_dynamic_case(case: Dynamic) -> None:
    """Errors of the promises and unfairness, as `simulate --json` prints them."""
    setup = engine_setup(case)
    result = simulate(
        workload_of(case.jobs), case.policy, units=case.units, fractional=True, predict=True, fair=True
    )
    jobs = result.jobs
    promised = jobs.predicted_finish_s - jobs.submit_s
    errors = 100 * np.abs(jobs.finish_s - jobs.submit_s - promised) / promised
    summary = summarise(result)
    if case.error_percent is not None:
        assert_near(errors, case.error_percent, PRINTED)
    if case.mean_jct is not None:
        assert_near(summary["jct_mean_s"], case.mean_jct, PRINTED)
    if case.mean_error_percent is not None:
        assert_near(100 * summary["pred_err_mean_frac"], case.mean_error_percent, PRINTED)
    if case.fair_jct is not None:
        share = setup.units / jobs.contention_mean
        assert_near(jobs.work_s / np.minimum(share, jobs.max_units), case.fair_jct, PRINTED)
    if case.mean_unfairness_percent is not None:
        assert_near(100 * summary["unfairness_mean_frac"], case.mean_unfairness_percent, PRINTED)
    if case.max_unfairness_percent is not None:
        share = setup.units / jobs.contention_mean
        fair = jobs.work_s / np.minimum(share, jobs.max_units)
        unfair = np.maximum(0.0, (jobs.finish_s - jobs.submit_s) / fair - 1.0)
        assert_near(100 * unfair.max(), case.max_unfairness_percent, PRINTED)
    if case.max_fair_run_unfairness_percent is not None:
        worst = summary["unfairness_fair_run_max_frac"]
        assert_near(100 * worst, case.max_fair_run_unfairness_percent, PRINTED)


@pytest.mark.parametrize("case", [case for case in T1 if case.predictions], ids=lambda case: case.name)
def test_promises_at_later_arrivals(case: Dynamic) -> None:
    """What is promised at a later arrival: the run of the jobs up to that arrival, to its end."""
    for index, promises in (case.predictions or {}).items():
        for later, promise in enumerate(promises):
            known = tuple(case.jobs[: index + later + 1])
            result = run_engine(replace(engine_setup(case), jobs=known))
            assert_near(result.jobs.finish_s[index], promise)


@pytest.mark.parametrize("case", ONE_SHOT + OWN_ONE_SHOT, ids=lambda case: case.name)
def test_one_shot_case(case: OneShot) -> None:
    grants = units_after_arrivals(case.jobs, case.units, case.policy, fractional=case.fractional)
    assert_near(grants, case.grants)


# Where the published grants are whole numbers, pools of whole units decide the same; max-min rounds differently.
WHOLE = [
    case
    for case in ONE_SHOT
    if case.policy != "max-min" and all(Fraction(grant).denominator == 1 for grant in case.grants)
]


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.name)
def test_one_shot_case_in_whole_units(case: OneShot) -> None:
    assert_near(units_after_arrivals(case.jobs, case.units, case.policy, fractional=False), case.grants)


@pytest.mark.parametrize(("sizes", "most", "limits"), T8_THRESHOLDS)
def test_published_thresholds(sizes: tuple[float, ...], most: float, limits: tuple[float, ...]) -> None:
    assert thresholds_by_variation(np.array(sizes), most, published=True) == limits
    assert thresholds_by_variation(np.array(sizes)[::-1], most, published=True) == limits


def test_thresholds_count_the_size_that_opens_a_class() -> None:
    # 10 and 30 together have a C2 of 0.25; the published rule leaves the 10 out, and truncates the 1.5.
    sizes = np.array([1.5, 10.0, 30.0])
    assert thresholds_by_variation(sizes, 0.2) == (1.5, 10.0)
    assert thresholds_by_variation(sizes, 0.2, published=True) == (1.0,)


def test_equal_sizes_share_a_class() -> None:
    # The second 10 makes C2 1.13. The threshold goes before the first of them.
    assert thresholds_by_variation(np.array([1.0] * 99 + [10.0] * 10), 1.0) == (1.0,)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.floats(0.0, 3.0))
def test_no_class_is_empty_or_breaks_the_bound(sizes: list[int], most: float) -> None:
    ordered = np.sort(np.array(sizes, dtype=float))
    classes = np.split(
        ordered, np.searchsorted(ordered, thresholds_by_variation(ordered, most), side="right")
    )
    for sizes_of_class in classes:
        assert len(sizes_of_class) > 0
        variation = np.var(sizes_of_class) / np.mean(sizes_of_class) ** 2
        assert variation <= most + 1e-12 or len(set(sizes_of_class)) == 1


def test_largest_variation() -> None:
    sizes = np.array(EIGHT_SIZES, dtype=float)
    assert largest_variation(sizes) == pytest.approx(T8_LARGEST_PREFIX_VARIATION, rel=1e-12)


@pytest.mark.parametrize(("decay", "classes", "weights"), T8_WEIGHTS)
def test_published_weights(decay: float, classes: int, weights: tuple[Fraction, ...] | None) -> None:
    if weights is None:
        with pytest.raises(PolicyError, match=r"parameter W: .* class"):
            exponential_weights(decay, classes, published=True)
    else:
        assert exponential_weights(decay, classes, published=True) == weights


@pytest.mark.parametrize(("decay", "classes"), [(0.0, 3), (1.0, 2), (-0.67, 3), (3.0, 4), (10.0, 2)])
def test_each_class_weighs_a_power_of_e_more_than_the_next(decay: float, classes: int) -> None:
    weights = [float(weight) for weight in exponential_weights(decay, classes)]
    assert sum(weights) == pytest.approx(1.0, rel=1e-12)
    ratios = [one / other for one, other in pairwise(weights)]
    assert ratios == pytest.approx([math.exp(decay)] * (classes - 1), rel=1e-12)


def test_weights_that_leave_a_class_nothing_are_refused() -> None:
    with pytest.raises(PolicyError, match="less than a billionth of the units; choose a W nearer to 0"):
        exponential_weights(8.0, 4)


def test_thresholds_and_weights_derived_from_a_workload() -> None:
    """T and W of a specification mean the thresholds and weights worked out for its sizes."""
    jobs = [Job(index, size, 4) for index, size in enumerate(EIGHT_SIZES)]
    derived = run_engine(Setup(tuple(jobs), 4, "wfq:T=0.5,W=1,classes=published,zeta_min=0,delta=0.1"))
    stated = run_engine(
        Setup(tuple(jobs), 4, "wfq:thresholds=3+100,weights=133/200+49/200+9/100,zeta_min=0,delta=0.1")
    )
    assert derived.jobs == stated.jobs


@pytest.mark.parametrize("case", OWN_DYNAMIC, ids=lambda case: case.name)
def test_first_start_that_lasted(case: Dynamic) -> None:
    """`start_s` is the first instant whose grant lasted; one taken back at the same instant is none."""
    jobs = [as_stated(job) for job in case.jobs]
    oracle = run(
        jobs, case.units, case.policy, fractional=case.fractional, restart_s=case.restart_s, sizes=case.sizes
    )
    first = [min(start for row, start, _, _ in oracle.segments if row == index) for index in range(len(jobs))]
    starts = run_engine(engine_setup(case)).jobs.start_s
    assert_near(starts, first)
    assert not any(math.isnan(start) for start in starts)
