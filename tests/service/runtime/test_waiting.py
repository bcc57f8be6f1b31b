"""A request that waits for a job hears of its end, at whatever moment that is stored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.promises import Forecast
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.testing import InMemoryService
from tests.service.compiling.by_hand import before_listening

MACHINE = Machine("n-0", "virtual", "n", 4.0, 8.0, 0.0)
HANGS_S = 15.0  # half of what the request would wait for another event


def test_a_job_that_ends_while_its_story_is_read_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        options = ServiceConfig(state=tmp_path, machines=[MACHINE], kernels=before_listening())
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            backend = service.backend
            [told] = await backend.submit([JobSpec(command=["x"], hold=True)], "ada")

            async def end_it() -> Forecast | None:
                monkeypatch.undo()
                await service.controller.ask(
                    "cancel", lambda scheduler: scheduler.jobs.cancel(told.job_id, "ada")
                )
                return None

            monkeypatch.setattr(backend, "_forecast", end_it)
            async with asyncio.timeout(HANGS_S):
                assert (await client.wait(told.job_id)).status == "cancelled"

    asyncio.run(main())


def test_a_job_that_depends_on_one_that_has_failed_is_told_so_at_once() -> None:
    with InMemoryService() as service:
        failed = service.submit(command=["x"], work_s=1.0, exit_code=1).job_id
        service.advance(2.0)
        told = service.submit(command=["y"], after=[f"{failed}"])
        assert told.reason is not None
        assert (told.reason.code, told.reason.text) == (
            "dependency-failed",
            f"depends on job {failed}, which has failed",
        )
        again = service.submit(command=["y"], after=[f"{failed}:any"])
        assert (again.reason, again.quote is None) == (None, False)
