"""An afternoon in minutes: what machines really rented cost, and how long jobs took, against what the twin says.

The same trace of short jobs is submitted to a service on `--fleet local` under one policy after the other, and
simulated on the same machines, boots, prices and periods. Most jobs sleep, every tenth computes; all keep what they
have done when they are stopped, as the twin assumes. The twin is asked twice: with the run times that jobs state, and
with the times for which their runs really held their places. A last line has the parts of the difference of these, for
jobs that sleep and jobs that compute::

    python benchmarks/bench_afternoon.py
    python benchmarks/bench_afternoon.py --jobs 40 eva:period=10
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from measuring import Table, introduce

from betimes import Client, Cluster, Workload, simulate, summarise
from betimes.client import JobSpec
from betimes.cluster import NodeGroup, read_cluster
from betimes.service.views.models import EventView

POLICIES = (
    "no-packing:period=10",
    "eva:period=10",
    "portfolio:members=*/unicef/best,tick=5",
    "compound:t=10s,b=60s,lengths=estimate,waits=simulated",  # what an oracle knows, a service does not
)
GAP_S = 2.4
OFFERS = """
[[offers]]
type = "small"
cpu = 1
memory_gib = 1
usd_per_h = 0.05
boot_s = 2
bill_step_s = 1

[[offers]]
type = "large"
cpu = 2
memory_gib = 2
usd_per_h = 0.09
boot_s = 3
bill_step_s = 1
"""
TOGETHER_S = 60.0  # policies look at multiples of divisors of this
JOB = """
import signal, sys, time
began_at = time.time()
total_s, computes = float(sys.argv[2]), sys.argv[3] == "computes"
clock = time.process_time if computes else time.monotonic
began_s = clock()
with open(sys.argv[1], "a+") as kept:  # a line a run: the work that it has done, and when its first and last line ran
    kept.seek(0)
    left_s = total_s - sum(float(line.split()[0]) for line in kept)
def note():
    with open(sys.argv[1], "a") as kept:
        print(clock() - began_s, began_at, time.time(), file=kept)
def stop(*_):
    note()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
while (rest_s := left_s - clock() + began_s) > 0:
    time.sleep(rest_s) if not computes else sum(range(20_000))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
note()
"""


class Task(NamedTuple):
    """A job: when it comes, what it takes, and what it states that it takes."""

    submit_s: float
    run_s: float
    stated_s: float
    cpu: float
    computes: bool


class Figures(NamedTuple):
    """The outcome of the trace."""

    usd: float
    completion_s: float
    machines: int
    moves: int


class Parts(NamedTuple):
    """The time of a job's runs beyond the time that it states, s, by its cause."""

    start_s: float = 0.0  # from the decision to start them until their first line
    beyond_s: float = 0.0  # from their first line to their last, more than the work that was done
    end_s: float = 0.0  # from their last line until their end is known


def trace(jobs: int, seed: int) -> list[Task]:
    """Four of five jobs are short."""
    draw, now_s, found = random.Random(seed), 0.0, list[Task]()
    for number in range(jobs):
        run_s = draw.uniform(2.0, 10.0) if draw.random() < 0.8 else draw.uniform(16.0, 48.0)
        computes = number % 10 == 9
        run_s = round(min(run_s, 4.0) if computes else run_s, 3)
        found.append(Task(round(now_s, 3), run_s, run_s, draw.choice((0.5, 1.0, 1.0, 2.0)), computes))
        now_s += draw.expovariate(1.0 / GAP_S)
    return found


def simulated(tasks: Sequence[Task], policy: str, cluster: Cluster) -> Figures:
    """The outcome in the twin."""
    ones = np.ones(len(tasks), dtype=np.int64)
    workload = Workload.from_columns(
        submit_s=[one.submit_s for one in tasks], work_s=[one.run_s for one in tasks], max_units=ones,
        estimate_s=[one.stated_s for one in tasks], cpu=[one.cpu for one in tasks],
        memory_gib=[0.25 for _ in tasks], gpu=[0.0 for _ in tasks], grace_s=[1.0 for _ in tasks],
    )  # fmt: skip
    found = summarise(simulate(workload, policy, cluster=cluster))
    return Figures(
        found["on_demand_usd"], found["jct_mean_s"], found["instances"], found.get("migrations") or 0
    )


def real(
    tasks: Sequence[Task], policy: str, folder: Path
) -> tuple[Figures, list[Task], list[Parts], NodeGroup]:
    """The outcome in a service whose jobs really run; the tasks as they were, `Parts` of each, the owned machine."""
    script = folder / "job.py"
    script.write_text(JOB)
    (folder / "offers.toml").write_text(OFFERS)
    up = [
        sys.executable,
        "-m",
        "betimes",
        "up",
        "--json",
        "--service",
        str(folder / "state"),
        "--fleet",
        "local",
    ]
    up += ["--cloud", str(folder / "offers.toml"), "--policy", policy]
    service = subprocess.Popen(up, stdout=subprocess.PIPE)
    try:
        assert service.stdout is not None
        service.stdout.readline()
        with Client(state=folder / "state") as client:
            while not client.health().ready:
                time.sleep(1.0)
            client.wait(client.submit(JobSpec(command=["true"])).job_id)  # what was not loaded yet is now
            (opened,) = client.events(kinds=["opened"])
            (own,) = client.nodes()
            epoch_at = opened.data["epoch_at"]
            begin_at = epoch_at + math.ceil((time.time() + 5.0 - epoch_at) / TOGETHER_S) * TOGETHER_S
            ids = list[int]()
            for number, task in enumerate(tasks):
                time.sleep(max(0.0, begin_at + task.submit_s - time.time()))
                what = "computes" if task.computes else "sleeps"
                kept = folder / f"kept-{number}"
                command = [sys.executable, "-IS", str(script), str(kept), str(task.run_s), what]
                spec = JobSpec(
                    command=command, cpu=task.cpu, memory_gib=0.25, estimate_s=task.stated_s, grace_s=1.0
                )
                ids.append(client.submit(spec).job_id)
            while any(not job.status.is_over for job in client.iterate_jobs()) or client.fleet().machines:
                time.sleep(1.0)
            jobs = {job.job_id: job for job in client.iterate_jobs()}
            wrong = [jobs[each] for each in ids if jobs[each].status != "finished"]
            assert not wrong, wrong
            gone = list(client.events(kinds=["node-gone"]))
            events = list(client.events(kinds=["launched", "ended"]))
            moves = sum(1 for _ in client.events(kinds=["moved"]))
    finally:
        service.send_signal(signal.SIGINT)
        service.wait()
    came, parts = list[Task](), list[Parts]()
    for number, (each, task) in enumerate(zip(ids, tasks, strict=True)):
        held_s, part = lived([one for one in events if one.job_id == each], folder / f"kept-{number}")
        came.append(task._replace(submit_s=max(0.0, jobs[each].submitted_at - begin_at), run_s=held_s))
        parts.append(part)
    completion_s = fmean((jobs[each].finished_at or 0.0) - jobs[each].submitted_at for each in ids)
    usd = sum(event.data.get("cost_usd", 0.0) for event in gone)
    group = NodeGroup("own", 1, 0.0, own.cpu, own.memory_gib)
    return Figures(usd, completion_s, len(gone), moves), came, parts, group


def lived(events: Sequence[EventView], kept: Path) -> tuple[float, Parts]:
    """For how long the runs of a job held their places, s, and the parts of that; kept: what the job has noted."""
    noted = [tuple(map(float, line.split())) for line in kept.read_text().splitlines()]
    held_s, parts = 0.0, Parts()
    for begun, over in zip(events[::2], events[1::2], strict=True):
        held_s += over.at - begun.at
        for done_s, first_at, last_at in noted:
            if begun.at <= first_at <= over.at:
                spent = (first_at - begun.at, last_at - first_at - done_s, over.at - last_at)
                parts = Parts(*(before + more for before, more in zip(parts, spent, strict=True)))
    return held_s, parts


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("policies", nargs="*", default=list(POLICIES))
    given = parser.parse_args()
    introduce(__doc__)
    tasks = trace(given.jobs, given.seed)
    with tempfile.TemporaryDirectory(prefix="betimes-afternoon-") as folder:
        Path(folder, "offers.toml").write_text(OFFERS)
        offers = read_cluster(Path(folder, "offers.toml"))
    table = Table("policy", "", "USD", "completion s", "machines", "moves", first=len(POLICIES[-1]))
    for policy in given.policies:
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="betimes-afternoon-") as folder:
            figures, came, parts, own = real(tasks, policy, Path(folder))
        cluster = replace(offers, groups=(own,))
        for what, found in (
            ("real", figures),
            ("twin, runs as they were", simulated(came, policy, cluster)),
            ("twin, runs as stated", simulated(tasks, policy, cluster)),
        ):
            table.line(
                policy, what, f"{found.usd:.4f}", f"{found.completion_s:.2f}", found.machines, found.moves
            )
        for what, computes in (("sleep", False), ("compute", True)):
            those = [part for part, task in zip(parts, tasks, strict=True) if task.computes == computes]
            means = (fmean(one) for one in zip(*those, strict=True))
            print(
                "{} jobs {}: start {:.2f} s, beyond {:.2f} s, end {:.2f} s".format(len(those), what, *means)
            )
        print(f"load of the machine {load:.1f} and {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
