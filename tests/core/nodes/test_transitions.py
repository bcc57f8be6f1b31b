"""What each transition of the nodes engine does to a job, its nodes and the queue."""

from __future__ import annotations

import math

from betimes.core.job_states import JobState
from tests.core.nodes.small_cluster import FINISH, LEAVE, LOSE, VACATE, WITHDRAW, SmallCluster, ends_at


def test_a_submitted_job_waits_and_holds_nothing() -> None:
    cluster = SmallCluster(4)
    job = cluster.submit(2)
    assert cluster.status(job) is JobState.WAITING
    assert (cluster.free, cluster.first_waiting) == ([4], job)
    assert math.isnan(cluster.state.progress[job].started_s)


def test_jobs_of_one_key_wait_in_the_order_of_their_submission() -> None:
    cluster = SmallCluster(4)
    first, second = cluster.submit(), cluster.submit()
    assert cluster.first_waiting == first
    cluster.start(first, {0: 1})
    assert cluster.first_waiting == second


def test_a_job_that_starts_takes_its_nodes_and_leaves_the_queue() -> None:
    cluster = SmallCluster(4, 4)
    cluster.at(7.0)
    job = cluster.submit(2, 3, run_s=100.0)
    cluster.start(job, {0: 2, 1: 1})
    assert cluster.status(job) is JobState.RUNNING
    assert (cluster.free, cluster.first_waiting) == ([0, 2], -1)
    progress = cluster.state.progress[job]
    assert (progress.started_s, progress.finish_at) == (7.0, 107.0)


def test_a_job_that_finishes_gives_its_nodes_and_its_slot_back() -> None:
    cluster = SmallCluster(4)
    job = cluster.running(0, gpu=3)
    cluster.at(100.0)
    cluster.change(FINISH, job)
    assert cluster.free == [4]
    assert cluster.state.pool[0].active == 0
    assert cluster.submit() == job


def test_a_job_that_is_told_to_leave_keeps_its_nodes_for_its_grace_period_and_does_no_work() -> None:
    cluster = SmallCluster(4)
    job = cluster.running(0, gpu=3, grace_s=5.0)
    cluster.at(40.0)
    cluster.change(LEAVE, job)
    progress = cluster.state.progress[job]
    eviction = cluster.state.evictions[job]
    assert (eviction.preempted_s, eviction.vacate_at, cluster.free) == (40.0, 45.0, [1])
    assert (progress.rate, progress.finish_at, progress.work_left) == (0.0, math.inf, 60.0)
    assert progress.preemptions == 1
    assert cluster.status(job) is JobState.VACATING


def test_a_job_that_has_left_waits_again_with_the_work_that_is_left() -> None:
    cluster = SmallCluster(4, restart_s=10.0)
    job = cluster.running(0, gpu=3, grace_s=5.0)
    cluster.at(40.0)
    cluster.change(LEAVE, job)
    cluster.at(45.0)
    cluster.change(VACATE, job)
    assert (cluster.status(job), cluster.free, cluster.first_waiting) == (JobState.PREEMPTED, [4], job)
    cluster.at(50.0)
    cluster.start(job, {0: 1})
    assert cluster.state.progress[job].finish_at == 50.0 + 10.0 + 60.0  # the restart is lost once more
    assert cluster.state.progress[job].started_s == 0.0


def test_the_first_start_loses_no_restart() -> None:
    cluster = SmallCluster(1, restart_s=10.0)
    assert cluster.state.progress[cluster.running(0)].finish_at == 100.0


def test_a_job_that_gets_and_loses_its_nodes_within_one_instant_has_not_started() -> None:
    cluster = SmallCluster(1, restart_s=10.0)
    job = cluster.running(0)
    cluster.change(LEAVE, job)
    cluster.change(VACATE, job)
    assert cluster.status(job) is JobState.WAITING
    cluster.start(job, {0: 1})
    assert cluster.state.progress[job].finish_at == 100.0


def test_a_job_that_loses_its_nodes_is_requeued_at_once_and_no_preemption_is_counted() -> None:
    cluster = SmallCluster(4)
    job = cluster.running(0, gpu=3, grace_s=5.0)
    cluster.at(40.0)
    cluster.change(LOSE, job)
    progress = cluster.state.progress[job]
    assert (cluster.status(job), cluster.free) == (JobState.PREEMPTED, [4])
    assert (progress.work_left, progress.preemptions, progress.finish_at) == (60.0, 0, math.inf)


def test_a_withdrawn_job_leaves_the_queue_and_frees_its_slot() -> None:
    cluster = SmallCluster(4)
    first, second = cluster.submit(), cluster.submit()
    cluster.change(WITHDRAW, first)
    assert cluster.first_waiting == second
    assert cluster.state.pool[0].active == 1


def test_a_closed_node_takes_nothing_new_and_what_runs_there_goes_on() -> None:
    cluster = SmallCluster(4, 4)
    running, waiting = cluster.running(0), cluster.submit()
    cluster.open(0, up=False)
    assert cluster.status(running) is JobState.RUNNING
    assert cluster.find(waiting) == {1: 1}
    cluster.open(0, up=True)
    assert cluster.find(waiting) == {0: 1}


def test_the_believed_end_is_by_belief_while_a_job_works_and_exact_once_it_leaves() -> None:
    cluster = SmallCluster(4)
    job = cluster.submit(run_s=100.0, runtime_estimate_s=300.0, grace_s=5.0)
    cluster.start(job, {0: 1})
    assert ends_at(cluster.state, job) == 300.0
    cluster.at(40.0)
    cluster.change(LEAVE, job)
    assert ends_at(cluster.state, job) == 45.0
