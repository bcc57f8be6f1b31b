"""From an empty cache the first simulation takes seconds, and an edit recompiles what it can affect and no more.

Every figure is a process of its own on one core, with a cache in a fresh folder: CPU seconds, imports included. Edits
are made in a copy of the package. With --against DIR the same is done with another checkout's sources.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from measuring import introduce
from rich.console import Console
from rich.table import Table

import betimes

PACKAGE = Path(betimes.__file__).parent
POOL = ("simulate", "demo:jobs=200", "--policy", "srsf", "--units", "64", "--json")
NODES = ("simulate", "sample:rigid", "--policy", "fitgpp", "--json")
ALL = ("warm", "--json")
MOST_EXPENSIVE = 10

PROFILE = """
import sys, time
from numba.core import event
from betimes.cli.main import main

class Times(event.Listener):
    def __init__(self):
        self.open, self.own = [], {}
    def on_start(self, what):
        self.open.append([time.perf_counter(), 0.0])
    def on_end(self, what):
        began, inside = self.open.pop()
        took = time.perf_counter() - began
        if self.open:
            self.open[-1][1] += took
        function = what.data["dispatcher"].py_func
        name = f"{function.__module__.removeprefix('betimes.')}.{function.__qualname__}"
        self.own[name] = self.own.get(name, 0.0) + took - inside

times = Times()
event.register("numba:compile", times)
try:
    main(sys.argv[1:])
except SystemExit:
    pass
ranked = sorted(times.own.items(), key=lambda one: -one[1])
print(len(ranked), sum(times.own.values()), file=sys.stderr)
for name, seconds in ranked[:10]:
    print(name, seconds, file=sys.stderr)
"""

CALLS = """
import time
import numpy as np
from betimes import Workload
from betimes.cluster import Cluster
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions

jobs = Workload.from_columns(submit_s=[0.0, 1e9], work_s=[1.0, 1.0])
run = NodesSimulation(jobs, parse_nodes_policy("fifo"), SimulationOptions(cluster=Cluster.pool(1)))
run.driver.step(1)
for calls in (1000, 200_000):
    began = time.perf_counter()
    for _ in range(calls):
        run.driver.step(1)
    each_us = (time.perf_counter() - began) / calls * 1e6
print(each_us)
"""


class Trial:
    """Processes that use the sources in `site` and the cache in `cache`."""

    def __init__(self, site: Path, cache: Path) -> None:
        self.site, self.cache = site, cache

    def run(self, *arguments: str) -> tuple[float, subprocess.CompletedProcess[str]]:
        """CPU seconds that ``python arguments`` takes on one core."""
        environment = os.environ | {"PYTHONPATH": str(self.site), "BETIMES_CACHE_DIR": str(self.cache)}
        environment.pop("NUMBA_CACHE_DIR", None)
        core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done

    def betimes(self, *words: str) -> float:
        """CPU seconds of a command."""
        return self.run("-m", "betimes", *words)[0]

    def cold(self, *words: str) -> float:
        """The same from an empty cache."""
        shutil.rmtree(self.cache, ignore_errors=True)
        return self.betimes(*words)

    def megabytes(self) -> float:
        """The size of the cache."""
        return sum(file.stat().st_size for file in self.cache.rglob("*") if file.is_file()) / 1e6


def copied(package: Path, folder: Path) -> Path:
    """A site folder with a copy of the package."""
    shutil.copytree(package, folder / "betimes", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def edited(file: str, old: str, new: str) -> Callable[[Path], None]:
    """An edit of one file of the package; the text must be there."""

    def edit(site: Path) -> None:
        path = site / "betimes" / file
        source = path.read_text()
        if not re.search(old, source):
            raise SystemExit(f"{path} has no {old!r} any more: bring benchmarks/bench_compile.py up to date")
        path.write_text(re.sub(old, new, source, count=1))

    return edit


EDITS = {
    "a docstring": edited("core/nodes/transitions.py", r'"""The job is done: ', '"""So the job is done: '),
    "one policy (fitgpp)": edited("policies/nodes/fitgpp.py", r"math\.inf\b", "(0.0 + math.inf)"),
    "one policy (srsf)": edited("policies/pool/orders.py", r"key\[k\] = ", "key[k] = 1.0 * "),
    "a transition on nodes": edited(
        "core/nodes/transitions.py", r"    pool\.events \+= 1\n", "    pool.events += 1 + 0 * pool.active\n"
    ),
    "a transition of the pool": edited(
        "core/pool/transitions.py", r"    pool\.events \+= 1\n", "    pool.events += 1 + 0 * pool.active\n"
    ),
}


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(*columns, title=title, title_justify="left", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*(f"{each:.1f}" if isinstance(each, float) else str(each) for each in row))
    Console(width=110).print(table)
    print(flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run of each: a look, not a measurement")
    parser.add_argument("--against", type=Path, metavar="DIR", help="the root of another checkout")
    parser.add_argument("--repeats", type=int, help="runs behind every median (default 3, with --quick 1)")
    given = parser.parse_args()
    repeats = given.repeats or (1 if given.quick else 3)
    introduce(__doc__)
    with tempfile.TemporaryDirectory(prefix="betimes-compile-") as made:
        folder = Path(made)
        trials = {"here": Trial(PACKAGE.parent, folder / "cache")}
        if given.against is not None:
            trials["there"] = Trial(given.against.resolve() / "src", folder / "other-cache")
        rows: list[list[object]] = []
        for label, words in (
            ("first pool simulation", POOL),
            ("first nodes simulation", NODES),
            ("all kernels", ALL),
        ):
            cold, again = list[float](), list[float]()
            for trial in trials.values():
                cold.append(statistics.median(trial.cold(*words) for _ in range(repeats)))
                again.append(statistics.median(trial.betimes(*words) for _ in range(repeats)))
            pairs = [seconds for pair in zip(cold, again, strict=True) for seconds in pair]
            rows.append([label, *pairs, cold[-1] / cold[0]])
        rows.append(["cache of all kernels, MB", trials["here"].megabytes(), ""])
        if len(trials) > 1:
            there = trials["there"].megabytes()
            rows[-1] += [there, "", there / trials["here"].megabytes()]
        headings = [f"{when}{name}" for name in trials for when in ("cold, ", "from the cache, ")]
        show(
            "CPU seconds on one core",
            ["", *headings, *(["there / here, cold"] if len(trials) > 1 else [])],
            rows,
        )

        rows = []
        site = copied(PACKAGE, folder / "site")
        trial = Trial(site, folder / "edited-cache")
        for label, edit in EDITS.items():
            shutil.rmtree(site)
            copied(PACKAGE, site)
            trial.cold(*POOL)
            trial.betimes(*NODES)
            edit(site)
            began = time.time()
            seconds = [trial.betimes(*words) for words in (POOL, NODES)]
            fresh = [file for file in trial.cache.rglob("*.kernel") if file.stat().st_mtime > began]
            rows.append([label, *seconds, len(fresh)])
        show(
            "CPU seconds to the next result after an edit",
            ["of", "pool", "nodes", "entries and hooks recompiled"],
            rows,
        )

        shutil.rmtree(trial.cache)
        _, done = trial.run("-c", PROFILE, *NODES)
        (count, total), *ranked = (line.split() for line in done.stderr.splitlines()[-MOST_EXPENSIVE - 1 :])
        show(
            f"The {MOST_EXPENSIVE} most expensive of {count} functions on nodes, {float(total):.1f} s in all",
            ["function", "seconds of its own"],
            [[name, f"{float(seconds):.2f}"] for name, seconds in ranked],
        )
        _, done = trials["here"].run("-c", CALLS)
        print(f"A call from Python into the nodes engine that does nothing: {float(done.stdout):.2f} us")
        if len(trials) > 1:
            _, other = trials["there"].run("-c", CALLS)
            print(
                f"There: {float(other.stdout):.2f} us, {float(other.stdout) / float(done.stdout):.1f} times as long"
            )


if __name__ == "__main__":
    main()
