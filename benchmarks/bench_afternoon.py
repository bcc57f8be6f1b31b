"""An afternoon in minutes: what machines really rented cost, and how long jobs took, against what the twin says.

The same trace of short jobs is submitted to a service on `--fleet local` under one policy after the other, and
simulated on the same machines, boots, prices and periods. Most jobs sleep, every tenth computes; all keep what they
have done when they are stopped, as the twin assumes::

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
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import Table, introduce

from betimes import Client, Cluster, Workload, simulate, summarise
from betimes.client import JobSpec
from betimes.cluster import NodeGroup, read_cluster

POLICIES = (
    "no-packing:period=10",
    "eva:period=10",
    "portfolio:members=*/unicef/best,tick=5",
    "compound:t=5s,b=30s",
)
GAP_S = 1.2
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
import pathlib, signal, sys, time
kept, total_s, computes = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "computes"
clock = time.process_time if computes else time.monotonic
done_s, began_s = float(kept.read_text()) if kept.exists() else 0.0, clock()
def stop(*_):
    kept.write_text(str(done_s + clock() - began_s))
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
while (left_s := total_s - done_s - clock() + began_s) > 0:
    time.sleep(left_s) if not computes else sum(range(20_000))
"""


class Task(NamedTuple):
    """A job: when it comes and what it takes."""

    submit_s: float
    run_s: float
    cpu: float
    computes: bool


class Figures(NamedTuple):
    """What came of the trace."""

    usd: float
    completion_s: float
    machines: int
    moves: int


def trace(jobs: int, seed: int) -> list[Task]:
    """Four of five jobs are short."""
    draw, now_s, found = random.Random(seed), 0.0, list[Task]()
    for number in range(jobs):
        run_s = draw.uniform(1.0, 5.0) if draw.random() < 0.8 else draw.uniform(8.0, 24.0)
        computes = number % 10 == 9
        found.append(
            Task(
                round(now_s, 3),
                round(min(run_s, 4.0) if computes else run_s, 3),
                draw.choice((0.5, 1.0, 1.0, 2.0)),
                computes,
            )
        )
        now_s += draw.expovariate(1.0 / GAP_S)
    return found


def simulated(tasks: list[Task], policy: str, offers: Cluster, cpu: float, memory_gib: float) -> Figures:
    """What the twin says, with this machine as the one that is owned."""
    cluster = replace(offers, groups=(NodeGroup("own", 1, 0.0, cpu, memory_gib),))
    ones = np.ones(len(tasks), dtype=np.int64)
    workload = Workload.from_columns(
        submit_s=[one.submit_s for one in tasks], work_s=[one.run_s for one in tasks], max_units=ones,
        estimate_s=[one.run_s for one in tasks], cpu=[one.cpu for one in tasks],
        memory_gib=[0.25 for _ in tasks], gpu=[0.0 for _ in tasks], grace_s=[1.0 for _ in tasks],
    )  # fmt: skip
    found = summarise(simulate(workload, policy, cluster=cluster))
    return Figures(
        found["on_demand_usd"], found["jct_mean_s"], found["instances"], found.get("migrations") or 0
    )


def real(tasks: list[Task], policy: str, folder: Path) -> tuple[Figures, float, float]:
    """What a service does with jobs that really run; its machine's cores and memory."""
    script = folder / "job.py"
    script.write_text(JOB)
    (folder / "offers.toml").write_text(OFFERS)
    up = [
        sys.executable,
        "-m",
        "betimes",
        "up",
        "--json",
        "--state",
        str(folder / "state"),
        "--fleet",
        "local",
    ]
    up += ["--cloud", str(folder / "offers.toml")]
    service = subprocess.Popen([*up, "--policy", policy], stdout=subprocess.PIPE)
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
            for number, task in enumerate(tasks):
                time.sleep(max(0.0, begin_at + task.submit_s - time.time()))
                what = "computes" if task.computes else "sleeps"
                command = [
                    sys.executable,
                    "-IS",
                    str(script),
                    str(folder / f"kept-{number}"),
                    str(task.run_s),
                    what,
                ]
                client.submit(
                    JobSpec(
                        command=command, cpu=task.cpu, memory_gib=0.25, estimate_s=task.run_s, grace_s=1.0
                    )
                )
            while any(not job.status.is_over for job in client.iterate_jobs()) or client.fleet().machines:
                time.sleep(1.0)
            jobs = [job for job in client.iterate_jobs() if job.name != "true"]
            assert all(job.status == "finished" for job in jobs), [
                job for job in jobs if job.status != "finished"
            ]
            gone = list(client.events(kinds=["node-gone"]))
            completion_s = sum((job.finished_at or 0.0) - job.submitted_at for job in jobs) / len(jobs)
            moves = sum(1 for _ in client.events(kinds=["moved"]))
            usd = sum(event.data.get("cost_usd", 0.0) for event in gone)
            return Figures(usd, completion_s, len(gone), moves), own.cpu, own.memory_gib
    finally:
        service.send_signal(signal.SIGINT)
        service.wait()


def main() -> None:
    """Print the table."""
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
    table = Table(
        "policy",
        "USD",
        "in the twin",
        "completion s",
        "in the twin",
        "machines",
        "in the twin",
        "moves",
        "in the twin",
    )
    print(f"load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
    for policy in given.policies:
        with tempfile.TemporaryDirectory(prefix="betimes-afternoon-") as folder:
            came, cpu, memory_gib = real(tasks, policy, Path(folder))
        twin = simulated(tasks, policy, offers, cpu, memory_gib)
        table.line(policy, f"{came.usd:.4f}", f"{twin.usd:.4f}", f"{came.completion_s:.2f}", f"{twin.completion_s:.2f}",
                  came.machines, twin.machines, came.moves, twin.moves)  # fmt: skip
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
