"""A run that registered a handler is told its new units; others are not disturbed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import betimes
from betimes.service.executors.protocol import Place
from betimes.service.scheduling.events import RunId
from tests.service.executors.running import RUN, a_launch, executing, log_of, play, python, until

LISTENS = """
import os, sys, time, betimes
@betimes.on_resize
def resized(units):
    names = ("BETIMES_UNITS", "BETIMES_CPUS", "CUDA_VISIBLE_DEVICES")
    told = [units, *(os.environ.get(name) for name in names), sorted(os.sched_getaffinity(0))]
    os.write(1, (repr(told) + "\\n").encode())
os.write(1, b"ready\\n")
while True: time.sleep(0.05)
"""
HERE = (Place("here", 1),)


def a_listener(at: Path, program: str = LISTENS, **changes: object):
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "BETIMES_UNITS": "1"}
    return a_launch(at, *python(program), **{"env": env, **changes})


def test_a_handler_is_told_units_cores_and_gpus(at: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("pinning to more cores takes two")

    async def scenario() -> None:
        async with executing(gpus=["x", "y", "z"]) as (executor, heard):
            launch = a_listener(at, cpu=1.0, gpu=1.0)
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and "ready" in log_of(launch))
            for lines, units in enumerate((2, 1), start=2):
                assert await executor.resize(RUN, units, HERE)
                await until(lambda lines=lines: log_of(launch).count("\n") == lines)
            assert log_of(launch).splitlines() == [
                "ready",
                repr([2, "2", f"{cores[0]},{cores[1]}", "x,y", cores[:2]]),
                repr([1, "1", f"{cores[0]}", "x", cores[:1]]),
            ]
            other = a_listener(at, cpu=1.0, gpu=1.0, run=RunId(2, 1))
            await executor.start(other)  # what was given up is free
            await heard.started(other.run)
            for run in (RUN, other.run):
                await executor.stop(run, 5.0)
                await heard.ended(run)

    play(scenario())


def test_units_on_another_machine_are_not_taken_from_this_one(at: Path) -> None:
    async def scenario() -> None:
        async with executing(gpus=["x", "y"]) as (executor, heard):
            launch = a_listener(at, gpu=1.0)
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and "ready" in log_of(launch))
            assert not await executor.resize(RUN, 2, (*HERE, Place("rented", 1)))
            other = a_launch(at, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", gpu=1.0, run=RunId(2, 1))
            await executor.start(other)
            await heard.ended(other.run)
            assert log_of(other) == "y\n", "it is still free"
            await executor.stop(RUN, 5.0)
            await heard.ended()

    play(scenario())


def test_units_survive_a_restart_of_the_service(at: Path) -> None:
    async def scenario() -> None:
        launch = a_listener(at, gpu=1.0)
        async with executing(gpus=["x", "y", "z"]) as (executor, heard):
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and "ready" in log_of(launch))
            assert await executor.resize(RUN, 2, HERE)
        async with executing(gpus=["x", "y", "z"]) as (executor, heard):
            await executor.adopt([launch])
            other = a_launch(at, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", gpu=1.0, run=RunId(2, 1))
            await executor.start(other)
            await heard.ended(other.run)
            assert log_of(other) == "z\n"
            await executor.stop(RUN, 5.0)
            await heard.ended()

    play(scenario())


def test_every_process_with_a_handler_is_told(at: Path) -> None:
    program = "import os\nfor rank in (1, 2):\n    if os.fork() == 0: break\n" + LISTENS

    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_listener(at, program)
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and log_of(launch).count("ready") == 3)
            assert await executor.resize(RUN, 4, HERE)
            await until(lambda: log_of(launch).count("[4, '4'") == 3)
            await executor.stop(RUN, 5.0)
            await heard.ended()

    play(scenario())


@pytest.mark.parametrize(
    "program",
    [
        "import os, time; os.write(1, b'ready\\n'); time.sleep(600)",
        # Registered, and then became another program: the signal would end it.
        LISTENS.partition("os.write(1, b")[0] + "os.execvp('sh', ['sh', '-c', 'echo ready; sleep 600'])",
        # What no handler writes, and a hostile job may.
        "import os, time; h = os.environ['BETIMES_RUN_DIR'] + '/handlers'; os.symlink(h, h); "
        "os.write(1, b'ready\\n'); time.sleep(600)",
        "import os, time; os.makedirs(os.environ['BETIMES_RUN_DIR'] + '/handlers/\u00b2'); "
        "os.write(1, b'ready\\n'); time.sleep(600)",
    ],
)
def test_a_run_without_a_handler_is_to_be_restarted_and_not_disturbed(at: Path, program: str) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            launch = a_listener(at, program)
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and "ready" in log_of(launch))
            assert not await executor.resize(RUN, 2, HERE)
            assert not Path(launch.folder, "units.json").exists()
            await executor.stop(RUN, 5.0)
            assert (await heard.ended()).signal == signal.SIGTERM

    play(scenario())


def test_a_run_that_has_ended_or_never_was_is_not_resized(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            assert not await executor.resize(RunId(99, 1), 2, HERE)
            await executor.start(a_launch(at, "true"))
            await heard.ended()
            assert not await executor.resize(RUN, 2, HERE)

    play(scenario())


def test_a_memory_limit_grows_along(at: Path) -> None:
    async def scenario() -> None:
        async with executing() as (executor, heard):
            program = LISTENS.replace(
                "    os.write(1, (repr(told)", "    x = bytearray(600 << 20)\n    os.write(1, (repr(told)"
            )
            launch = a_listener(at, program, memory_gib=0.5)
            await executor.start(launch)
            await until(lambda: Path(launch.folder, "log").exists() and "ready" in log_of(launch))
            assert await executor.resize(RUN, 2, HERE)
            await until(lambda: "[2, '2'" in log_of(launch))
            await asyncio.sleep(1.5)  # it is looked at meanwhile, and may have so much by now
            await executor.stop(RUN, 5.0)
            assert (await heard.ended()).why == "stopped"

    play(scenario())


def test_outside_betimes_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BETIMES_RUN_DIR", raising=False)
    before = signal.getsignal(signal.SIGUSR2)

    @betimes.on_resize
    def handler(units: int) -> None:
        raise AssertionError(units)

    assert callable(handler)
    assert signal.getsignal(signal.SIGUSR2) is before
