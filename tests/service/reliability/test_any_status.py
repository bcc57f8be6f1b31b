"""Hold, release and cancel in every status; retries, dependencies and arrays, also when the service is killed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from betimes.service.scheduling.events import Ended, RunId
from betimes.service.scheduling.job_states import LEGAL, Status, Transition
from betimes.service.scheduling.reports import MOST_LOSSES
from tests.service.reliability.cluster import Cluster, spec


def held(cluster: Cluster) -> int:
    job = queued(cluster)
    cluster.scheduler.jobs.hold(job, "ann")
    cluster.turn()
    return job


def queued(cluster: Cluster) -> int:
    cluster.submit(*[spec(100.0)] * 4)
    return cluster.submit(spec(estimate_s=1000.0))[0]


def blocked(cluster: Cluster) -> int:
    (first,) = cluster.submit(spec(100.0))
    return cluster.submit(spec(after=[str(first)]))[0]


def delayed(cluster: Cluster) -> int:
    (job,) = cluster.submit(spec(1.0, code=1, retries=3, backoff_s=100.0))
    cluster.go_on(2.0)
    return job


def limited(cluster: Cluster) -> int:
    return cluster.submit(spec(100.0, array="1-3%1"))[1]


def running(cluster: Cluster) -> int:
    return cluster.submit(spec(100.0))[0]


def preempted(cluster: Cluster) -> int:
    """Told to leave, with its grace period still to go."""
    long = cluster.submit(*[spec(1000.0)] * 4)
    cluster.go_on(0.5)
    cluster.scheduler.policy.set_policy("srsf", "ann")
    cluster.turn()
    cluster.go_on(0.5)
    cluster.submit(spec(1.0))
    return next(number for number in long if cluster.job(number).status is Status.STOPPING)


def cancelled_but_there(cluster: Cluster) -> int:
    job = running(cluster)
    cluster.scheduler.jobs.cancel(job, "ann")
    cluster.turn()
    return job


def finished(cluster: Cluster) -> int:
    (job,) = cluster.submit(spec(1.0))
    cluster.go_on()
    return job


def failed(cluster: Cluster) -> int:
    (job,) = cluster.submit(spec(1.0, code=3))
    cluster.go_on()
    return job


def cancelled(cluster: Cluster) -> int:
    job = held(cluster)
    cluster.scheduler.jobs.cancel(job, "ann")
    cluster.turn()
    return job


MAKERS = [
    (held, Status.HELD),
    (queued, Status.QUEUED),
    (blocked, Status.BLOCKED),
    (delayed, Status.BLOCKED),
    (limited, Status.BLOCKED),
    (running, Status.RUNNING),
    (preempted, Status.STOPPING),
    (cancelled_but_there, Status.STOPPING),
    (finished, Status.FINISHED),
    (failed, Status.FAILED),
    (cancelled, Status.CANCELLED),
]
STEPS = {"hold": Transition.HOLD, "release": Transition.RELEASE, "cancel": Transition.CANCEL}


@pytest.mark.parametrize("crash", [False, True], ids=["", "after a crash"])
@pytest.mark.parametrize("verb", STEPS)
@pytest.mark.parametrize(("make", "status"), MAKERS, ids=[make.__name__ for make, _ in MAKERS])
def test_what_is_asked_is_done_where_the_table_has_it(
    make: Callable[[Cluster], int], status: Status, verb: str, crash: bool
) -> None:
    cluster = Cluster()
    job = make(cluster)
    cluster.turn()
    if crash:
        cluster.crash()
    assert cluster.status(job) == status.value
    cluster.go_on(0.1)
    events = cluster.ledger.next_event
    done = cluster.ask(f"jobs.{verb}", job, "bob")
    again = verb == "hold" and status is Status.HELD  # which is so already
    assert done == ((status, STEPS[verb]) in LEGAL or again)
    if not done:
        assert cluster.ledger.next_event == events
    cluster.turn()
    if done and verb == "cancel":
        cluster.go_on(5.0)
        assert cluster.status(job) == "cancelled"
    elif done and verb == "hold":
        cluster.go_on(200.0)
        assert cluster.status(job) == "held"
        cluster.scheduler.jobs.release(job, "bob")
        cluster.turn()
    cluster.go_on()
    assert all(live.status is Status.HELD for live in cluster.ledger.jobs.values())


def test_retries_wait_twice_as_long_each_time_also_across_restarts() -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(1.0, code=7, retries=3, backoff_s=4.0))
    began = []
    while job in cluster.ledger.jobs:
        if cluster.job(job).status is Status.RUNNING and len(began) < cluster.job(job).attempt:
            began.append(cluster.now_at)
        cluster.go_on(0.5)
        cluster.crash()
    waits = [round(b - a - 1.0) for a, b in pairwise(began)]
    assert (cluster.status(job), waits) == ("failed", [4, 8, 16])
    assert cluster.rows[job]["attempt"] == 4
    assert cluster.rows[job]["reason"]["text"] == "exited with 7"


def test_a_command_that_cannot_be_started_fails_for_good_and_says_why() -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(10.0, retries=5))
    why = "the command 'nothing' does not exist"
    cluster.report(Ended(RunId(job, 1), cluster.now_at, None, why="start-failed", message=why))
    cluster.turn()
    assert cluster.status(job) == "failed"
    assert cluster.rows[job]["reason"] == {"code": "start-failed", "text": why, "evidence": {}}
    assert cluster.runs[RunId(job, 1)]["message"] == why


def test_a_job_whose_runs_vanish_is_not_started_for_ever() -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(10.0))
    for number in range(1, MOST_LOSSES + 2):
        assert cluster.job(job).attempt == number
        lose(cluster, job, "node-lost", "the machine restarted")
    assert cluster.status(job) == "failed"
    assert cluster.rows[job]["reason"]["code"] == "lost"


def lose(cluster: Cluster, job: int, why: str, message: str) -> None:
    """The job's run is gone, a moment later."""
    cluster.arrive(cluster.now_at + 0.1)
    run = RunId(job, cluster.job(job).attempt)
    cluster.report(Ended(run, cluster.now_at, None, why=why, message=message))
    cluster.turn()


@pytest.mark.parametrize("asked", [{}, {"requeue": False, "retries": 3}], ids=["no retries", "no requeue"])
def test_a_run_of_which_nobody_knows_how_it_ended_is_not_run_again(asked: dict[str, Any]) -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(10.0, **asked))
    lose(cluster, job, "lost", "its supervisor was killed")
    cluster.go_on()
    assert cluster.status(job) == "failed"
    reason = cluster.rows[job]["reason"]
    assert reason["code"] == "lost"
    assert reason["text"].startswith("its run was lost: its supervisor was killed; its work may be done")
    assert cluster.rows[job]["attempt"] == 1


def test_a_run_of_which_nobody_knows_how_it_ended_takes_one_of_its_retries() -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(10.0, retries=1, backoff_s=1.0))
    lose(cluster, job, "lost", "its supervisor was killed")
    assert cluster.rows[job]["reason"]["code"] == "retry-delay"
    cluster.go_on(5.0)
    assert cluster.job(job).attempt == 2
    lose(cluster, job, "lost", "its supervisor was killed")
    assert cluster.status(job) == "failed"


@pytest.mark.parametrize("how", ["machine", "node", "preempted", "stopped"])
@pytest.mark.parametrize("requeue", [True, False], ids=["requeue", "no requeue"])
def test_a_job_is_started_again_after_an_interruption_unless_it_is_not_to_be(how: str, requeue: bool) -> None:
    cluster = Cluster("nodes:fifo", nodes=1)
    (job,) = cluster.submit(spec(10.0, requeue=requeue))
    if how == "node":
        cluster.scheduler.nodes.set_status("n-0", "lost", "timer")
        cluster.turn()
        cluster.scheduler.nodes.set_status("n-0", "up", "node")
        cluster.turn()
    elif how == "preempted":
        cluster.scheduler._runs.preempt_until(cluster.job(job), 1.0, cluster.now_at + 1.0, [], {})
        lose(cluster, job, "stopped", "")
    else:
        lose(cluster, job, {"machine": "node-lost", "stopped": "stopped"}[how], "")
    cluster.go_on()
    assert cluster.status(job) == ("finished" if requeue else "failed")
    assert cluster.rows[job]["attempt"] == (2 if requeue else 1)
    if not requeue:
        text = cluster.rows[job]["reason"]["text"]
        assert text.endswith("; it is not requeued, as it was submitted with requeue = false")


def test_an_elastic_job_cannot_be_kept_from_being_started_again() -> None:
    with pytest.raises(ValueError, match="requeue: a job that may not be started again cannot be resized"):
        spec(10.0, max_units=2, requeue=False)


def test_a_run_that_vanishes_while_it_is_preempted_goes_on_later() -> None:
    cluster = Cluster()
    job = preempted(cluster)
    cluster.report(Ended(RunId(job, 1), cluster.now_at, None, why="lost", message="killed"))
    cluster.turn()
    assert cluster.status(job) == "queued"
    cluster.go_on()
    assert cluster.status(job) == "finished"


@pytest.mark.parametrize("lose_world", [False, True])
def test_dependencies_hold_across_restarts(lose_world: bool) -> None:
    cluster = Cluster()
    good, bad = cluster.submit(spec(10.0), spec(10.0, code=1))
    after = cluster.submit(
        *(spec(1.0, after=[f"{one}:{on}"]) for one in (good, bad) for on in ("ok", "any")),
    )
    last = cluster.submit(spec(1.0, after=[f"{after[2]}:any", str(after[0])]))[0]
    for _ in range(3):
        cluster.crash(lose_world)
        cluster.go_on(4.0)
    cluster.go_on()
    assert [cluster.status(job) for job in after] == ["finished", "finished", "cancelled", "finished"]
    assert cluster.rows[after[2]]["reason"]["code"] == "dependency-failed"
    assert cluster.rows[after[2]]["reason"]["text"] == f"depends on job {bad}, which has failed"
    assert cluster.status(last) == "finished"


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_no_more_of_an_array_is_at_work_than_may_be_whatever_happens_to_it(policy: str) -> None:
    cluster = Cluster(policy, nodes=4)
    jobs = cluster.submit(spec(5.0, code=1, retries=1, backoff_s=3.0, array="1-9%2"))
    most = 0
    while set(jobs) & set(cluster.ledger.jobs):
        busy = [n for n in jobs if cluster.status(n) in ("queued", "running", "stopping")]
        most = max(most, len(busy))
        if cluster.now_at < 1010.0 and len(busy) == 2:
            cluster.ask("jobs.hold", busy[0], "ann")
            cluster.ask("jobs.cancel", busy[1], "ann")
            cluster.turn()
        cluster.go_on(1.5)
        cluster.crash()
        for number in [n for n in jobs if cluster.status(n) == "held"]:
            cluster.scheduler.jobs.release(number, "ann")
            cluster.turn()
    assert most == 2


def test_a_run_that_reaches_its_time_limit_fails_for_that_reason() -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(100.0, time_limit_s=8.0, retries=2))
    cluster.go_on(4.0)
    cluster.crash()
    cluster.go_on()
    assert cluster.status(job) == "failed"
    assert cluster.rows[job]["finished_at"] == cluster.rows[job]["started_at"] + 8.0
    assert cluster.rows[job]["reason"]["code"] == "time-limit"
