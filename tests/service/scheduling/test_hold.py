"""Jobs that are submitted to be held, or to begin later, do not start before."""

from __future__ import annotations

from betimes.service.scheduling.job_states import Status
from tests.service.reliability.cluster import Cluster, spec


def test_a_job_that_is_held_from_the_start() -> None:
    cluster = Cluster()
    (job,) = cluster.submit(spec(5.0, hold=True))
    cluster.go_on(100.0)
    assert cluster.status(job) == Status.HELD
    assert cluster.job(job).reason["code"] == "held"
    cluster.scheduler.jobs.release(job, "ann")
    cluster.turn()
    cluster.go_on(5.0)
    assert cluster.status(job) == Status.FINISHED
    assert cluster.story(job)[:4] == ["submitted", "held", "released", "queued"]


def test_every_element_of_an_array_is_held() -> None:
    cluster = Cluster()
    jobs = cluster.submit(spec(5.0, hold=True, array="1-3%2"))
    assert [cluster.status(job) for job in jobs] == [Status.HELD] * 3
    for job in jobs:
        cluster.scheduler.jobs.release(job, "ann")
    cluster.turn()
    assert [cluster.status(job) for job in jobs] == [Status.RUNNING, Status.RUNNING, Status.BLOCKED]
    cluster.go_on(20.0)
    assert [cluster.status(job) for job in jobs] == [Status.FINISHED] * 3


def test_a_job_that_waits_for_another_stays_held_when_that_has_ended() -> None:
    cluster = Cluster()
    (first,) = cluster.submit(spec(5.0))
    (second,) = cluster.submit(spec(5.0, hold=True, after=[str(first)]))
    cluster.go_on(10.0)
    assert cluster.status(second) == Status.HELD
    cluster.scheduler.jobs.release(second, "ann")
    cluster.turn()
    assert cluster.status(second) == Status.RUNNING


def test_a_job_that_is_to_begin_later() -> None:
    cluster = Cluster()
    begin_at = cluster.now_at + 60.0
    (job,) = cluster.submit(spec(5.0, begin_at=begin_at))
    (now,) = cluster.submit(spec(5.0, begin_at=1.0))
    assert cluster.status(now) == Status.RUNNING
    cluster.go_on(59.0)
    assert cluster.status(job) == Status.BLOCKED
    assert cluster.job(job).reason["code"] == "begin"
    cluster.go_on(1.0)
    assert cluster.status(job) == Status.RUNNING
    cluster.go_on(5.0)
    assert cluster.status(job) == Status.FINISHED
