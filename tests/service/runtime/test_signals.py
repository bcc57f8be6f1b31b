"""A signal to a job that runs: what becomes of the job is what its run does with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S

SAVES = "trap 'touch saved; exit 0' USR1; touch ready; while :; do sleep 0.05; done"


def test_a_job_that_saves_and_exits_0_has_finished_and_one_that_is_killed_has_failed(tmp_path: Path) -> None:
    async def story() -> None:
        config = ServiceConfig(state=tmp_path / "state", kernels=before_listening())
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            shell = ["bash", "-c", SAVES]
            await client.submit(command=shell, workdir=str(tmp_path))
            await client.submit(command=["sleep", "600"], workdir=str(tmp_path))
            await client.submit(command=["true"], hold=True)
            with pytest.raises(Conflict, match="job 3 is held; only a job that runs can get a signal"):
                await client.signal(3, "USR1")
            async with asyncio.timeout(PATIENCE_S):
                while not (tmp_path / "ready").exists() or (await client.job(2)).job.status != "running":
                    await asyncio.sleep(0.05)
            sent = await client.signal([1, 3], "SIGUSR1", to="command", where_possible=True)
            assert [job.job_id for job in sent] == [1]
            await client.signal(2, "9")
            saved, killed = [await client.wait(number, PATIENCE_S) for number in (1, 2)]
            assert (saved.status, killed.status) == ("finished", "failed")
            assert (tmp_path / "saved").exists()
            story = await client.job(1)
            (event,) = [each for each in story.events if each.kind == "signalled"]
            assert event.cause.startswith("user:")
            assert (event.data["signal"], event.data["to"]) == ("USR1", "command")
            with pytest.raises(Conflict, match="job 2 is failed"):
                await client.signal(2, "TERM")

    asyncio.run(story())
