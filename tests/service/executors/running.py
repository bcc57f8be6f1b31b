"""Real runs for tests: launches, what an executor reported, and the clearing up afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.protocol import Launch, Place
from betimes.service.executors.run_folder import Damaged, read
from betimes.service.executors.supervision import processes
from betimes.service.executors.supervisors import reap
from betimes.service.scheduling.events import Ended, Report, RunId, Started

PATIENCE_S = 120.0
T = TypeVar("T")
R = TypeVar("R", Started, Ended)
RUN = RunId(1, 1)


def a_launch(at: Path, *command: str, run: RunId = RUN, **changes: Any) -> Launch:
    """A launch of this command with a minimal environment, its folders below `at`."""
    identity = changes.get("identity", f"submission of {run.job}, run {run.number}")
    given: dict[str, Any] = {
        "run": run,
        "command": command,
        "workdir": str(at),
        "env": {"PATH": os.environ["PATH"]},
        "units": 1,
        "places": (Place("here", 1),),
        "cpu": 0.5,
        "memory_gib": 0.0,
        "gpu": 0.0,
        "grace_s": 20.0,
        "folder": str(at / "runs" / str(run.job) / str(run.number)),
        "checkpoint_dir": str(at / "checkpoints" / str(run.job)),
        "control": str(at / "control" / f"{run.job}-{run.number}-{identity}"),
        "identity": identity,
    }
    return Launch(**{**given, **changes})


def python(program: str, *arguments: str) -> tuple[str, ...]:
    """A command: a Python program."""
    return (sys.executable, "-c", program, *arguments)


class Heard:
    """A listener that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def __call__(self, report: Report) -> None:
        self.reports.append(report)

    async def started(self, run: RunId = RUN) -> Started:
        """The run's `Started`."""
        return await self._first(run, Started)

    async def ended(self, run: RunId = RUN) -> Ended:
        """The run's `Ended`."""
        return await self._first(run, Ended)

    async def _first(self, run: RunId, kind: type[R]) -> R:
        await until(lambda: any(isinstance(one, kind) and one.run == run for one in self.reports))
        return next(one for one in self.reports if isinstance(one, kind) and one.run == run)


@contextlib.asynccontextmanager
async def executing(**settings: Any) -> AsyncIterator[tuple[LocalExecutor, Heard]]:
    """An executor, closed afterwards, and what it reports."""
    heard = Heard()
    executor = LocalExecutor(heard, **{"group": None, **settings})
    try:
        yield executor, heard
    finally:
        await executor.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is bound to happen."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


def run_to_end(launch: Launch, **settings: Any) -> Ended:
    """Start one run and give how it ended."""

    async def scenario() -> Ended:
        async with executing(**settings) as (executor, heard):
            await executor.start(launch)
            return await heard.ended(launch.run)

    return play(scenario())


def play(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario in an event loop of its own."""
    return asyncio.run(scenario)


def log_of(launch: Launch) -> str:
    """What the run's newest log file holds."""
    return Path(launch.folder, "log").read_text(encoding="utf-8")


def shim_of(launch: Launch) -> dict[str, Any]:
    """The run's shim.json."""
    return json.loads(Path(launch.folder, "shim.json").read_text(encoding="utf-8"))


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    return processes.lives(pid, None)


def clear_up(at: Path) -> None:
    """Kill whatever a failed test has left running, and wait for the shims that were this process's."""
    for file in at.rglob("shim.json"):
        try:
            shim = read(str(file.parent), "shim.json")
        except Damaged:
            continue  # by a test of that
        if not shim:
            continue
        if processes.lives(shim["pid"], shim["start_ticks"]):
            for pid in [*processes.descendants(shim["pid"]), shim["pid"]]:
                processes.send(pid, signal.SIGKILL)
        reap(shim["pid"])
