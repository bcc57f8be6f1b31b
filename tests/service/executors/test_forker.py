"""The process that forks supervisors: it is started when it is needed, and what it has started outlives it."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from betimes.service.executors import supervisors as module
from betimes.service.executors.devices import Assigned
from betimes.service.executors.protocol import Place
from betimes.service.executors.rented.agents import OwnNodesExecutor
from betimes.service.executors.run_folder import Keeping, write_launch
from betimes.service.executors.supervision import files, processes
from betimes.service.executors.supervisors import Forker
from betimes.service.scheduling.events import RunId
from tests.service.executors.running import RUN, Heard, a_launch, alive, executing, play, shim_of, until


def start(forker: Forker, at: Path, *command: str, number: int = 1) -> tuple[Path, bytes]:
    """Start a command; its folder, and what the bell says."""
    launch = a_launch(at, *command, run=RunId(1, number))
    _, bell = forker.spawn(launch.folder, write_launch(launch, Assigned(), False, Keeping(2**20, 2, None)))
    try:
        return Path(launch.folder), os.read(bell, 1)
    finally:
        os.close(bell)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_takes_its_place(at: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.3)
    forker = Forker()
    start(forker, at, "sleep", "60")
    first = forker.pid
    assert first is not None
    os.kill(first, number)
    folder, said = start(forker, at, "true", number=2)
    assert said == bytes([files.RUNS])
    assert forker.pid != first
    assert not alive(first)
    forker.close()
    play(until((folder / "exit.json").exists))


def test_runs_go_on_when_it_has_ended_and_no_process_is_left_of_it(at: Path) -> None:
    launch = a_launch(at, "sleep", "60")

    async def scenario() -> None:
        async with executing() as (executor, heard):
            await executor.start(launch)
            await heard.started()
            pid = executor._forker.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not alive(pid))
            assert alive(shim_of(launch)["pid"])
            await executor.stop(RUN, 0.1)
            assert (await heard.ended()).why == "stopped"

    play(scenario())


def test_machines_that_are_processes_here_share_one(at: Path) -> None:
    def forkers() -> set[int]:
        children = processes.children(os.getpid())
        return {pid for pid in children if b"shim.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}

    async def scenario() -> None:
        heard, before = Heard(), forkers()
        executor = OwnNodesExecutor(heard, lambda _: 0, lambda _: 1.0)
        runs = [RunId(number, 1) for number in (1, 2, 3)]
        for run in runs:
            executor.join(f"node-{run.job}")  # before anything runs there
            await executor.start(a_launch(at, "true", run=run, places=(Place(f"node-{run.job}", 1),)))
        for run in runs:
            assert (await heard.ended(run)).exit_code == 0
        await executor.leave("node-1")
        assert len(forkers() - before) == 1
        await executor.close()
        assert not forkers() - before

    play(scenario())


@pytest.mark.parametrize("sent", [0, 3, 40])
def test_it_ends_without_a_trace_when_its_service_is_killed_in_the_midst_of_a_request(sent: int) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", module._SHIM, str(module._FILES)],
            stdin=theirs.fileno(),
            stderr=subprocess.PIPE,
            text=True,
        )
    with ours, Path(os.devnull).open() as null:
        length = (100).to_bytes(module.NUMBER_BYTES, "little")
        socket.send_fds(ours, [length], [null.fileno(), null.fileno()])
        ours.sendall(bytes(sent))
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_it_ends_without_a_trace_when_its_service_is_killed_before_it_has_the_answer(at: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", module._SHIM, str(module._FILES)],
            stdin=theirs.fileno(),
            stderr=subprocess.PIPE,
            text=True,
        )
    request = marshal.dumps((str(at), {}))
    with ours, (at / "errors").open("w") as errors_of_supervisor:
        handed = [errors_of_supervisor.fileno(), errors_of_supervisor.fileno()]
        socket.send_fds(ours, [len(request).to_bytes(module.NUMBER_BYTES, "little")], handed)
        ours.sendall(request)
        ours.shutdown(socket.SHUT_RD)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
