"""The reference model against every worked case of the specification, and what must hold for any jobs."""

from copy import deepcopy
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import Job, allocate_once, oracle, run
from tests.reference.cases import (
    DYNAMIC,
    FAIR_RUN_FIGURE_1,
    FIGURE_1,
    FORGOTTEN_LEASE_MEAN_ERROR_PERCENT,
    FORGOTTEN_LEASE_PREDICTED,
    T1,
    Dynamic,
)
from tests.reference.fairness import (
    absolute_errors,
    event_averaged_fair_jct,
    event_averaged_unfairness,
    fair_run_unfairness,
)
from tests.reference.heuristics import largest_prefix_variation, thresholds_from_t, weights_from_w
from tests.reference.one_shot_cases import (
    EIGHT_SIZES,
    ONE_SHOT,
    T8_LARGEST_PREFIX_VARIATION,
    T8_THRESHOLDS,
    T8_WEIGHTS,
    OneShot,
)
from tests.reference.own_cases import OWN_DYNAMIC, OWN_ONE_SHOT
from tests.reference.prediction import predict_finishes

PRINTED = 5.1e-5  # half of the last of four printed decimals


def mean(values):
    return sum(values) / len(values)


def percent(values):
    return [100 * value for value in values]


def assert_agrees(ours, expected, tolerance):
    """Both are numbers, or sequences of the same shape; None: nothing is expected."""
    if expected is None:
        return
    if isinstance(expected, tuple):
        assert len(ours) == len(expected)
        for one, other in zip(ours, expected, strict=True):
            assert_agrees(one, other, tolerance)
    else:
        assert abs(ours - expected) <= tolerance, (ours, expected)


@pytest.fixture(params=[True, False], ids=["exact", "floats"])
def exact(request):
    return request.param


@pytest.mark.parametrize("case", DYNAMIC + OWN_DYNAMIC, ids=lambda case: case.name)
def test_dynamic_case(case: Dynamic, exact: bool):
    result = run(
        case.jobs,
        case.units,
        case.policy,
        fractional=case.fractional,
        predict=True,
        restart_s=case.restart_s,
        sizes=case.sizes,
        exact=exact,
    )
    whole = 0 if exact else 1e-9
    assert_agrees(result.finish, case.finish, whole)
    assert_agrees(result.jct, case.jct, whole)
    assert_agrees(result.predicted, case.predicted, whole)
    for index, promises in (case.predictions or {}).items():
        assert_agrees(result.predictions[index], promises, whole)
    assert_agrees(percent(absolute_errors(result)), case.error_percent, PRINTED)
    assert_agrees(mean(result.jct), case.mean_jct, PRINTED)
    assert_agrees(100 * mean(absolute_errors(result)), case.mean_error_percent, PRINTED)
    assert_agrees(result.contention, case.contention, 0)
    assert_agrees(event_averaged_fair_jct(result), case.fair_jct, PRINTED)
    unfair = percent(event_averaged_unfairness(result))
    assert_agrees(mean(unfair), case.mean_unfairness_percent, PRINTED)
    assert_agrees(max(unfair), case.max_unfairness_percent, PRINTED)
    assert_agrees(result.preemptions, case.preemptions, 0)
    assert_agrees(result.resizes, case.resizes, 0)
    assert_agrees(result.restart_lost_s, case.restart_lost_s, whole)
    assert_agrees(result.segments, case.segments, whole)
    if case.decisions is not None:
        assert len(result.decisions) == len(case.decisions)
        for ours, (time, grants) in zip(result.decisions, case.decisions, strict=True):
            assert abs(ours.time - time) <= whole
            assert ours.grants == grants


@pytest.mark.parametrize("case", ONE_SHOT + OWN_ONE_SHOT, ids=lambda case: case.name)
def test_one_shot_case(case: OneShot):
    grants = allocate_once(case.jobs, case.units, case.policy, fractional=case.fractional)
    assert_agrees(grants, case.grants, 1e-12)


@pytest.mark.parametrize("case", T1, ids=lambda case: case.name)
def test_unfairness_against_a_max_min_run(case: Dynamic):
    fair_run = run(FIGURE_1, 1, "max-min", fractional=True, exact=True)
    assert fair_run.jct == list(FAIR_RUN_FIGURE_1)
    result = run(case.jobs, case.units, case.policy, fractional=True, exact=True)
    worst = 100 * max(fair_run_unfairness(result, fair_run))
    assert_agrees(worst, case.max_fair_run_unfairness_percent, PRINTED)


def test_themis_promises_without_the_pending_lease(monkeypatch: pytest.MonkeyPatch):
    """The published mistake gives the published wrong numbers: the lease is what our promises rest on."""

    def forgetful(cluster):
        copy = deepcopy(cluster)
        copy.wake = None
        return predict_finishes(copy)

    monkeypatch.setattr(oracle, "predict_finishes", forgetful)
    result = run(FIGURE_1, 1, "themis:lease=1", fractional=True, predict=True, exact=True)
    assert result.predicted == list(FORGOTTEN_LEASE_PREDICTED)
    assert_agrees(100 * mean(absolute_errors(result)), FORGOTTEN_LEASE_MEAN_ERROR_PERCENT, PRINTED)


@pytest.mark.parametrize(("sizes", "t", "limits"), T8_THRESHOLDS)
def test_published_thresholds(sizes, t, limits):
    assert thresholds_from_t(sizes, t, published=True) == [*limits, float("inf")]


def test_thresholds_count_the_size_that_opens_a_class():
    # 10 and 30 together have a C2 of 0.25; the published rule leaves the 10 out, and truncates the 1.5.
    assert thresholds_from_t([1.5, 10, 30], 0.2, published=False) == [1.5, 10, float("inf")]
    assert thresholds_from_t([1.5, 10, 30], 0.2, published=True) == [1, float("inf")]


def test_largest_prefix_variation():
    assert largest_prefix_variation(EIGHT_SIZES) == pytest.approx(T8_LARGEST_PREFIX_VARIATION, rel=1e-14)


@pytest.mark.parametrize(("w", "classes", "weights"), T8_WEIGHTS)
def test_weights(w, classes, weights):
    assert weights_from_w(w, classes) == (None if weights is None else list(weights))


# --- what must hold for any jobs ---

WFQ = "wfq:thresholds=4+8,weights=1/2+3/10+1/5,zeta_min=0.6,delta=0.3"
POLICIES = [
    "fifo",
    "srsf",
    "srtf",
    "las:quantum=2",
    "themis:lease=2",
    "afs",
    "max-min",
    WFQ,
    WFQ + ",cap=largest",
]
RESTARTS = st.sampled_from([0, Fraction(1, 2), 1])
CURVES = [
    None,
    (0, 1, Fraction(9, 5), Fraction(12, 5), Fraction(14, 5)),
    (0, 1, Fraction(19, 10), Fraction(21, 10), Fraction(18, 5)),
]


@st.composite
def job_lists(draw, largest_minimum: int = 4):
    jobs = []
    submit = 0
    for _ in range(draw(st.integers(1, 5))):
        submit += draw(st.integers(0, 3))
        most = draw(st.integers(1, 4))
        jobs.append(
            Job(
                submit=submit,
                work=draw(st.integers(1, 12)),
                max_units=most,
                min_units=draw(st.integers(1, min(most, largest_minimum))),
                speedup=draw(st.sampled_from(CURVES)),
                estimate=draw(st.integers(1, 12)),
                factor=Fraction(draw(st.integers(1, 8)), 4),
            )
        )
    return jobs


def could_use(job: Job, grant, left) -> bool:
    return left > 0 and grant < job.max_units and (grant > 0 or job.min_units == 1 or left >= job.min_units)


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
@given(
    jobs=job_lists(),
    units=st.integers(4, 6),
    restart_s=RESTARTS,
    sizes=st.sampled_from(["true", "estimate", "noise"]),
)
def test_units_and_work_are_conserved(policy, fractional, jobs, units, restart_s, sizes):
    result = run(jobs, units, policy, fractional=fractional, restart_s=restart_s, sizes=sizes, exact=True)
    for decision in result.decisions:
        left = units - sum(decision.grants.values())
        assert left >= 0
        for index, grant in decision.grants.items():
            assert not could_use(jobs[index], grant, left)
    for index, job in enumerate(jobs):
        held = [segment for segment in result.segments if segment[0] == index]
        assert result.units_s[index] == sum((end - start) * grant for _, start, end, grant in held)
        if restart_s == 0:
            assert result.restart_lost_s[index] == 0
            assert job.work == sum((end - start) * rate(job, grant) for _, start, end, grant in held)
        elif len({grant for _, _, _, grant in held}) == 1:
            busy = sum(end - start for _, start, end, _ in held)
            assert job.work == (busy - result.restart_lost_s[index]) * rate(job, held[0][3])
        assert result.resizes[index] + result.preemptions[index] == len(held) - 1
        assert job.submit <= result.start[index] <= held[0][1]
        assert held[-1][2] == result.finish[index]


def rate(job: Job, units):
    at = [Fraction(g) for g in range(job.max_units + 1)] if job.speedup is None else list(job.speedup)
    below = int(units)
    above = min(below + 1, len(at) - 1)
    return at[below] + (units - below) * (at[above] - at[below])


@given(jobs=job_lists(), units=st.integers(4, 6), restart_s=RESTARTS)
def test_fifo_keeps_its_promises(jobs, units, restart_s):
    result = run(jobs, units, "fifo", restart_s=restart_s, predict=True, exact=True)
    assert result.predicted == result.finish


@pytest.mark.parametrize("policy", POLICIES)
@given(jobs=job_lists(), units=st.integers(4, 6), restart_s=RESTARTS)
def test_the_last_promise_comes_true(policy, jobs, units, restart_s):
    """After the last arrival a play-out is the future itself, for every job that is still there."""
    result = run(jobs, units, policy, restart_s=restart_s, predict=True, exact=True)
    assert result.predictions[-1] == [result.finish[-1]]
    for index, finish in enumerate(result.finish):
        if finish > jobs[-1].submit:
            assert result.predictions[index][-1] == finish


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@given(jobs=job_lists(), units=st.integers(4, 6))
def test_one_class_without_caps_is_fifo(fractional, jobs, units):
    fifo = run(jobs, units, "fifo", fractional=fractional, exact=True)
    wfq = run(jobs, units, "wfq:weights=1,zeta_min=0,delta=0.1", fractional=fractional, exact=True)
    assert (wfq.segments, wfq.finish) == (fifo.segments, fifo.finish)


@pytest.mark.parametrize("policy", POLICIES)
@given(jobs=job_lists())
def test_no_policy_beats_srtf_on_one_unit(policy, jobs):
    narrow = [Job(job.submit, job.work) for job in jobs]
    best = run(narrow, 1, "srtf", fractional=True, exact=True)
    assert mean(best.jct) <= mean(run(narrow, 1, policy, fractional=True, exact=True).jct)


@pytest.mark.parametrize("policy", POLICIES)
@given(jobs=job_lists(largest_minimum=1), units=st.integers(1, 6))
def test_true_estimates_and_factors_of_one_change_nothing(policy, jobs, units):
    informed = [Job(j.submit, j.work, j.max_units, 1, j.speedup, estimate=j.work, factor=1) for j in jobs]
    truth = run(informed, units, policy, predict=True, exact=True)
    for sizes in ("estimate", "noise"):
        result = run(informed, units, policy, predict=True, exact=True, sizes=sizes)
        assert (result.segments, result.predictions) == (truth.segments, truth.predictions)
        assert result.contention == truth.contention


@pytest.mark.parametrize(
    "jobs",
    [
        (Job(1, 4), Job(0, 4)),
        (Job(0, 0),),
        (Job(-1, 4),),
        (Job(0, 4, 1, min_units=2),),
        (Job(0, 4, 3, min_units=3),),
    ],
)
def test_impossible_jobs_are_refused(jobs):
    with pytest.raises(ValueError, match="job"):
        run(jobs, 2, "fifo")


@pytest.mark.parametrize("policy", ["las:quantum=2", "themis:lease=2"])
def test_restarts_as_long_as_a_turn_are_refused(policy):
    with pytest.raises(ValueError, match="never end"):
        run([Job(0, 4), Job(0, 4)], 1, policy, restart_s=2)
