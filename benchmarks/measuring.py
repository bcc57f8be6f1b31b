"""Shared by the benchmarks: the machine they run on, medians of CPU seconds, tables, where the traces are."""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from betimes_papers.registry import data_directory

from betimes.outcome import Result

ROOT = Path(__file__).resolve().parents[1]
CURVES = "scaling/afs_pcs_speedup.csv.gz"
POLICIES = ("fifo", "srsf", "srtf", "las", "themis", "afs", "max-min", "wfq")


def arguments(description: str | None, jobs: tuple[int, int] | None = None) -> argparse.Namespace:
    """The options of every benchmark: --quick for a look, --data for the traces, --repeats for the medians.

    jobs: also --jobs, the largest workload; by default the first, with --quick the second.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="smaller and fewer runs: a look, not a measurement"
    )
    parser.add_argument("--data", type=Path, help="the folder of the public traces")
    parser.add_argument("--repeats", type=int, help="runs behind every median (default 5, with --quick 1)")
    if jobs is not None:
        parser.add_argument(
            "--jobs", type=int, help=f"the largest workload (default {jobs[0]:,}, with --quick {jobs[1]:,})"
        )
    given = parser.parse_args()
    given.repeats = given.repeats or (1 if given.quick else 5)
    if jobs is not None:
        given.jobs = given.jobs or jobs[1 if given.quick else 0]
    return given


def introduce(what: str | None) -> None:
    """Say what is claimed, and on which machine and versions it is measured."""
    print((what or "").strip().split("\n\n")[0].replace("\n", " "))
    print(
        f"{_processor()}, Python {platform.python_version()}, numba {version('numba')}, numpy {version('numpy')}"
    )
    print("one process, compiled code warm unless it says otherwise\n", flush=True)


def traces_at(named: Path | None, *files: str) -> Path | None:
    """The data directory if all files are there; else None, having said what is left out."""
    folder = data_directory(named)
    missing = [file for file in files if folder is None or not (folder / file).is_file()]
    if missing:
        print(f"(left out: {missing[0]} is not there; name its folder with --data DIR)\n")
        return None
    return folder


class Simulated(NamedTuple):
    """Medians over some equal simulations: CPU seconds of the whole call, wall-clock seconds of the event loop."""

    call_s: float
    loop_s: float
    events: int


def simulated(run: Callable[[], Result], repeats: int) -> Simulated:
    """Run a simulation once to warm it up, then `repeats` times."""
    events = run().timing.events
    calls: list[float] = []
    loops: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        loops.append(run().timing.wall_s)
        calls.append(time.process_time() - started)
    return Simulated(statistics.median(calls), statistics.median(loops), events)


class Table:
    """A table that is printed line by line, as the figures come."""

    def __init__(self, *columns: str, first: int = 24) -> None:
        self.widths = [first, *(max(len(column), 9) for column in columns[1:])]
        self.line(*columns)

    def line(self, *cells: str | float | None) -> None:
        """One line; numbers with three digits that count, None as a gap."""
        texts = [_text(cell) for cell in cells]
        padded = [texts[0].ljust(self.widths[0])]
        padded += [text.rjust(width) for text, width in zip(texts[1:], self.widths[1:], strict=True)]
        print("  ".join(padded), flush=True)


def _text(cell: str | float | None) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.3g}"


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
