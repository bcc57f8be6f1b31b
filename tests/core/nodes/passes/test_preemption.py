"""Which jobs are told to leave so that a trial job can start."""

from __future__ import annotations

from betimes.core.job_states import JobState
from tests.core.nodes.small_cluster import UNBIND, VACATE, SmallCluster

TRIAL = 1


def test_the_policy_says_which_job_leaves() -> None:
    cluster = SmallCluster(2)
    older = cluster.running(0)
    cluster.at(1.0)
    younger = cluster.running(0)
    cluster.at(2.0)
    assert cluster.preempt_for(cluster.submit(level=TRIAL))
    assert cluster.told_to_leave(older, younger) == [younger]


def test_of_victims_with_the_same_score_the_one_submitted_last_leaves_under_youngest() -> None:
    cluster = SmallCluster(2)
    first, second = cluster.running(0), cluster.running(0)
    assert cluster.preempt_for(cluster.submit(level=TRIAL))
    assert cluster.told_to_leave(first, second) == [second]


def test_a_job_preempts_only_jobs_of_a_lower_level() -> None:
    cluster = SmallCluster(2)
    equal = cluster.running(0, gpu=2, level=TRIAL)
    trial = cluster.submit(level=TRIAL)
    assert not cluster.preempt_for(trial)
    assert cluster.told_to_leave(equal) == []
    assert cluster.first_waiting == trial


def test_a_priority_counts_only_under_a_policy_by_priority() -> None:
    for by_priority in (False, True):
        cluster = SmallCluster(1, by_priority=by_priority)
        low = cluster.running(0, level=2)
        assert cluster.preempt_for(cluster.submit(level=4)) is by_priority
        assert cluster.told_to_leave(low) == ([low] if by_priority else [])


def test_no_job_leaves_where_all_together_would_not_make_room() -> None:
    cluster = SmallCluster(2, 2)
    small = cluster.running(0)
    cluster.running(0, level=TRIAL)
    cluster.running(1, level=TRIAL)
    trial = cluster.submit(2, 2, level=TRIAL)
    before = cluster.state.jobs[trial].seq, cluster.free
    assert not cluster.preempt_for(trial)
    assert (cluster.state.jobs[trial].seq, cluster.free) == before
    assert cluster.told_to_leave(small) == []


def test_a_job_that_was_preempted_often_enough_is_let_alone() -> None:
    cluster = SmallCluster(1)
    victim = cluster.running(0)
    cluster.state.progress[victim].preemptions = 2
    assert not cluster.preempt_for(cluster.submit(level=TRIAL), most=2)
    assert cluster.preempt_for(cluster.submit(level=TRIAL), most=3)


def test_a_job_that_is_leaving_already_is_no_victim() -> None:
    cluster = SmallCluster(1)
    cluster.running(0, grace_s=5.0)
    assert cluster.preempt_for(cluster.submit(level=TRIAL))
    assert not cluster.preempt_for(cluster.submit(level=TRIAL))


def test_victims_that_are_not_needed_after_all_stay() -> None:
    for trim, expected in (("true", 1), ("false", 2)):
        cluster = SmallCluster(4)
        large = cluster.running(0, gpu=3)
        cluster.at(1.0)
        small = cluster.running(0, gpu=1)
        cluster.at(2.0)
        assert cluster.preempt_for(cluster.submit(3, level=TRIAL), trim=trim)
        assert len(cluster.told_to_leave(large, small)) == expected
        assert large in cluster.told_to_leave(large, small)


def test_the_preemptor_is_owed_what_its_victims_give_and_takes_the_rest_at_once() -> None:
    cluster = SmallCluster(4)
    victim = cluster.running(0, gpu=3, grace_s=5.0)
    trial = cluster.submit(4, level=TRIAL)
    assert cluster.preempt_for(trial)
    assert cluster.status(trial) is JobState.NOMINATED
    assert (cluster.free, cluster.first_waiting) == ([0], -1)
    assert cluster.find(cluster.submit()) == {}  # nothing else fits meanwhile
    cluster.at(5.0)
    cluster.change(VACATE, victim)
    assert cluster.status(trial) is JobState.RUNNING
    assert cluster.state.progress[trial].started_s == 5.0


def test_what_the_preemptor_does_not_need_stays_free() -> None:
    cluster = SmallCluster(4)
    victim = cluster.running(0, gpu=3, grace_s=5.0)
    assert cluster.preempt_for(cluster.submit(2, level=TRIAL))
    assert cluster.free == [1]  # both of its GPUs are owed by the victim
    cluster.change(VACATE, victim)
    assert cluster.free == [2]


def test_a_preemptor_of_two_victims_starts_when_the_last_one_has_left() -> None:
    cluster = SmallCluster(1, 1)
    slow, quick = cluster.running(0, grace_s=9.0), cluster.running(1, grace_s=1.0)
    trial = cluster.submit(1, 2, level=TRIAL)
    assert cluster.preempt_for(trial)
    cluster.at(1.0)
    cluster.change(VACATE, quick)
    assert (cluster.status(trial), cluster.free) == (JobState.NOMINATED, [0, 0])
    cluster.at(9.0)
    cluster.change(VACATE, slow)
    assert cluster.status(trial) is JobState.RUNNING


def test_a_preemptor_that_gives_up_returns_what_it_had_and_its_victims_leave_all_the_same() -> None:
    cluster = SmallCluster(4)
    victim = cluster.running(0, gpu=3, grace_s=5.0)
    trial = cluster.submit(2, level=TRIAL)
    assert cluster.preempt_for(trial)
    cluster.change(UNBIND, trial)
    assert (cluster.status(trial), cluster.free) == (JobState.WAITING, [1])
    assert cluster.told_to_leave(victim) == [victim]
    cluster.at(5.0)
    cluster.change(VACATE, victim)
    assert cluster.free == [4]
