"""Machines that join a cluster become nodes, and those that leave it are gone, with their runs requeued."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from betimes.service.machines.machine import Machine
from betimes.service.runtime.requests import change_members
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import until

SMALL, LARGE = (Machine(name, "virtual", "n", cpu, 8.0, 0.0) for name, cpu in (("a", 1.0), ("b", 4.0)))


def test_members_come_and_go(tmp_path: Path) -> None:
    async def main() -> None:
        options = ServiceConfig(state=tmp_path, machines=[SMALL], kernels=before_listening())
        async with running(options) as service:
            backend = service.backend

            async def change(joined: Sequence[Machine], left: Sequence[str]) -> None:
                request = partial(change_members, joined=joined, left=left)
                await service.controller.ask("members", request)

            for _ in range(2):  # told again, it changes nothing
                await change([LARGE], ["never-there"])
            assert [node.name for node in await backend.nodes()] == ["a", "b"]
            spec = JobSpec(command=["x"], cpu=4.0, env={"VIRTUAL_WORK_S": "1000"})
            [told] = await backend.submit([spec], "ada")
            ledger = service.controller.scheduler.ledger
            await until(lambda: ledger.jobs[told.job_id].run is not None)
            await change([], ["b"])
            found = {node.name: node.status for node in await backend.nodes()}
            assert found == {"a": "up", "b": "lost"}  # for a day
            story = await backend.job(told.job_id)
            assert (story.job.status, story.job.attempt) == ("queued", 1)
            assert [run.outcome for run in story.runs] == ["node-lost"]
            other = Machine("b-again", "virtual", "n", 4.0, 8.0, 0.0)
            await change([other], [])
            await until(lambda: ledger.jobs[told.job_id].run is not None)
            assert (await backend.job(told.job_id)).job.attempt == 2

    asyncio.run(main())
