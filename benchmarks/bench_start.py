"""A command runs some tens of milliseconds after it was handed to the local executor.

From `start()` to the command's first instruction, and to its report, against a plain subprocess of the same command;
the start of a supervisor against that of a Python that does nothing; and how many jobs of an array a service starts
and ends a second. Run
folders are on the disk, whose fsync is part of it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_service import up
from measuring import Table, arguments, introduce

from betimes.client import JobSpec
from betimes.service.executors.devices import Assigned
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.protocol import Launch, Place
from betimes.service.executors.run_folder import Keeping, write_launch
from betimes.service.executors.supervisors import Forker
from betimes.service.scheduling.events import Ended, Report, RunId, Started

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
        identity=f"bench {number}",
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


def supervisors(at: Path, times: int) -> list[float]:
    """Milliseconds from asking for a supervisor to its command's start."""
    wall: list[float] = []
    forker = Forker()
    for number in range(times):
        launch = a_launch(at / "bare", number)
        record = write_launch(launch, Assigned(), False, Keeping(2**20, 2, None))
        record["workdir"] = str(at)
        began = time.perf_counter()
        _, bell = forker.spawn(launch.folder, record)
        os.read(bell, 1)
        wall.append((time.perf_counter() - began) * 1e3)
        os.close(bell)
    forker.close()
    return wall


def nothing(times: int) -> list[float]:
    """Milliseconds of a Python that does nothing, which a supervisor of its own would need first."""
    taken: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def starts(policy: str, runs: int) -> float:
    """Runs a second of an array of `true` on half a core each, from its submission to the end of the last."""
    with (
        tempfile.TemporaryDirectory(prefix="betimes-bench-", dir=".") as state,
        up(Path(state), "--policy", policy) as (client, _),
    ):
        began = time.perf_counter()
        client.submit(JobSpec(command=["true"], workdir="/", cpu=0.5, array=f"1-{runs}", estimate_s=1.0))
        while client.health().jobs_active:
            time.sleep(0.02)
        return runs / (time.perf_counter() - began)


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    times = 10 if given.quick else 20 * given.repeats
    with tempfile.TemporaryDirectory(dir=".") as folder:
        at = Path(folder).resolve()
        first, told, ended = asyncio.run(through_the_executor(at, times))
        wall = supervisors(at, times)
    table = Table("milliseconds", "median", "p95", first=58)
    for name, taken in (
        ("plain subprocess: to the first instruction", plain(times)),
        ("local executor: start() to the first instruction", first),
        ("local executor: start() to Started", told),
        ("local executor: the first instruction to Ended", ended),
        ("supervisor alone: to its command's start", wall),
        ("python -I -S -c pass", nothing(times)),
    ):
        table.line(name, statistics.median(taken), statistics.quantiles(taken, n=20)[-1])
    print()
    rates = Table("an array of `true`", "runs/s", first=58)
    for policy in ("fifo", "nodes:fifo"):
        rates.line(f"under {policy}", starts(policy, 5 * times))


if __name__ == "__main__":
    main()
