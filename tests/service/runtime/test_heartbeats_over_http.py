"""Signs of life over HTTP: a node that falls silent loses its jobs within its lease, also across a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict, Unknown
from betimes.service.machines.machine import Machine
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import JobStory
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S

LEASE_S = 0.5


def options(state: Path) -> ServiceConfig:
    machines = [Machine(f"n-{number}", "virtual", "n", 1.0, 8.0, 0.0) for number in range(2)]
    return ServiceConfig(state=state, machines=machines, lease_s=LEASE_S, kernels=before_listening())


async def statuses(client: AsyncClient) -> dict[str, str]:
    return {node.name: node.status for node in await client.nodes()}


async def becomes(client: AsyncClient, name: str, status: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await statuses(client))[name] != status:
            await asyncio.sleep(0.02)


async def runs(client: AsyncClient, job: int, attempt: int) -> JobStory:
    """The story of a job once that attempt runs."""
    async with asyncio.timeout(PATIENCE_S):
        while (story := await client.job(job)).job.attempt != attempt or story.job.status != "running":
            await asyncio.sleep(0.02)
    return story


def test_jobs_of_a_node_that_falls_silent_go_on_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running(options(tmp_path)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            taken = await client.submit(command=["x"], env={"VIRTUAL_WORK_S": "1000"})
            first = (await runs(client, taken.job_id, 1)).runs[0].places[0].node
            lease = await client.heartbeat(first)
            assert (lease.node, lease.lease_s) == (first, LEASE_S)
            assert (await client.nodes())[0].last_seen_at == lease.until_at - LEASE_S
            await asyncio.sleep(LEASE_S / 2)
            later = await client.heartbeat(first)
            assert later.until_at > lease.until_at
            story = await runs(client, taken.job_id, 2)
            assert [run.outcome for run in story.runs] == ["node-lost", None]
            assert story.runs[1].places[0].node != first
            assert story.runs[0].ended_at is not None
            assert story.runs[0].ended_at >= later.until_at
            assert (await statuses(client))[first] == "lost"
            await client.heartbeat(first)
            assert (await statuses(client))[first] == "up"
            kinds = [event.kind async for event in client.events() if event.node == first]
            assert kinds == ["node-added", "node-watched", "node-status", "node-status"]

    asyncio.run(main())


def test_a_node_that_vanishes_while_the_service_is_away_is_missed(tmp_path: Path) -> None:
    async def first() -> None:
        async with (
            running(options(tmp_path)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            await client.heartbeat("n-0")

    async def again() -> None:
        async with (
            running(options(tmp_path)) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            await becomes(client, "n-0", "lost")
            assert (await statuses(client))["n-1"] == "up", "who never sent one is not missed"

    asyncio.run(first())
    asyncio.run(again())


def test_who_needs_none(tmp_path: Path) -> None:
    async def main() -> None:
        own = Machine("here", "local", "cpu", 1.0, 8.0, 0.0)
        async with (
            running(ServiceConfig(state=tmp_path, machines=[own])) as service,
            AsyncClient(service.url, service.token) as client,
        ):
            with pytest.raises(Conflict, match="node here is on the service's own machine"):
                await client.heartbeat("here")
            with pytest.raises(Unknown, match="no node 'there'"):
                await client.heartbeat("there")

    asyncio.run(main())
