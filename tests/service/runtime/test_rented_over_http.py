"""The whole service with a cloud file: rented over HTTP, known again after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import NodeSpec
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S

CLOUD = '[[types]]\ntype = "big"\ncpu = 4\nmemory_gib = 16\nusd_per_h = 2\ncapacity = 2\nboot_s = 0.2\n'


async def statuses(client: AsyncClient) -> dict[str, str]:
    return {node.name: node.status for node in await client.nodes()}


def test_rented_nodes_of_a_real_service(tmp_path: Path) -> None:
    file = tmp_path / "cloud.toml"
    file.write_text(CLOUD)
    own = Machine("own-0", "virtual", "own", 1.0, 8.0, 0.0)
    options = ServiceConfig(
        state=tmp_path / "state", machines=[own], cloud=str(file), kernels=before_listening()
    )

    async def first() -> None:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            wanted = NodeSpec(kind="fake-cloud", type="big", count=2)
            rented = await client.add_nodes(wanted)
            assert [(node.name, node.status, node.usd_per_h) for node in rented] == [
                ("big-0", "booting", 2.0),
                ("big-1", "booting", 2.0),
            ]
            with pytest.raises(Conflict, match="no capacity: 2 big asked for, 0 of 2 free"):
                await client.add_nodes(wanted)
            env = {"VIRTUAL_WORK_S": "0.2"}
            taken = await client.submit(command=["x"], cpu=4, memory_gib=16, estimate_s=3600, env=env)
            assert taken.quote is not None
            assert taken.quote.cost_usd == 2.0
            done = await client.wait(taken.job_id, PATIENCE_S)
            assert (done.status, done.attempt) == ("finished", 1)
            assert (await client.drain("big-0")).status == "gone"

    async def again() -> None:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            assert "big-0" not in await statuses(client)
            async with asyncio.timeout(PATIENCE_S):
                while (await statuses(client))["big-1"] != "up":
                    await asyncio.sleep(0.02)

    async def without_the_cloud() -> None:
        async with running(ServiceConfig(state=options.state, machines=[own])):
            pass

    asyncio.run(first())
    asyncio.run(again())
    with pytest.raises(Conflict, match="node big-1 is rented; say from what cloud"):
        asyncio.run(without_the_cloud())
