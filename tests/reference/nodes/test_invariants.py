"""What must hold for any jobs, nodes and policy (fitgpp B.9, B7), read off the log of events."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.nodes import TRIAL, Job, Policy, State, run
from tests.reference.nodes.cases import (
    PREEMPTIONS,
    Case,
    cases,
    crowded_cases,
    is_refused,
    preempting_policies,
    queueing_policies,
)
from tests.reference.nodes.resources import NOTHING, fits, minus, plus, times

TRUE_BELIEFS = {"beliefs": False}


def outcome_of(case: Case):
    return run(case.jobs, case.nodes, case.policy)


def segments_of(case: Case, outcome):
    """For each job its runs as (start, signal or end)."""
    segments = [[] for _ in case.jobs]
    for event in outcome.events:
        if event.kind == "start":
            segments[event.job].append([event.time, None])
        elif event.kind in {"signal", "finish", "kill"}:
            segments[event.job][-1][1] = event.time
    return segments


@given(case=st.one_of(cases(too_wide=True), crowded_cases()))
def test_no_node_gives_more_than_it_has(case):
    used = defaultdict(lambda: NOTHING)
    for event in outcome_of(case).events:
        if event.kind not in {"start", "vacate", "finish", "kill"}:
            continue
        change = plus if event.kind == "start" else minus
        for node, tasks in event.nodes:
            used[node] = change(used[node], times(tasks, case.jobs[event.job].demand))
            assert fits(NOTHING, used[node])
            assert fits(used[node], case.nodes[node].capacity)
    assert all(amount == NOTHING for amount in used.values())


@given(case=st.one_of(cases(too_wide=True), crowded_cases()))
def test_every_job_ends_unless_it_is_refused(case):
    for job, ended in zip(case.jobs, outcome_of(case).jobs, strict=True):
        if is_refused(job, case.nodes, case.policy):
            assert (ended.state, ended.start, ended.finish) == (State.REFUSED, None, None)
        elif case.policy.overrun == "kill" and job.size is not None and job.size < job.run:
            assert ended.state is State.KILLED
        else:
            assert ended.state is State.FINISHED


@given(case=st.one_of(cases(), crowded_cases()))
def test_work_is_conserved(case):
    """Runs add up to the job's run time, or to its estimate where that is a limit; restarts cost their time."""
    outcome = outcome_of(case)
    for job, ended, segments in zip(case.jobs, outcome.jobs, segments_of(case, outcome), strict=True):
        overheads = [0, *[case.policy.restart_s] * (len(segments) - 1)]
        worked = sum(
            max(0, until - start - overhead)
            for (start, until), overhead in zip(segments, overheads, strict=True)
        )
        assert worked == (job.size if ended.state is State.KILLED else job.run)


@given(case=crowded_cases())
def test_preemptions_are_limited_and_end(case):
    outcome = outcome_of(case)
    absences = defaultdict(list)
    for absence in outcome.absences:
        assert absence.vacate == absence.signal + case.jobs[absence.job].grace
        assert absence.resume >= absence.vacate
        absences[absence.job].append(absence)
    for seq, ended in enumerate(outcome.jobs):
        assert ended.preemptions == len(absences[seq]) <= case.policy.preemption_limit
        assert [start.time for start in ended.starts[1:]] == [absence.resume for absence in absences[seq]]


@given(case=crowded_cases())
def test_only_the_lower_class_leaves(case):
    def class_of(seq):
        job = case.jobs[seq]
        return (job.priority if case.policy.preemption == "lowest-priority" else 0, job.qos)

    nominated = -1
    for event in outcome_of(case).events:
        if event.kind == "nominate":
            nominated = event.job
        if event.kind == "signal":
            assert class_of(event.job) < class_of(nominated)


@given(case=crowded_cases(preempting_policies(("fitgpp",))))
def test_fitgpp_without_a_fallback_takes_one_victim_at_a_time(case):
    policy = replace(case.policy, fallback="none", draw=None)
    kinds = [event.kind for event in run(case.jobs, case.nodes, policy).events]
    assert kinds.count("signal") == kinds.count("nominate")


@given(case=crowded_cases())
def test_a_trimmed_plan_spares_all_who_stand_elsewhere(case):
    outcome = run(case.jobs, case.nodes, replace(case.policy, trim=True))
    bound = set()
    for event in outcome.events:
        if event.kind == "nominate":
            bound = {node for node, _ in event.nodes}
        if event.kind == "signal":
            assert bound & {node for node, _ in event.nodes}


@pytest.mark.parametrize("preemption", PREEMPTIONS)
@given(case=cases(preempting_policies(), trials=False, priorities=False))
def test_without_trial_jobs_every_policy_is_fifo(preemption, case):
    outcome = run(case.jobs, case.nodes, replace(case.policy, preemption=preemption))
    assert outcome == run(case.jobs, case.nodes, replace(case.policy, preemption="none"))


@pytest.mark.parametrize("preemption", ["fitgpp", "lrtp", "rand", "youngest"])
@given(case=crowded_cases(preempting_policies()))
def test_trial_jobs_do_not_notice_best_effort_jobs_on_one_node_without_grace(preemption, case):
    """With one node, no grace and no limit, trial jobs run as if they were alone."""
    policy = replace(case.policy, preemption=preemption, preemption_limit=len(case.jobs), fallback="rand")
    nodes = (max(case.nodes, key=lambda node: node.capacity),)
    hasty = [replace(job, grace=0) for job in case.jobs]
    kept = [job for job in hasty if not is_refused(job, nodes, policy)]
    mixed = run(kept, nodes, policy)
    alone = run([job for job in kept if job.qos == TRIAL], nodes, policy)
    trials = [ended for job, ended in zip(kept, mixed.jobs, strict=True) if job.qos == TRIAL]
    assert trials == alone.jobs


# --- backfilling ---


@given(case=cases(queueing_policies(), **TRUE_BELIEFS))
def test_easy_never_delays_the_head(case):
    """With true beliefs and first come first served, a head starts no later than first promised."""
    policy = replace(case.policy, order="fifo", backfilling="easy")
    assert_promises_hold(case.jobs, case.nodes, policy)


@given(case=cases(queueing_policies(), **TRUE_BELIEFS))
def test_conservative_delays_nobody_on_one_node(case):
    policy = replace(case.policy, order="fifo", backfilling="conservative")
    nodes = (max(case.nodes, key=lambda node: node.capacity),)
    jobs = tuple(job for job in case.jobs if not is_refused(job, nodes, policy))
    assert_promises_hold(jobs, nodes, policy)


def assert_promises_hold(jobs: tuple[Job, ...], nodes, policy: Policy):
    outcome = run(jobs, nodes, policy)
    for promise in outcome.reservations:
        assert outcome.jobs[promise.job].start <= promise.time


@given(case=cases(queueing_policies()))
def test_skipping_over_nobody_is_strict(case):
    one = run(case.jobs, case.nodes, replace(case.policy, backfilling="skip-over", window=1))
    assert one == run(case.jobs, case.nodes, replace(case.policy, backfilling="strict", window=0))


@given(case=cases(queueing_policies()))
def test_all_policies_start_a_job_that_finds_the_machine_empty(case):
    alone = [replace(job, submit=job.submit + 1000 * seq) for seq, job in enumerate(case.jobs)]
    outcome = run(alone, case.nodes, case.policy)
    assert [ended.start for ended in outcome.jobs] == [job.submit for job in alone]
