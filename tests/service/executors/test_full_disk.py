"""A full disk: how a run ended is recorded all the same, and what cannot start yet starts once there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.supervision import files
from betimes.service.executors.supervisors import Forker
from betimes.service.scheduling.events import Ended, Started, Trouble
from tests.service.executors.running import RUN, a_launch, alive, executing, play, shim_of, until
from tests.service.executors.small_disk import SmallDisk, small_disk


@pytest.fixture
def disk(at: Path) -> Iterator[SmallDisk]:
    with small_disk(at / "disk") as found:
        yield found


def gated(at: Path, code: int) -> tuple[str, ...]:
    """A command that prints and exits once there is a file `gate`, which is not on the small disk."""
    return ("sh", "-c", f"until [ -e {at}/gate ]; do sleep 0.02; done; head -c 100000 /dev/zero; exit {code}")


def test_an_exit_status_is_recorded_while_the_disk_is_full(at: Path, disk: SmallDisk) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(disk.folder, *gated(at, 4), workdir="/")
            await executor.start(launch)
            await heard.started()
            disk.fill()
            (at / "gate").touch()
            ended = await heard.ended()  # without anybody having made room
            assert (ended.why, ended.exit_code) == ("exited", 4)
            assert ended.message is not None
            assert ended.message.endswith("bytes of its output could not be kept: No space left on device")
        async with executing() as (executor, heard):
            await executor.adopt([launch])
            assert (await heard.ended()).exit_code == 4

    play(scenario())


def test_without_reserved_room_the_supervisor_waits_until_there_is_some(at: Path, disk: SmallDisk) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(disk.folder, *gated(at, 4), workdir="/")
            await executor.start(launch)
            await heard.started()
            Path(launch.folder, files.RESERVED).unlink()
            disk.fill()
            (at / "gate").touch()
            shim = shim_of(launch)
            await until(lambda: not alive(shim["pgid"]))
            # It has tried again, and has said so where there is no room either.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(heard.ended(), 2.5)
            assert alive(shim["pid"])
            disk.make_room()
            ended = await heard.ended()
            assert (ended.why, ended.exit_code) == ("exited", 4)

    play(scenario())


def test_a_run_starts_once_there_is_room(at: Path, disk: SmallDisk) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            disk.fill()
            await executor.start(a_launch(disk.folder, "true", workdir="/"))
            await until(lambda: len(heard.reports) == 1)
            (trouble,) = heard.reports
            assert isinstance(trouble, Trouble)
            assert "it cannot be started yet: " in trouble.message
            assert "No space left on device; it starts once there is room" in trouble.message
            disk.make_room()
            assert (await heard.ended()).exit_code == 0
            assert [type(one) for one in heard.reports] == [Trouble, Started, Ended]

    play(scenario())


@pytest.mark.parametrize("has_reserved", [False, True], ids=["nothing is reserved", "no shim.json"])
def test_a_supervisor_that_finds_no_room_has_not_begun(
    at: Path, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, has_reserved: bool
) -> None:
    """What the service writes has room, and what the supervisor writes next has not."""
    launch, spawn = a_launch(disk.folder, "touch", str(at / "begun"), workdir="/"), Forker.spawn

    def fill_and_spawn(*arguments: Any) -> tuple[int, int]:
        if has_reserved:
            files.reserve_exit(launch.folder)
        disk.fill()
        return spawn(*arguments)

    async def scenario() -> None:
        async with executing() as (executor, heard):
            monkeypatch.setattr(Forker, "spawn", fill_and_spawn)
            await executor.start(launch)
            await until(lambda: len(heard.reports) == 1)
            monkeypatch.undo()
            assert isinstance(heard.reports[0], Trouble)
            assert not (at / "begun").exists()
            assert not Path(launch.folder, files.SHIM).exists()
            disk.make_room()
            assert (await heard.ended()).exit_code == 0
            assert (at / "begun").exists()

    play(scenario())


def test_a_run_that_waits_for_room_can_be_stopped_and_does_not_hold_up_a_start(
    at: Path, disk: SmallDisk
) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            disk.fill()
            launch = a_launch(disk.folder, "touch", str(at / "begun"), workdir="/")
            await executor.adopt([launch])  # as after a restart of the service: returns at once
            await executor.stop(RUN, 1.0)
            ended = await heard.ended()
            assert (ended.why, ended.exit_code) == ("stopped", None)
            assert not (at / "begun").exists()

    play(scenario())
