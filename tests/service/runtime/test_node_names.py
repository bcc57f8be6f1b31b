"""A job learns on which machines it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from betimes.client import AsyncClient
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S


def test_a_job_learns_the_names_of_its_nodes(tmp_path: Path) -> None:
    async def story() -> None:
        config = ServiceConfig(state=tmp_path / "state", kernels=before_listening())
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            command = ["sh", "-c", "printf %s $BETIMES_NODE_NAMES >seen"]
            taken = await client.submit(command=command, workdir=str(tmp_path))
            assert (await client.wait(taken.job_id, PATIENCE_S)).status == "finished"
            names = [node.name for node in await client.nodes()]
            assert (tmp_path / "seen").read_text() == ",".join(names)

    asyncio.run(story())
