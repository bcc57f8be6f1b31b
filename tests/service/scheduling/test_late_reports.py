"""What a supervisor has written down of a run counts, however late the service hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.service.scheduling.events import Ended, RunId, Started
from betimes.service.scheduling.fold import recovered
from tests.service.reliability.cluster import EPOCH_AT, Cluster, spec

POLICIES = ["easy", "fifo"]  # on nodes, and in a pool
KEY = spec().history_key  # of the next like them


def late(cluster: Cluster, number: int, **said: Any) -> None:
    """39 s after it has begun a run is reported to have ended after 5."""
    run = RunId(number, cluster.job(number).run.number)
    cluster.world.forget(run, cluster.now_at)
    given: dict[str, Any] = {"exit_code": 0, "ago_s": 34.0, "run_s": 5.0, **said}
    cluster.scheduler.reports.ended(Ended(run, cluster.now_at, **given))
    cluster.turn()


def a_running_job(policy: str, **asked: Any) -> tuple[Cluster, int, float]:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(1000.0, estimate_s=10.0, min_units=1, max_units=2, **asked))
    began_at = cluster.now_at
    cluster.go_on(39.0)
    return cluster, job, began_at


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_ended_while_the_service_was_down_ended_then_and_took_what_it_took(policy: str) -> None:
    cluster, job, began_at = a_running_job(policy)
    late(cluster, job)

    assert cluster.rows[job]["finished_at"] == began_at + 5.0
    assert cluster.runs[RunId(job, 1)]["ended_at"] == began_at + 5.0
    ledger = recovered(None, cluster.log)
    for known in (cluster.ledger, ledger):
        assert known.runtime_estimates.learnt("ann", KEY).seconds == pytest.approx(5.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_that_ended_while_the_service_was_down_has_not_outrun_its_estimate_after_it(
    policy: str,
) -> None:
    cluster = Cluster(policy)
    ended, goes_on = cluster.submit(*2 * [spec(1000.0, estimate_s=10.0)])
    cluster.now_at += 39.0
    cluster.scheduler = cluster._scheduler(recovered(None, cluster.log))
    cluster.scheduler.begin(cluster.now_at)
    cluster.scheduler.recover()
    cluster.now_at += 1.0
    cluster.scheduler.begin(cluster.now_at)
    run = RunId(ended, 1)
    cluster.world.forget(run, cluster.now_at)
    cluster.scheduler.reports.ended(Ended(run, cluster.now_at, exit_code=0, ago_s=35.0, run_s=5.0))
    cluster.scheduler.reports.started(Started(RunId(goes_on, 1), cluster.now_at, adopted=True))
    cluster.turn()

    outran = [event.job for event in cluster.log if event.kind == "estimate-changed"]
    assert (cluster.status(ended), set(outran)) == ("finished", {goes_on})
    assert cluster.ledger.runtime_estimates.learnt("ann", KEY).seconds == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"exit_code": 1}, "failed"),
        ({"exit_code": None, "why": "time-limit"}, "failed"),
        ({"exit_code": None, "why": "out-of-memory"}, "failed"),
        ({"exit_code": None, "why": "lost"}, "failed"),
        ({"exit_code": None, "why": "stopped"}, "cancelled"),
    ],
)
def test_that_holds_for_every_way_of_ending(said: dict[str, object], status: str) -> None:
    cluster, job, began_at = a_running_job("fifo")
    if status == "cancelled":
        cluster.scheduler.jobs.cancel(job, "bob")
    late(cluster, job, **said)

    assert (cluster.rows[job]["status"], cluster.rows[job]["finished_at"]) == (status, began_at + 5.0)


def test_a_job_that_goes_on_later_ends_later() -> None:
    cluster, job, began_at = a_running_job("fifo", retries=1)
    late(cluster, job, exit_code=1)
    assert cluster.runs[RunId(job, 1)]["ended_at"] == began_at + 5.0
    cluster.go_on(2.0)
    cluster.scheduler.jobs.cancel(job, "bob")
    cluster.turn()
    cluster.go_on()

    assert cluster.rows[job]["finished_at"] >= began_at + 39.0


def test_a_run_that_began_and_ended_before_the_service_knew_has_a_beginning() -> None:
    cluster, job, began_at = a_running_job("fifo")
    cluster.job(job).run.started_at = cluster.job(job).started_at = None
    late(cluster, job)

    row = cluster.rows[job]
    assert (row["started_at"], row["finished_at"]) == (began_at, began_at + 5.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_time_for_which_a_machine_slept_is_no_run_time(policy: str) -> None:
    cluster, job, began_at = a_running_job(policy)
    late(cluster, job, ago_s=0.0)

    assert cluster.rows[job]["finished_at"] == began_at + 39.0
    assert cluster.rows[job]["ran_s"] == 5.0
    assert cluster.runs[RunId(job, 1)]["stood_s"] == 34.0
    assert cluster.ledger.runtime_estimates.learnt("ann", KEY).seconds == pytest.approx(5.0)


def test_a_clock_that_disagrees_moves_no_end_before_its_beginning() -> None:
    cluster, job, began_at = a_running_job("fifo")
    late(cluster, job, ago_s=1e6)

    assert began_at > EPOCH_AT
    assert cluster.rows[job]["finished_at"] == began_at + 5.0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_has_as_much_left_after_its_machine_has_slept_as_before(policy: str) -> None:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(20_000.0, estimate_s=60.0))
    cluster.go_on(30.0)
    cluster.scheduler.sleep(7200.0)
    cluster.arrive(cluster.now_at + 7200.0)
    cluster.turn()

    known = cluster.scheduler.engine.believed_left(job, cluster.scheduler.now_s)
    assert known == pytest.approx(30.0)
    assert cluster.job(job).run.ran_s(cluster.now_at) == pytest.approx(30.0)
    assert recovered(None, cluster.log).jobs[job].has_run_s(cluster.now_at) == pytest.approx(30.0)
    assert cluster.job(job).basis == "estimate"
    run = RunId(job, 1)
    cluster.world.forget(run, cluster.now_at)
    cluster.go_on(30.0)
    cluster.scheduler.reports.ended(Ended(run, cluster.now_at, 0, run_s=60.0))
    cluster.turn()
    assert cluster.ledger.runtime_estimates.learnt("ann", KEY).seconds == pytest.approx(60.0)
    assert cluster.rows[job]["ran_s"] == pytest.approx(60.0)
    assert cluster.runs[run]["stood_s"] == pytest.approx(7200.0)
