"""Jobs that run stand still for a while, and keep their units: four cores, jobs in the order of arrival."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict
from betimes.service.scheduling.runs import SUSPENDED_S
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.testing import InMemoryService
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_suspended_job_ends_later_by_as_much_and_its_time_limit_waits(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        four = {"min_units": 4, "max_units": 4, "estimate_s": 100.0}
        job = service.submit(command=["x"], time_limit_s=120.0, **four).job_id
        behind = service.submit(command=["x"], **four).job_id
        service.advance(40.0)
        asked = service.suspend(job)
        assert (asked.status, asked.promised_finish_at) == ("running", None)
        shown = service.job(job).job.estimate
        assert shown is not None
        assert shown.finish_at is None
        assert asked.reason is not None
        assert (asked.reason.code, asked.reason.evidence["at"]) == ("suspended", 40.0)
        waits = service.job(behind).job
        assert waits.estimate is not None
        assert waits.estimate.finish_at == pytest.approx(40.0 + SUSPENDED_S + 60.0 + 100.0)
        service.advance(50.0)
        assert (asked.ran_s, service.job(job).job.ran_s, service.job(job).runs[0].ran_s) == (40.0, 40.0, 40.0)
        assert service.usage().total.unit_h == pytest.approx(4 * 40.0 / 3600.0)
        goes_on = service.resume(job)
        assert (goes_on.reason, goes_on.promised_finish_at) == (None, 150.0)
        service.advance(10.0)
        assert (service.job(job).job.ran_s, service.job(job).runs[0].ran_s) == (50.0, 50.0)
        assert service.usage().total.unit_h == pytest.approx(4 * 50.0 / 3600.0)
        service.finish()
        story = service.job(job)
        assert (story.job.ran_s, story.runs[0].ran_s) == (100.0, 100.0)
        assert service.usage().total.unit_h == pytest.approx(4 * 200.0 / 3600.0)
        assert (story.job.finished_at, story.quote_error_s) == (150.0, 0.0)
        assert [run.outcome for run in story.runs] == ["exited"]
        (finished,) = [event for event in story.events if event.kind == "finished"]
        assert finished.data["run_s"] == pytest.approx(100.0)
        assert service.job(behind).job.finished_at == 250.0


def test_the_time_limit_is_longer_by_what_the_job_stood_still() -> None:
    with InMemoryService(policy="fifo") as service:
        job = service.submit(command=["x"], work_s=200.0, estimate_s=50.0, time_limit_s=120.0).job_id
        service.advance(40.0)
        service.suspend(job)
        service.advance(200.0)
        service.resume(job)
        service.edit(job, time_limit_s=130.0)
        service.finish()
        story = service.job(job)
        assert (story.job.status, story.job.finished_at) == ("failed", 330.0)
        assert story.runs[-1].outcome == "time-limit"


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_suspended_job_is_requeued_and_cancelled_as_any_other(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        again, away = (
            service.submit(command=["x"], work_s=100.0, estimate_s=100.0, grace_s=0.0).job_id
            for _ in range(2)
        )
        service.advance(40.0)
        service.suspend([again, away])
        service.advance(10.0)
        service.requeue(again)
        service.cancel(away)
        service.finish()
        story = service.job(again)
        assert (story.job.status, story.job.finished_at) == ("finished", 110.0)
        assert (story.job.ran_s, [run.ran_s for run in story.runs]) == (60.0, [40.0, 60.0])
        assert story.job.reason is None
        assert story.quote_error_s == 0.0
        assert service.job(away).job.status == "cancelled"


def test_what_cannot_be_suspended_or_resumed_is_refused() -> None:
    with InMemoryService(policy="fifo") as service:
        job = service.submit(command=["x"], work_s=100.0, min_units=3, max_units=3, estimate_s=100.0).job_id
        resizable = service.submit(command=["x"], work_s=100.0, min_units=1, max_units=2).job_id
        waits = service.submit(command=["x"], min_units=4, max_units=4).job_id
        with pytest.raises(Conflict, match="may be given more or fewer units"):
            service.suspend(resizable)
        with pytest.raises(Conflict, match=f"is queued; only a job that runs .* `betimes hold {waits}`"):
            service.suspend(waits)
        with pytest.raises(Conflict, match="is not suspended"):
            service.resume(job)
        service.suspend(job)
        with pytest.raises(Conflict, match=f"suspended already; `betimes resume {job}`"):
            service.suspend(job)
        with pytest.raises(Conflict, match=f"`betimes resume {job}` first"):
            service.edit(job, estimate_s=5.0)


def test_a_job_stays_suspended_when_the_service_starts_again(tmp_path: Path) -> None:
    options = ServiceConfig(state=tmp_path / "state", kernels=before_listening())
    may_end = tmp_path / "may-end"
    waits = f"until [ -e '{may_end}' ]; do sleep 0.05; done"

    async def first() -> None:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            job = await client.submit(command=["sh", "-c", waits], estimate_s=600.0, time_limit_s=600.0)
            async with asyncio.timeout(PATIENCE_S):
                while (await client.job(job.job_id)).job.started_at is None:
                    await asyncio.sleep(0.02)
            assert (await client.suspend(job.job_id)).status == "running"

    async def again() -> None:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            may_end.touch()
            await asyncio.sleep(1.5)  # longer than it would take to end
            job = (await client.job(1)).job
            assert (job.status, job.reason and job.reason.code) == ("running", "suspended")
            assert job.promised_finish_at is None
            assert (await client.resume(1)).promised_finish_at is not None
            done = await client.wait(1, PATIENCE_S)
            assert (done.status, done.attempt, done.reason) == ("finished", 1, None)
            (finished,) = [event.data async for event in client.events() if event.kind == "finished"]
            assert finished["run_s"] < (done.finished_at or 0.0) - (done.started_at or 0.0) - 1.0

    asyncio.run(first())
    asyncio.run(again())
