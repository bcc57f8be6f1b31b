"""What one job of a name took is believed of the others that nobody told anything of."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.protocol import RunId
from betimes.service.executors.virtual import WORK
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.beliefs import (
    MOST_A_TURN,
    SIBLINGS_A_FINISHED,
    RuntimeEstimates,
    Siblings,
)
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.learnt_runtimes import ranges
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import JobFilter
from tests.service.four_cores import on_four_cores, over
from tests.service.reliability.cluster import Cluster, spec

USUAL_S = 3600.0
POLICIES = ["fifo", "srsf", "nodes:fifo", "easy", "conservative"]


def untold(work_s: float, **asked: Any) -> JobSpec:
    return spec(work_s, estimate_s=None, **asked)


def believed(cluster: Cluster, *numbers: int) -> list[float]:
    return [cluster.job(number).runtime_estimate_s for number in numbers]


def left(cluster: Cluster, number: int) -> float:
    return cluster.scheduler.engine.believed_left(number, cluster.scheduler.now_s)


@pytest.mark.parametrize("policy", POLICIES)
def test_those_that_wait_are_believed_to_take_what_the_last_ones_took(policy: str) -> None:
    cluster = Cluster(policy)  # two nodes of two cores
    numbers = cluster.submit(untold(10.0, array="1-8"))
    others = cluster.submit(untold(10.0), user="bob")
    assert believed(cluster, *numbers) == [USUAL_S] * 8
    cluster.go_on(10.0)
    waiting = [number for number in numbers if number in cluster.ledger.jobs]
    assert len(waiting) == 4
    assert believed(cluster, *waiting) == pytest.approx([10.0] * 4)
    assert [left(cluster, number) for number in waiting] == pytest.approx([10.0] * 4)
    assert {cluster.job(number).basis for number in waiting} == {"last-two"}
    assert believed(cluster, *others) == [USUAL_S]  # another user's
    cluster.crash()
    assert [left(cluster, number) for number in waiting] == pytest.approx([10.0] * 4, abs=0.01)
    cluster.go_on()


@pytest.mark.parametrize("policy", POLICIES)
def test_those_that_run_are_too_as_far_as_they_are(policy: str) -> None:
    cluster = Cluster(policy)
    (first,) = cluster.submit(untold(10.0))
    cluster.go_on(4.0)
    later, longer = cluster.submit(untold(10.0), untold(60.0))
    cluster.go_on(6.0)
    assert cluster.status(first) == Status.FINISHED
    assert left(cluster, later) == pytest.approx(4.0)
    cluster.go_on(2.0)
    assert cluster.status(later) == Status.RUNNING
    cluster.crash()
    assert left(cluster, longer) == pytest.approx(2.0, abs=0.01)
    cluster.go_on()
    assert cluster.status(longer) == Status.FINISHED


def test_one_that_has_run_for_longer_is_believed_to_take_twice_as_long() -> None:
    cluster = Cluster("fifo")
    (long,) = cluster.submit(untold(100.0))
    cluster.go_on(25.0)
    cluster.submit(untold(10.0))
    cluster.go_on(10.0)
    assert left(cluster, long) == pytest.approx(5.0)  # 40 s in all, of which 35 have passed


def test_what_was_told_or_reported_stays() -> None:
    cluster = Cluster("fifo")
    told, reports = cluster.submit(spec(100.0, estimate_s=100.0), untold(100.0))
    cluster.go_on(5.0)
    for step in range(1, 7):
        cluster.scheduler.reports.progressed(reports, 1, step, 100.0)
        cluster.go_on(1.0)
    (short,) = cluster.submit(untold(10.0))
    cluster.go_on(10.0)
    assert cluster.status(short) == Status.FINISHED
    assert believed(cluster, told) == [100.0]
    assert cluster.job(reports).basis == "progress"


def test_those_that_may_not_queue_yet_come_with_it() -> None:
    cluster = Cluster("fifo")
    numbers = cluster.submit(untold(10.0, array="1-4%1"))
    (held,) = cluster.submit(untold(10.0, hold=True))
    (after,) = cluster.submit(untold(10.0, after=[f"{numbers[0]}:ok"]))
    cluster.go_on(10.0)
    assert believed(cluster, *numbers[1:], held, after) == pytest.approx([10.0] * 5)
    assert left(cluster, numbers[1]) == pytest.approx(10.0)  # it has entered in the very same turn
    assert left(cluster, after) == pytest.approx(10.0)
    cluster.crash()
    assert believed(cluster, *numbers[2:], held) == pytest.approx([10.0] * 3)


def test_wide_jobs_take_it_on_their_full_width() -> None:
    cluster = Cluster("fifo")
    first, second = cluster.submit(*(untold(40.0, min_units=4, max_units=4) for _ in range(2)))
    cluster.go_on(10.0)
    assert cluster.status(first) == Status.FINISHED
    assert believed(cluster, second) == pytest.approx([10.0])
    assert left(cluster, second) == pytest.approx(40.0)  # on one unit


def test_many_are_told_a_part_at_a_time() -> None:
    siblings, times = Siblings(), RuntimeEstimates()
    times.finished("ann", "x", "x", 10.0)
    jobs = [
        Job(n, JobSpec(command=["x"], name="x"), "ann", 0.0, USUAL_S, "default")
        for n in range(MOST_A_TURN + 1)
    ]
    for job in jobs:
        siblings.note(job)
    for _ in range(MOST_A_TURN // SIBLINGS_A_FINISHED + 1):
        siblings.finished("ann", "x", times.learnt("ann", "x"))
    ((_, first),) = siblings.take()
    assert first == jobs[:MOST_A_TURN]
    assert siblings.are_outdated
    ((_, second),) = siblings.take()
    assert second == jobs[MOST_A_TURN:]
    assert not siblings.are_outdated


def test_the_next_turn_comes_at_once_while_some_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("betimes.service.scheduling.beliefs.MOST_A_TURN", 3)
    cluster = Cluster("fifo")
    numbers = cluster.submit(untold(10.0, array="1-14"))
    cluster.arrive(cluster.now_at + 10.0)
    cluster.turn()
    turns = 1
    while cluster.scheduler.next_timer_at() <= cluster.now_at:
        cluster.turn()
        turns += 1
    waiting = [number for number in numbers if number in cluster.ledger.jobs]
    assert len(waiting) == 10
    assert believed(cluster, *waiting) == pytest.approx([10.0] * 10)
    assert turns > 2
    assert sum(event.kind == "learnt" for event in cluster.log) >= 4
    cluster.go_on()


def test_what_the_last_ones_took_is_believed_up_to_the_time_limit() -> None:
    cluster = Cluster("fifo", nodes=1)  # two cores
    first, second, bounded, free = cluster.submit(
        *(untold(10.0), untold(10.0), untold(10.0, time_limit_s=8.0), untold(10.0, time_limit_s=7200.0))
    )
    assert believed(cluster, first, second, bounded, free) == [USUAL_S, USUAL_S, 8.0, 7200.0]
    cluster.go_on(10.0)
    assert believed(cluster, bounded, free) == pytest.approx([8.0, 10.0])
    assert [cluster.job(number).basis for number in (bounded, free)] == ["limit", "last-two"]


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_one_that_outruns_its_estimate_is_believed_to_end_at_its_limit(policy: str) -> None:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(100.0, estimate_s=10.0, time_limit_s=25.0, grace_s=4.0))
    cluster.go_on(10.0)
    assert left(cluster, job) == pytest.approx(10.0)
    cluster.go_on(10.0)
    assert left(cluster, job) == pytest.approx(5.0)
    assert cluster.job(job).basis == "limit"
    cluster.crash()
    assert left(cluster, job) == pytest.approx(5.0, abs=0.01)
    cluster.go_on()
    assert cluster.status(job) == Status.FAILED


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_one_that_is_not_killed_at_its_limit_is_believed_to_go_on_for_longer_and_longer(policy: str) -> None:
    """Each belief is an event, and is promised: one that hangs for an hour must not have one a second."""
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(1e6, estimate_s=10.0, time_limit_s=25.0, grace_s=4.0))
    cluster.world.limit(RunId(job, 1), math.inf)  # the process does not heed any signal
    cluster.go_on(3600.0)
    began_at = cluster.job(job).started_at
    outran = [event.at_s - began_at for event in cluster.log if event.data.get("outran")]
    assert outran[:9] == pytest.approx([10.0, 20.0, 25.0, 29.0, 30.0, 31.0, 33.0, 37.0, 45.0])
    assert len(outran) < 20
    assert left(cluster, job) < 3600.0


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_reported_progress_is_believed_up_to_the_time_limit(policy: str) -> None:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(100.0, estimate_s=10.0, time_limit_s=30.0))
    for step in range(1, 9):
        cluster.go_on(1.0)
        cluster.scheduler.reports.progressed(job, 1, step, 100.0)
        cluster.turn()
    assert left(cluster, job) == pytest.approx(22.0)


def test_not_every_finish_is_news_to_all() -> None:
    siblings, times = Siblings(), RuntimeEstimates()
    jobs = [
        Job(n, JobSpec(command=["x"], name="x"), "ann", 0.0, USUAL_S, "default")
        for n in range(2 * SIBLINGS_A_FINISHED)
    ]
    for job in jobs:
        siblings.note(job)
    times.finished("ann", "x", "x", 10.0)
    siblings.finished("ann", "x", times.learnt("ann", "x"))
    assert not siblings.are_outdated
    siblings.finished("ann", "x", times.learnt("ann", "x"))
    assert siblings.are_outdated
    ((said, told),) = siblings.take()
    assert (said.seconds, told) == (10.0, jobs)
    assert not siblings.are_outdated
    assert list(siblings.take()) == []


def test_one_that_is_over_is_not_told_any_more() -> None:
    siblings, times = Siblings(), RuntimeEstimates()
    times.finished("ann", "x", "x", 10.0)
    job = Job(1, JobSpec(command=["x"], name="x"), "ann", 0.0, USUAL_S, "default")
    siblings.note(job)
    siblings.finished("ann", "x", times.learnt("ann", "x"))
    job.status = Status.CANCELLED
    siblings.note(job)
    assert [jobs for _, jobs in siblings.take() if jobs] == []


def test_ranges() -> None:
    assert ranges([]) == []
    assert ranges([1, 2, 3, 5, 7, 8]) == [[1, 3], [5, 5], [7, 8]]


def test_the_estimates_of_those_that_wait_follow(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        asked = JobSpec(command=["x"], workdir="/", array="1-400", env={WORK: "0.05"})
        (taken,) = await backend.submit([asked], "ann")
        assert taken.quote is not None
        assert taken.quote.finish_at == pytest.approx(100 * USUAL_S, rel=0.01)
        async with asyncio.timeout(60):
            while True:
                page = await backend.jobs(JobFilter(status=[Status.QUEUED]))
                known = [job.estimate for job in page.items if job.estimate is not None]
                if known and max(one.finish_at or 0.0 for one in known) < 60.0:
                    break
                await asyncio.sleep(0.0)

    on_four_cores(tmp_path, ask)


def test_another_command_of_the_same_program_is_not_trusted_and_the_quote_says_so(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        short = JobSpec(command=["python", "-c", "print(1)"], workdir="/", env={WORK: "2"})
        for _ in range(2):
            await backend.submit([short], "ann")
            await over(backend)
        long = JobSpec(command=["python", "train.py"], workdir="/")
        quote, again = await backend.quote(long, "ann"), await backend.quote(short, "ann")
        assert (quote.run_s, quote.basis) == (USUAL_S, "default")
        assert quote.note is not None
        assert quote.note.startswith("2 other jobs called python")
        assert (again.run_s, again.basis, again.note) == (2.0, "alike", None)
        (taken,) = await backend.submit([long], "ann")
        assert taken.note == quote.note

    on_four_cores(tmp_path, ask)


def test_a_time_limit_bounds_what_is_promised(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        asked = JobSpec(command=["x"], workdir="/", time_limit_s=600.0)
        quote = await backend.quote(asked, "ann")
        assert (quote.run_s, quote.basis, quote.note) == (600.0, "limit", None)
        above = await backend.quote(asked.model_copy(update={"estimate_s": 7200.0}), "ann")
        assert (above.run_s, above.basis) == (600.0, "limit")
        assert above.finish_at == above.made_at + 600.0
        assert above.note is not None
        assert "above the time limit" in above.note

    on_four_cores(tmp_path, ask)
