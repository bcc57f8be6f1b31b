"""Every job has a promise, or a reason why not: also where the service ends between a submission and its promise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import StoreFull
from betimes.service.machines.machine import Machine
from betimes.service.runtime.promises import Promises
from betimes.service.startup.bootstrap import Service, running
from betimes.service.startup.config import ServiceConfig
from betimes.testing import InMemoryService
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S

MACHINE = Machine("n-0", "virtual", "n", 4.0, 8.0, 0.0)


def options(folder: Path) -> ServiceConfig:
    return ServiceConfig(state=folder / "state", machines=[MACHINE], kernels=before_listening())


async def promised(service: Service, job: int) -> None:
    """Wait until a job has a promise."""
    async with asyncio.timeout(PATIENCE_S), AsyncClient(service.url, token=service.token) as client:
        while not (await client.job(job)).quotes:
            await asyncio.sleep(0.02)


def test_after_a_restart_jobs_that_were_not_promised_anything_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first() -> int:
        async with running(options(tmp_path)) as service:
            service.controller.promise = None  # the service ends before it gets so far
            monkeypatch.setattr(Promises, "make", lambda *_: asyncio.Event().wait())
            async with AsyncClient(service.url, token=service.token) as client:
                asking = asyncio.ensure_future(client.submit(command=["x"], estimate_s=3600))
                async with asyncio.timeout(PATIENCE_S):
                    while not (found := (await client.jobs()).items):
                        await asyncio.sleep(0.02)
                story = await client.job(found[0].job_id)
                asking.cancel()
            assert not story.quotes
            assert story.no_quote is not None
            return story.job.job_id

    async def second(job: int) -> None:
        async with running(options(tmp_path)) as service:
            await promised(service, job)

    job = asyncio.run(first())
    monkeypatch.undo()
    asyncio.run(second(job))


def test_a_promise_that_could_not_be_stored_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path)) as service,
            AsyncClient(service.url, token=service.token) as client,
        ):
            service.controller.promise = None

            async def fails(*_: object) -> None:
                raise StoreFull("the disk is full")

            with monkeypatch.context() as patched:
                patched.setattr(service.backend.promises, "make", fails)
                job = (await client.submit(command=["x"], estimate_s=3600)).job_id
                assert not (await client.job(job)).quotes
            await client.submit(command=["x"], estimate_s=3600)
            await promised(service, job)

    asyncio.run(main())


def test_a_job_that_is_over_says_why_it_had_no_promise() -> None:
    with InMemoryService(policy="fifo") as service:
        held = service.submit(command=["x"], hold=True).job_id
        story = service.job(held)
        assert story.no_quote is not None
        assert story.no_quote == story.job.reason
        service.cancel(held)
        story = service.job(held)
        assert story.no_quote is not None
        assert story.no_quote.text == "it ended before it could start"
        assert service.job(service.submit(command=["x"]).job_id).no_quote is None
