"""Maintenance is announced: jobs that would run into it wait, and know why and until when. One node of four cores."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.cluster import Cluster
from betimes.errors import Refused, Unknown
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.job_spec import JobSpec
from betimes.testing import InMemoryService

POLICIES = ["fifo", "nodes:fifo", "easy", "conservative"]


@pytest.mark.parametrize("policy", POLICIES)
def test_who_would_run_into_it_starts_after_it_as_promised(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        window = service.add_maintenance(100.0, 200.0, reason="new disks")
        fits = service.submit(command=["x"], estimate_s=90.0)
        late = service.submit(command=["x"], estimate_s=110.0)
        assert fits.quote is not None
        assert (fits.quote.start_at, fits.quote.finish_at) == (0.0, 90.0)
        assert late.quote is not None
        assert (late.quote.start_at, late.quote.finish_at) == (200.0, 310.0)
        assert service.quote(command=["x"], estimate_s=101.0).start_at == 200.0
        reason = service.job(late.job_id).job.reason
        assert reason is not None
        assert reason.code == "maintenance"
        assert reason.text == (
            "would run into the maintenance (new disks) from 1970-01-01T00:01:40Z to 1970-01-01T00:03:20Z; "
            "expected 1970-01-01T00:03:20Z, when the maintenance ends"
        )
        assert (reason.evidence["maintenance"], reason.evidence["nodes"]) == (window.number, ["pool"])
        service.advance(120.0)
        reason = service.job(late.job_id).job.reason
        assert reason is not None
        assert reason.text.startswith(
            "waits for the end of the maintenance (new disks) at 1970-01-01T00:03:20Z; expected"
        )
        service.finish()
        assert service.job(fits.job_id).job.finished_at == 90.0
        story = service.job(late.job_id)
        assert (story.job.started_at, story.job.finished_at, story.quote_error_s) == (200.0, 310.0, 0.0)
        assert service.maintenance() == []
        assert [event.kind for event in service.events(kinds=["maintenance-set", "maintenance-over"])] == [
            "maintenance-set",
            "maintenance-over",
        ]


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_time_limit_is_what_counts_where_there_is_one(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        service.add_maintenance(100.0, 200.0)
        may_last = service.submit(command=["x"], estimate_s=50.0, time_limit_s=95.0, grace_s=10.0).job_id
        is_over = service.submit(command=["x"], estimate_s=50.0, time_limit_s=90.0, grace_s=10.0).job_id
        assert service.job(may_last).job.status == "queued"
        if policy == "fifo":
            assert service.job(is_over).job.status == "running"
        service.edit(may_last, time_limit_s=80.0)
        assert [service.job(job).job.status for job in (may_last, is_over)] == ["running", "running"]


@pytest.mark.parametrize("policy", POLICIES)
def test_runs_that_may_be_hit_are_named_and_go_on(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        long = service.submit(command=["x"], estimate_s=150.0).job_id
        service.submit(command=["x"], estimate_s=150.0, time_limit_s=180.0, grace_s=5.0)
        service.submit(command=["x"], estimate_s=50.0)
        waits = service.submit(command=["x"], estimate_s=60.0, min_units=2, max_units=2).job_id
        window = service.add_maintenance(100.0, 200.0)
        assert window.running == [long, 2]
        (event,) = service.events(kinds=["maintenance-set"])
        assert event.data["running"] == [long, 2]
        service.advance(110.0)
        assert service.maintenance()[0].running == [long, 2]
        shown = service.nodes()[0].maintenance
        assert shown is not None
        assert (shown.from_at, shown.to_at) == (100.0, 200.0)
        service.finish()
        assert service.job(long).job.finished_at == 150.0
        assert service.job(waits).job.started_at == 200.0


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_called_off_holds_nobody_up(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        first, second = (service.add_maintenance(at, at + 100.0).number for at in (100.0, 300.0))
        job = service.submit(command=["x"], estimate_s=130.0).job_id
        assert service.job(job).job.estimate.start_at == 400.0  # type: ignore[union-attr]
        service.remove_maintenance(second)
        assert service.job(job).job.estimate.start_at == 200.0  # type: ignore[union-attr]
        service.advance(150.0)
        service.remove_maintenance(first)
        assert service.job(job).job.status == "running"
        assert service.maintenance() == []


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_other_nodes_go_on(policy: str) -> None:
    with InMemoryService(Cluster.uniform(2, cpu=2, memory_gib=4), policy=policy) as service:
        service.add_maintenance(100.0, 200.0, nodes=["node-1"])
        jobs = [service.submit(command=["x"], estimate_s=150.0).job_id for _ in range(3)]
        assert [service.job(job).job.status for job in jobs] == ["running", "running", "queued"]
        reason = service.job(jobs[2]).job.reason
        assert reason is not None
        assert (reason.code, reason.evidence["nodes"]) == ("maintenance", ["node-1"])
        service.finish()
        assert [service.job(job).job.started_at for job in jobs] == [0.0, 0.0, 150.0]


def test_a_change_of_the_policy_or_of_the_nodes_forgets_nothing() -> None:
    with InMemoryService(policy="fifo") as service:
        service.add_maintenance(100.0, 200.0)
        job = service.submit(command=["x"], estimate_s=110.0).job_id
        service.set_policy("easy")
        assert service.job(job).job.status == "queued"
        service.drain("pool")
        service.undrain("pool")
        assert service.job(job).job.status == "queued"
        service.finish()
        assert service.job(job).job.started_at == 200.0


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    with InMemoryService(policy="fifo") as service:
        service.advance(80.0)
        with pytest.raises(Refused, match=r"from_at: .* is past"):
            service.add_maintenance(10.0, 200.0)
        for to_at in (100.0, 60.0):
            with pytest.raises(Refused, match="to_at: it ends at"):
                service.add_maintenance(100.0, to_at)
        with pytest.raises(Unknown, match="there is no node 'other'; `betimes nodes` lists them"):
            service.add_maintenance(100.0, 200.0, nodes=["pool", "other"])
        with pytest.raises(Unknown, match="there is no maintenance 3"):
            service.remove_maintenance(3)
        assert service.maintenance() == []
        assert [*service.events(kinds=["maintenance-set"])] == []
        assert service.add_maintenance(service.now_s - 30.0, 200.0).from_at >= 80.0 - 60.0  # as good as now


def test_it_is_read_back_from_a_snapshot() -> None:
    with InMemoryService(policy="fifo") as service:
        service.add_maintenance(100.0, 200.0, nodes=["pool"], reason="new disks")
        ledger = service._parts.controller.scheduler.ledger
        assert Ledger.from_bytes(ledger.to_bytes()).maintenance == ledger.maintenance


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_what_it_would_change_can_be_asked_beforehand(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        four: dict[str, Any] = {"min_units": 4, "max_units": 4}
        service.submit(command=["x"], estimate_s=80.0, **four)
        behind = service.submit(command=["x"], estimate_s=40.0, **four).job_id
        found = service.what_if(maintenance=[{"from_at": 100.0, "to_at": 200.0}])
        assert {one.job_id: (one.finish_before_at, one.finish_at) for one in found.jobs} == {
            1: (80.0, 80.0),
            behind: (120.0, 240.0),
        }
        assert service.maintenance() == []


def test_a_set_that_runs_starts_no_trial_that_would_not_be_over() -> None:
    with InMemoryService(policy="fifo") as service:
        service.add_maintenance(100.0, 200.0)
        whole = service.submit(command=["x"], estimate_s=60.0, array="1-6", as_one=True)
        service.finish()
        began = [service.job(number).job.started_at for number in range(whole.job_id + 1, whole.job_id + 7)]
        assert began == [0.0, 0.0, 0.0, 0.0, 200.0, 200.0]


def test_a_set_is_quoted_as_it_is_promised_though_each_trial_would_be_over() -> None:
    with InMemoryService(policy="fifo") as service:
        service.add_maintenance(100.0, 200.0)
        asked: dict[str, Any] = {"estimate_s": 60.0, "time_limit_s": 80.0, "grace_s": 0.0}
        spec = JobSpec(command=["x"], array="1-12", as_one=True, **asked)
        quote, promise = service.quote(spec), service.submit(spec).quote
        assert promise is not None
        assert (quote.start_at, promise.start_at) == (200.0, 200.0)
        assert (quote.finish_at, promise.finish_at) == (380.0, pytest.approx(380.0))


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_a_node_can_be_emptied_in_time(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        job = service.submit(command=["x"], estimate_s=150.0, grace_s=20.0).job_id
        assert service.add_maintenance(100.0, 200.0, reason="disks", stop=True).running == [job]
        service.advance(90.0)
        story = service.job(job)
        assert story.job.reason is not None
        assert (story.job.reason.code, story.job.reason.text) == (
            "maintenance",
            "node pool is emptied for the maintenance (disks) at 1970-01-01T00:01:40Z; it is requeued",
        )
        service.advance(15.0)
        assert service.job(job).job.status == "queued"
        assert service.maintenance()[0].running == []
        service.finish()
        runs = service.job(job).runs
        assert runs[0].ended_at is not None
        assert runs[0].ended_at <= 100.0
        assert (runs[1].started_at, service.job(job).job.status) == (200.0, "finished")


@pytest.mark.parametrize("policy", ["fifo", "srsf"])
def test_short_jobs_go_ahead_on_a_pool(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        service.add_maintenance(100.0, 200.0)
        long = [service.submit(command=["x"], estimate_s=150.0).job_id for _ in range(6)]
        service.advance(1.0)
        short = [service.submit(command=["x"], time_limit_s=30.0, grace_s=5.0).job_id for _ in range(3)]
        assert [service.job(job).job.status for job in short] == ["running"] * 3
        service.advance(5.0)
        late = service.submit(command=["x"], estimate_s=20.0).job_id
        assert [service.job(job).job.status for job in (*short, late)] == ["running"] * 4
        service.finish()
        assert [service.job(job).job.preemptions for job in (*short, late)] == [0] * 4
        assert [service.job(job).job.started_at for job in long] == [200.0] * 4 + [350.0] * 2
