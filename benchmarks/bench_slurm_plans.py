"""How far plans agree with Slurm's own: the start that `squeue` showed of each waiting job, at 71 looks at one.

The recording (`slurm/` among the data) is slurmctld 22.05 with 100 nodes of one CPU. Each picture is a state from which
the twin plays on, believing limits as Slurm does; what it starts a job at is held against Slurm's START_TIME. "plan" is
what `slurm` plans at the picture's instant, and not where the play-out ends up: Slurm plans some jobs later than it
will start them, for it looks at the ends of running jobs in intervals.

A start agrees if it is within 10 minutes, or 5 % of the time until then. "first 5": of the first five that wait.

Then what planning costs: CPU seconds to play out ever more waiting jobs on 400 nodes of 32 cores, full of jobs, all of
which end after a random part of their limit, beside `easy`, which plans for one job at a time.
"""

from __future__ import annotations

import gzip
import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, arguments, introduce, simulated, traces_at

import betimes
from betimes.cluster import Cluster, NodeGroup
from betimes.core.nodes.passes.slurm_backfill import plan_as_slurm
from betimes.kernels import as_array, entry
from betimes.policies import parse_nodes_policy
from betimes.twin.cluster_state import ClusterState, RunningJob
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload

RECORDING = "slurm/kth-day140-x240.jsonl.gz"
NODES = Cluster("recorded", (NodeGroup("n", 100, 0.0, 1.0, 0.0),))
MINUTE_S = 23.211  # whole minutes of the recorded clock begin at this second of a minute of the log
EVERY, QUICK_EVERY, FIRST = 12, 120, 10
LIVE = ("RUNNING", "COMPLETING")
SLURM = "slurm:depth=1000,horizon=7d"  # as that Slurm was set up
POLICIES = ("conservative", "easy", "fifo", SLURM)

plan = entry(plan_as_slurm)

Rows = Mapping[str, Mapping[str, Any]]


def pictures(path: Path) -> Iterator[tuple[float, dict[str, dict[str, Any]]]]:
    """Every look: its instant, and the jobs by number."""
    with gzip.open(path, "rt") as lines:
        fields = json.loads(next(lines))["fields"]
        jobs: dict[str, dict[str, Any]] = {}
        for line in lines:
            look = json.loads(line)
            for row in look["changed"]:
                jobs[row[0]] = dict(zip(fields, row, strict=True))
            for gone in look["gone"]:
                del jobs[gone]
            yield look["at"], jobs


class Nodes:
    """The nodes of running jobs, which the recording does not have: chosen as Slurm chooses, as jobs come."""

    def __init__(self) -> None:
        self.of: dict[str, list[int]] = {}

    def follow(self, running: list[dict[str, Any]]) -> None:
        """Free the nodes of jobs that have ended, and choose those of jobs that have begun."""
        ids = {job["id"] for job in running}
        self.of = {each: nodes for each, nodes in self.of.items() if each in ids}
        free = set(range(NODES.units)) - {node for nodes in self.of.values() for node in nodes}
        for job in sorted(running, key=lambda job: (job["start"], int(job["id"]))):
            if job["id"] not in self.of:
                self.of[job["id"]] = nodes = _shortest_rows(free, job["cpus"])
                free -= set(nodes)


def _shortest_rows(free: set[int], count: int) -> list[int]:
    rows, chosen = list[list[int]](), list[int]()
    for node in sorted(free):
        if rows and rows[-1][-1] == node - 1:
            rows[-1].append(node)
        else:
            rows.append([node])
    while len(chosen) < count:
        missing = count - len(chosen)
        enough = [row for row in rows if len(row) >= missing]
        row = min(enough, key=len) if enough else max(rows, key=len)
        chosen += row[:missing]
        rows.remove(row)
    return chosen


def queue(
    at: float, running: list[dict[str, Any]], waiting: list[dict[str, Any]], nodes: Nodes
) -> tuple[Workload, ClusterState]:
    """The jobs, with what they have left by their limits, and the state."""
    jobs, names = [*running, *waiting], NODES.node_names
    width = np.array([job["cpus"] for job in jobs])
    limit_s = np.array([job["limit_s"] for job in jobs])
    left_s = np.array([max(1.0, job["start"] + job["limit_s"] - at) for job in running])
    workload = Workload.from_columns(
        job_id=[job["id"] for job in jobs], submit_s=np.array([job["submit"] for job in jobs]) - MINUTE_S,
        work_s=limit_s * width, min_units=width, max_units=width, estimate_s=limit_s, cpu=1.0, name="recorded",
    )  # fmt: skip
    held = [
        RunningJob(
            job["id"], job["start"] - MINUTE_S, {names[node]: 1 for node in nodes.of[job["id"]]}, left_s=left
        )
        for job, left in zip(running, left_s.tolist(), strict=True)
    ]
    return workload, ClusterState(at - MINUTE_S, held, [job["id"] for job in waiting])


def planned(workload: Workload, policy: str, state: ClusterState) -> Mapping[str, float]:
    """When the policy `slurm` plans each job in this state, s."""
    options = SimulationOptions(cluster=NODES, sizes=Sizes("estimate"), state=state)
    simulation = NodesSimulation(workload, parse_nodes_policy(policy), options)
    simulation.begin()
    driver = simulation.driver
    while status := plan(driver.state, driver.rules):
        driver.heed(status)
    ids, state_of = simulation.job_ids, driver.state
    rows, at_s = as_array(state_of.progress), as_array(state_of.needs)
    return {
        str(ids[row["row"]]): need["reserved_s"] if need["holder"] < 0 else state.now_s
        for row, need in zip(rows, at_s, strict=True)
        if row["served_by"] >= 0
    }


def crowded(waiting: int) -> tuple[Workload, Cluster]:
    """Jobs at one instant: 400 that fill the nodes, and so many that wait behind them."""
    draw = np.random.default_rng(7)
    width = np.concatenate([np.full(400, 32), draw.choice([1, 4, 16, 32, 64, 128], waiting)])
    limit_s = 60.0 * draw.integers(10, 720, len(width))
    workload = Workload.from_columns(
        submit_s=np.zeros(len(width)), work_s=limit_s * draw.uniform(0.05, 1.0, len(width)) * width,
        min_units=width, max_units=width, estimate_s=limit_s, cpu=1.0, units_per_task=np.minimum(width, 32),
        name="crowded",
    )  # fmt: skip
    return workload, Cluster("full", (NodeGroup("n", 400, 0.0, 32.0, 0.0),))


def costs(quick: bool, repeats: int) -> None:
    """The CPU seconds of a run, medians, and times those of `easy`."""
    table = Table("waiting jobs", "policy", "CPU s", "times easy's")
    for waiting in (50, 100) if quick else (200, 1000):
        workload, cluster = crowded(waiting)
        easy_s = 0.0
        for policy in ("easy", "conservative", *(("slurm",) if waiting < 1000 else ())):
            spent_s = simulated(
                lambda: betimes.simulate(workload, policy, cluster=cluster, sizes="estimate"),  # noqa: B023
                repeats,
            ).call_s
            easy_s = easy_s or spent_s
            table.line(f"{waiting:,}", policy, spent_s, spent_s / easy_s)


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    costs(given.quick, given.repeats)
    print()
    folder = traces_at(given.data, RECORDING)
    if folder is None:
        return
    every, nodes = QUICK_EVERY if given.quick else EVERY, Nodes()
    found: dict[str, list[tuple[float, float, int]]] = {
        policy: [] for policy in (*POLICIES, f"{SLURM}, plan")
    }
    spent_s = dict.fromkeys(found, 0.0)
    for look, (at, jobs) in enumerate(pictures(folder / RECORDING)):
        running = [job for job in jobs.values() if job["state"] in LIVE]
        nodes.follow(running)
        if look % every != FIRST:
            continue
        waiting = [job for job in jobs.values() if job["state"] == "PENDING"]
        waiting.sort(key=lambda job: (-job["priority"], job["submit"]))
        workload, state = queue(at, running, waiting, nodes)
        for policy in found:
            begun_s = time.process_time()
            if policy in POLICIES:
                result = betimes.simulate(workload, policy, cluster=NODES, sizes="estimate", state=state).jobs
                starts = dict(zip(map(str, result.job_id), result.start_s.tolist(), strict=True))
            else:
                starts = planned(workload, SLURM, state)
            spent_s[policy] += time.process_time() - begun_s
            found[policy] += [
                (starts[job["id"]] - state.now_s, job["start"] - at, place)
                for place, job in enumerate(waiting)
                if job["start"] is not None and job["start"] > at
            ]
    table = Table("policy", "starts", "agree %", "first 5 %", "within 1 min %", "median min", "CPU s")
    for policy, pairs in found.items():
        ours, theirs, place = np.array(pairs).T
        off = np.abs(np.where(np.isfinite(ours), ours, math.inf) - theirs)
        agree = (off < 600.0) | (off < 0.05 * theirs)
        shares = [agree.mean(), agree[place < 5].mean(), (off < 60.0).mean()]
        table.line(
            policy, len(off), *(f"{100 * share:.1f}" for share in shares), f"{np.median(off) / 60:.1f}",
            f"{spent_s[policy]:.1f}",
        )  # fmt: skip


if __name__ == "__main__":
    main()
