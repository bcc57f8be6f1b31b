"""A stop is never lost: what a supervisor does not end, the service does, a while after the grace period."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors import local
from betimes.service.executors.protocol import Launch
from betimes.service.executors.supervision import files
from betimes.service.executors.supervisors import Forker, Watch
from betimes.service.scheduling.events import Trouble
from tests.service.executors.running import (
    RUN,
    Heard,
    a_launch,
    alive,
    executing,
    log_of,
    play,
    shim_of,
    until,
)

SLEEPS = (
    "bash",
    "-c",
    "trap : TERM; sleep 631 & echo $!; setsid sleep 632 & echo $!; while :; do wait; done",
)


def troubles(heard: Heard) -> str:
    return "; ".join(one.message for one in heard.reports if isinstance(one, Trouble))


async def printed(launch: Launch, lines: int) -> list[int]:
    """The numbers that the command has printed, one a line."""
    log = Path(launch.folder, "log")
    await until(lambda: log.exists() and log_of(launch).count("\n") == lines)
    return [int(line) for line in log_of(launch).split()]


def test_a_job_that_reads_all_of_its_folder_neither_hangs_nor_misses_a_stop(at: Path) -> None:
    reads = 'for file in "$BETIMES_RUN_DIR"/../*; do head -c 9 "$file" >/dev/null 2>&1; done; echo 1; exec sleep 600'

    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sh", "-c", reads)
            await executor.start(launch)
            await printed(launch, 1)
            assert not [one for one in Path(launch.folder).iterdir() if stat.S_ISFIFO(one.stat().st_mode)]
            assert stat.S_ISFIFO(Path(launch.control).stat().st_mode)
            await executor.stop(RUN, 60.0)
            assert (await heard.ended()).signal == signal.SIGTERM
            assert not Path(launch.control).exists()

    play(scenario())


def test_a_suspended_supervisor_is_let_go_on_to_stop_its_run(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sleep", "600")
            await executor.start(launch)
            await heard.started()
            await suspend(shim_of(launch)["pid"])
            await executor.stop(RUN, 60.0)
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("stopped", signal.SIGTERM)
            assert "its supervisor was suspended, and is let go on" in troubles(heard)

    play(scenario())


async def suspend(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: ") T " in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8"))


def test_a_run_whose_supervisor_stays_suspended_is_ended_after_its_grace_period_and_not_before(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Watch.send
    monkeypatch.setattr(
        Watch, "send", lambda watch, number: None if number == signal.SIGCONT else send(watch, number)
    )

    async def scenario() -> None:
        async with executing(force_after_s=0.5) as (executor, heard):
            launch, other = a_launch(at, *SLEEPS), a_launch(at, "sleep", "641", run=RUN._replace(job=2))
            for one in (launch, other):
                await executor.start(one)
                await heard.started(one.run)
            left = await printed(launch, 2)
            shim = shim_of(launch)
            await suspend(shim["pid"])
            began = time.monotonic()
            await executor.stop(RUN, 0.5)
            ended = await heard.ended()
            assert time.monotonic() - began >= 1.0
            assert (ended.why, ended.exit_code) == ("stopped", None)
            assert ended.message == "the service has killed it, as its supervisor did not stop it"
            assert not any(alive(pid) for pid in (*left, shim["pid"], shim["pgid"]))
            assert alive(shim_of(other)["pgid"])
            assert "had not stopped it 0.5 s after the grace period; the service kills" in troubles(heard)
            assert "does not record that it has ended, and is killed, too" in troubles(heard)
            await executor.stop(other.run, 60.0)
            await heard.ended(other.run)

    play(scenario())


def test_a_stop_that_somebody_has_swallowed_takes_effect_after_the_grace_period(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "write_request", lambda _control, _request: None)

    async def scenario() -> None:
        async with executing(force_after_s=0.5) as (executor, heard):
            launch = a_launch(at, *SLEEPS)
            await executor.start(launch)
            left = await printed(launch, 2)
            await executor.stop(RUN, 0.2)
            ended = await heard.ended()
            assert (ended.why, ended.signal) == ("stopped", signal.SIGKILL)
            assert not any(alive(pid) for pid in left)

    play(scenario())


def test_a_supervisor_that_hangs_before_the_command_has_begun_is_ended_too(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = Forker.spawn

    def suspended(forker: Forker, folder: str, record: dict[str, Any]) -> tuple[int, int]:
        lock = files.try_lock(folder)  # so that it has not begun yet
        assert lock is not None
        pid, bell = spawn(forker, folder, record)
        os.kill(pid, signal.SIGSTOP)
        os.close(lock)
        return pid, bell

    monkeypatch.setattr(Forker, "spawn", suspended)

    async def scenario() -> None:
        async with executing(force_after_s=0.3) as (executor, heard):
            await executor.start(a_launch(at, "touch", str(at / "begun")))
            await until((at / "runs/1/1/shim.err").exists)
            _, ended = await asyncio.gather(executor.stop(RUN, 0.2), heard.ended())
            assert ended.why == "stopped"
            assert not (at / "begun").exists()

    play(scenario())


def test_a_job_that_suspends_its_supervisor_does_not_outlive_its_time_limit(at: Path) -> None:
    """Not even in processes that left its session and forgot its environment."""
    hides = (
        "trap : TERM; setsid env -i /bin/sh -c 'trap : TERM; echo $$; while :; do sleep 1; done' & sleep 0.3"
    )
    stops = "while kill -STOP $PPID; do sleep 0.05; done"

    async def scenario() -> None:
        async with executing(force_after_s=0.5) as (executor, heard):
            launch = a_launch(at, "bash", "-c", f"{hides}; {stops}", time_limit_s=1.0, grace_s=0.2)
            await executor.start(launch)
            (hidden,) = await printed(launch, 1)
            ended = await heard.ended()
            assert ended.why == "time-limit"
            assert "reached its time limit of 1 s" in str(ended.message)
            assert not alive(hidden)
            assert not alive(shim_of(launch)["pgid"])

    play(scenario())


def test_a_time_limit_holds_for_an_adopted_run_whose_supervisor_is_suspended(at: Path) -> None:
    launch = a_launch(at, "sleep", "600", time_limit_s=1.0, grace_s=20.0)

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
            await suspend(shim_of(launch)["pid"])
        async with executing(force_after_s=0.3) as (executor, heard):
            await executor.adopt([launch])
            assert (await heard.ended()).why == "time-limit"
            assert "its supervisor was suspended, and is let go on" in troubles(heard)

    play(scenario())


def test_an_adopted_run_whose_supervisor_cannot_be_known_is_ended_too(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shim.json is damaged, and its supervisor suspended: the command is found by its environment."""
    monkeypatch.setattr(local, "_PATIENCE_S", 0.1)
    launch = a_launch(at, "sleep", "600")

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
        shim, file = shim_of(launch), Path(launch.folder, files.SHIM)
        whole = file.read_bytes()
        file.write_text("{", encoding="utf-8")
        await suspend(shim["pid"])
        async with executing(force_after_s=0.2) as (executor, heard):
            await executor.adopt([launch])
            await executor.stop(RUN, 0.1)
            await until(lambda: not alive(shim["pgid"]))
            os.kill(shim["pid"], signal.SIGCONT)
            assert (await heard.ended()).why == "stopped"
        file.write_bytes(whole)  # for the clearing up

    play(scenario())


def test_what_has_ended_by_itself_before_it_is_asked_to_stop_has_not_been_stopped(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_launch(at, "sh", "-c", f"while [ ! -e {at}/go ]; do sleep 0.01; done; exit 7")
            await executor.start(launch)
            await heard.started()
            shim = shim_of(launch)
            await suspend(shim["pid"])
            (at / "go").touch()
            await until(lambda: not alive(shim["pgid"]))
            await executor.stop(RUN, 60.0)
            ended = await heard.ended()
            assert (ended.why, ended.exit_code, ended.message) == ("exited", 7, None)

    play(scenario())
