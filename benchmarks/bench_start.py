"""A command runs some tens of milliseconds after it was handed to the local executor.

From `start()` to the command's first instruction, and to its report, against a plain subprocess of the same command;
and what a shim takes of the processor against a Python that does nothing. Run folders are on the disk, whose fsync
is part of it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import Table, arguments, introduce

from betimes.service.executors.devices import Assigned
from betimes.service.executors.launching import Keeping, spawn, write_launch
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.protocol import Launch, Place
from betimes.service.scheduling.run_reports import Ended, Report, RunId, Started

# `date` is the first instruction that can tell the time.
COMMAND = ("date", "+%s.%N")


def a_launch(at: Path, number: int) -> Launch:
    """A launch of COMMAND."""
    run = RunId(1, number)
    folder = str(at / "runs" / "1" / str(number))
    env = {"PATH": os.environ["PATH"]}
    return Launch(
        run,
        COMMAND,
        str(at),
        env,
        1,
        (Place("here", 1),),
        1.0,
        0.0,
        0.0,
        5.0,
        folder,
        str(at / "checkpoints"),
        control=str(at / "control"),
    )


async def through_the_executor(at: Path, times: int) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds from `start()` to the first instruction, to `Started`, and from the command's end to `Ended`."""
    first: list[float] = []
    told: list[float] = []
    ended: list[float] = []
    reports: asyncio.Queue[tuple[float, Report]] = asyncio.Queue()
    executor = LocalExecutor(lambda report: reports.put_nowait((time.time(), report)))
    for number in range(times):
        launch = a_launch(at, number)
        began = time.time()
        await executor.start(launch)
        heard = {}
        while Ended not in heard:
            at_s, report = await reports.get()
            heard[type(report)] = at_s
        begun = float(Path(launch.folder, "log").read_text(encoding="utf-8"))
        first.append((begun - began) * 1e3)
        told.append((heard[Started] - began) * 1e3)
        ended.append((heard[Ended] - begun) * 1e3)
    await executor.close()
    return first, told, ended


def plain(times: int) -> list[float]:
    """Milliseconds from Popen to the command's first instruction."""
    taken: list[float] = []
    for _ in range(times):
        began = time.time()
        told = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout
        taken.append((float(told) - began) * 1e3)
    return taken


def shims(at: Path, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds of a shim from its start to its command's, and of processor time in its life."""
    wall: list[float] = []
    cpu: list[float] = []
    for number in range(times):
        launch = a_launch(at / "bare", number)
        record = write_launch(launch, Assigned(), False, Keeping(2**20, 2, None))
        record["workdir"] = str(at)
        began = time.perf_counter()
        pid, bell = spawn(launch.folder, record)
        os.read(bell, 1)
        wall.append((time.perf_counter() - began) * 1e3)
        os.close(bell)
        cpu.append(used_ms(pid))
    return wall, cpu


def nothing(times: int) -> list[float]:
    """Milliseconds of processor time of a Python that does nothing."""
    taken: list[float] = []
    for _ in range(times):
        command = [sys.executable, "-I", "-S", "-c", "pass"]
        taken.append(used_ms(os.posix_spawn(sys.executable, command, os.environ)))
    return taken


def used_ms(pid: int) -> float:
    """Processor time of a child, which is waited for, and of its children."""
    used: resource.struct_rusage = os.wait4(pid, 0)[2]
    return (used.ru_utime + used.ru_stime) * 1e3


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    times = 10 if given.quick else 20 * given.repeats
    with tempfile.TemporaryDirectory(dir=".") as folder:
        at = Path(folder).resolve()
        first, told, ended = asyncio.run(through_the_executor(at, times))
        wall, cpu = shims(at, times)
    table = Table("milliseconds", "median", "p95", first=58)
    for name, taken in (
        ("plain subprocess: to the first instruction", plain(times)),
        ("local executor: start() to the first instruction", first),
        ("local executor: start() to Started", told),
        ("local executor: the first instruction to Ended", ended),
        ("shim alone: to its command's start", wall),
        ("shim alone: processor time of its life, command included", cpu),
        ("python -I -S -c pass: processor time", nothing(times)),
    ):
        table.line(name, statistics.median(taken), statistics.quantiles(taken, n=20)[-1])


if __name__ == "__main__":
    main()
