"""Directories that were sent along with jobs go on to nodes that do not see the service's disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.protocol import Launch, Place
from betimes.service.executors.ray import link
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.executors.supervision.files import COPY
from betimes.service.scheduling.events import Ended, RunId, Trouble
from betimes.service.uploads.archive import MIB
from betimes.service.uploads.kept import UNUSED_S
from tests.service.executors.ray.agents import FakeAgents
from tests.service.executors.running import Heard, a_launch, play, until
from tests.service.executors.small_disk import small_disk
from tests.service.uploads.packing import file, made, sha256

A, B = (Place("a", 1),), (Place("b", 1),)


class Apart(FakeAgents):
    """Nodes each of which has a folder of its own for archives."""

    def __init__(self, at: Path, *nodes: str) -> None:
        super().__init__(*nodes)
        self.at = at
        self.begun = 0  # archives, of which a first piece was sent
        self.cut: int | None = None  # the offset at which the node's agent ends, once

    async def call(self, node: str, method: str, *args: Any) -> Any:
        """Call an agent with the paths of its own machine."""
        match method, args:
            case "take_piece", (_, _, offset, _):
                self.begun += offset == 0
                if offset == self.cut:
                    self.cut = None
                    self.restart(node)
        return await super().call(node, method, *(self._there(node, one) for one in args))

    def folder(self, node: str) -> Path:
        """Where a node keeps archives."""
        return self.at / node / "uploads"

    def _there(self, node: str, value: Any) -> Any:
        if isinstance(value, Launch) and value.archive is not None:
            return replace(value, archive=str(self.folder(node) / Path(value.archive).name))
        if isinstance(value, list):
            return [self._there(node, one) for one in value]
        if isinstance(value, str) and value.endswith(".zip"):
            return str(self.folder(node) / Path(value).name)
        return value


@contextlib.asynccontextmanager
async def executing(at: Path) -> AsyncIterator[tuple[RayExecutor, Apart, Heard]]:
    heard, agents = Heard(), Apart(at, "a", "b")
    executor = RayExecutor(heard, agents, lambda _: 1.0)
    try:
        yield executor, agents, heard
    finally:
        await executor.close()
        for agent in [*agents.agents.values(), *agents.ended]:
            await agent.close()
        for raylet in agents.raylets.values():
            raylet.kill()
            raylet.wait()


@pytest.fixture
def archive(at: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of 20 pieces."""
    monkeypatch.setattr(link, "PIECE_BYTES", MIB // 20)
    data = made(file("data", os.urandom(MIB - 2000)), file("run", b"#!/bin/sh\nwc -c < data\n", 0o755))
    path = at / "service" / f"{sha256(data)}.zip"
    path.parent.mkdir()
    path.write_bytes(data)
    return path


def said(launch: Launch) -> str:
    return Path(launch.folder, "log").read_text()


def test_each_node_is_sent_an_archive_once(at: Path, archive: Path) -> None:
    async def scenario() -> None:
        async with executing(at) as (executor, agents, heard):
            runs = [RunId(number, 1) for number in range(1, 6)]
            launches = [
                a_launch(at, "./run", run=run, archive=str(archive), places=(A, B)[run.job % 2])
                for run in runs
            ]
            for launch in launches:
                await executor.start(launch)
            for launch in launches:
                assert (await heard.ended(launch.run)).exit_code == 0
                assert said(launch) == f"{MIB - 2000}\n"
            assert agents.begun == 2
            for node in "ab":
                assert [path.name for path in agents.folder(node).iterdir()] == [archive.name]

    play(scenario())


def test_a_node_that_sees_the_services_disk_is_sent_nothing(at: Path, archive: Path) -> None:
    async def scenario() -> None:
        async with executing(at) as (executor, agents, heard):
            agents.folder("a").parent.mkdir()
            agents.folder("a").symlink_to(archive.parent)
            await executor.start(a_launch(at, "./run", archive=str(archive), places=A))
            assert (await heard.ended()).exit_code == 0
            assert agents.begun == 0

    play(scenario())


def test_it_is_sent_again_to_an_agent_that_has_ended_meanwhile(at: Path, archive: Path) -> None:
    async def scenario() -> None:
        async with executing(at) as (executor, agents, heard):
            agents.cut = 10 * (MIB // 20)
            launch = a_launch(at, "./run", archive=str(archive), places=A)
            await executor.start(launch)
            assert (await heard.ended()).exit_code == 0
            assert said(launch) == f"{MIB - 2000}\n"
            assert agents.begun == 2

    play(scenario())


def test_a_service_that_starts_again_sends_what_runs_have_not_got(at: Path, archive: Path) -> None:
    waits = a_launch(
        at, "sh", "-c", f"until [ -e {at}/gate ]; do sleep 0.02; done", run=RunId(1, 1), places=A
    )
    never = a_launch(at, "./run", run=RunId(2, 1), archive=str(archive), places=A)

    async def scenario() -> None:
        async with executing(at) as (executor, agents, heard):
            await executor.start(waits)
            await heard.started(waits.run)
            await executor.close()
            later = Heard()
            second = RayExecutor(later, agents, lambda _: 1.0)
            await second.adopt([waits, never])
            assert (await later.ended(never.run)).exit_code == 0
            assert (await later.started(waits.run)).adopted
            (at / "gate").touch()
            assert (await later.ended(waits.run)).exit_code == 0
            await second.close()
            assert said(never) == f"{MIB - 2000}\n"

    play(scenario())


def test_where_a_node_has_no_room_for_it_the_run_starts_once_there_is(at: Path, archive: Path) -> None:
    async def scenario() -> None:
        async with executing(at) as (executor, _, heard):
            disk.fill()
            launch = a_launch(at, "./run", archive=str(archive), places=A)
            other = a_launch(at, "true", run=RunId(2, 1), places=A)
            await executor.start(launch)
            await until(lambda: any(isinstance(one, Trouble) for one in heard.reports))
            await executor.start(other)
            await heard.ended(other.run)
            disk.make_room()
            assert (await heard.ended()).exit_code == 0
            [trouble] = [one for one in heard.reports if isinstance(one, Trouble)]
            assert trouble.message == "it cannot be started yet: no room for its upload on node a"

    with small_disk(at / "a", "2m") as disk:
        play(scenario())


def test_a_run_that_waits_for_room_can_be_stopped(at: Path, archive: Path) -> None:
    async def scenario() -> Ended:
        async with executing(at) as (executor, _, heard):
            disk.fill()
            launch = a_launch(at, "./run", archive=str(archive), places=A)
            await executor.start(launch)
            await until(lambda: any(isinstance(one, Trouble) for one in heard.reports))
            await executor.stop(launch.run, 0.0)
            return await heard.ended()

    with small_disk(at / "a", "2m") as disk:
        assert play(scenario()).why == "start-failed"


def test_an_archive_that_the_service_has_lost_is_missed_by_the_run(at: Path, archive: Path) -> None:
    archive.unlink()

    async def scenario() -> Ended:
        async with executing(at) as (executor, _, heard):
            await executor.start(a_launch(at, "./run", archive=str(archive), places=A))
            return await heard.ended()

    ended = play(scenario())
    assert ended.why == "start-failed"
    assert "its uploaded directory is missing" in (ended.message or "")


def test_a_node_forgets_archives_that_no_run_has_needed_for_long(at: Path, archive: Path) -> None:
    async def scenario() -> None:
        async with executing(at) as (executor, agents, heard):
            agents.folder("a").mkdir(parents=True)
            old = agents.folder("a") / f"{'0' * 64}.zip"
            old.touch()
            long_ago = old.stat().st_mtime - UNUSED_S - 60.0
            os.utime(old, (long_ago, long_ago))
            await executor.start(a_launch(at, "./run", archive=str(archive), places=A))
            await heard.ended()
            assert [path.name for path in agents.folder("a").iterdir()] == [archive.name]

    play(scenario())


def test_every_rank_has_its_own_copy(at: Path, archive: Path) -> None:
    async def scenario() -> Launch:
        async with executing(at) as (executor, _, heard):
            launch = a_launch(at, "./run", archive=str(archive), units=2, places=(*A, *B))
            await executor.start(launch)
            assert (await heard.ended()).exit_code == 0
            return launch

    launch = play(scenario())
    for rank in (0, 1):
        assert (Path(launch.folder) / f"rank-{rank}" / COPY / "data").stat().st_size == MIB - 2000
