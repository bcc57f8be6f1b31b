"""The engine against the slow object model of tests/reference/nodes: the same starts, nodes, finishes, preemptions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from betimes.outcome import JobState
from tests.reference.nodes import Outcome, State
from tests.reference.nodes import run as run_model
from tests.reference.nodes.cases import (
    Case,
    cases,
    crowded_cases,
    is_refused,
    labelled,
    reserving_policies,
    with_families,
)
from tests.twin.nodes.driving import Stepped, draw, simulation_of, step_through

STATES = {
    State.FINISHED: JobState.FINISHED,
    State.KILLED: JobState.KILLED,
    State.REFUSED: JobState.REFUSED,
}


def differences(stepped: Stepped, expected: Outcome) -> list[str]:
    """One line for everything in which the two differ."""
    result = stepped.run.result()
    kept = stepped.run.kept.tolist()
    found: list[str] = []
    for index, job in enumerate(expected.jobs):
        ours = (
            JobState(result.jobs.state[index]),
            float(result.jobs.finish_s[index]),
            int(result.jobs.preemptions[index]),
        )
        theirs = (
            STATES[job.state],
            float("nan") if job.finish is None else float(job.finish),
            job.preemptions,
        )
        if repr(ours) != repr(theirs):  # also where neither has a finish
            found.append(f"job {index}: {ours} instead of {theirs}")
        if index in kept:
            starts = stepped.starts[kept.index(index)]
            # Each start but the last is ended by a preemption; what is told at once to leave is not seen.
            ends = [absence.signal for absence in expected.absences if absence.job == index]
            lasting = [
                (float(start.time), start.nodes)
                for at, start in enumerate(job.starts)
                if at >= len(ends) or ends[at] > start.time
            ]
            if starts != lasting:
                found.append(f"job {index} starts: {starts} instead of {lasting}")
    absences = result.absences
    ours = sorted(zip(*(c.tolist() for c in absences.columns().values()), strict=True)) if absences else []
    theirs = sorted((a.job, float(a.signal), float(a.vacate), float(a.resume)) for a in expected.absences)
    if ours != theirs:
        found.append(f"absences: {ours} instead of {theirs}")
    return found


def check_case(case: Case) -> None:
    taken = [at for at, job in enumerate(case.jobs) if not is_refused(job, case.nodes, case.policy)]
    assume(taken)
    # The engine counts the jobs that it takes, and draws lots by that number.
    case = replace(case, policy=replace(case.policy, draw=lambda number, seq: draw(number, taken.index(seq))))
    expected = run_model(case.jobs, case.nodes, case.policy)
    assert differences(step_through(simulation_of(case)), expected) == []


def dressed(plain: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """As they are, with labels that some jobs require, or with jobs that need something else on each family."""
    return st.one_of(plain, labelled(plain), with_families(plain))


@settings(max_examples=15)
@given(dressed(cases(too_wide=True)))
def test_same_as_the_model(case: Case):
    check_case(case)


@settings(max_examples=15)
@given(dressed(crowded_cases()))
def test_same_as_the_model_where_many_are_preempted(case: Case):
    check_case(case)


@settings(max_examples=15)
@given(dressed(cases(reserving_policies(), most_jobs=20)))
def test_same_reservations_as_the_model(case: Case):
    check_case(case)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    with_families(labelled(st.one_of(cases(), crowded_cases(), cases(reserving_policies(), most_jobs=20))))
)
def test_same_as_the_model_often_where_jobs_require_labels_and_need_something_else_on_each_family(case: Case):
    check_case(case)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(cases(too_wide=True))
def test_same_as_the_model_often(case: Case):
    check_case(case)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(cases(reserving_policies(), most_jobs=20))
def test_same_reservations_as_the_model_often(case: Case):
    check_case(case)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(crowded_cases())
def test_same_as_the_model_often_where_many_are_preempted(case: Case):
    check_case(case)
