"""Gain of `wfq:...,heterogeneous=yes` on unlike machines: Gavel's jobs, with the throughputs that it published.

    python benchmarks/bench_heterogeneous.py [--jobs 100] [--data FOLDER]

FOLDER has `gpu/gavel_philly_seed0.csv.gz` and `gavel/gavel_throughputs.csv.gz`. A job's run time is that on a V100.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from betimes import Workload, simulate
from betimes.cluster import Cluster, NodeGroup
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import NodesPolicy

TYPES = ("v100", "p100", "k80")
CLUSTER = Cluster("12 GPUs of each type", tuple(NodeGroup(name, 3, 4, 0, 0) for name in TYPES))
CLASSES = "thresholds=50000+500000,weights=0.6+0.3+0.1"


def rows(path: Path) -> list[dict[str, str]]:
    """The lines of a table."""
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def throughputs(data: Path) -> dict[tuple[str, str, int], dict[str, float]]:
    """Steps a second by model, batch size and number of GPUs, on each type; consolidated, in the simulation's table."""
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in rows(data / "gavel" / "gavel_throughputs.csv.gz"):
        if row["consolidated"] == "yes":
            key = row["model"], row["batch_size"], int(row["scale_factor"])
            found.setdefault(key, {})[row["gpu_type"]] = float(row["steps_per_s_simulation_table"])
    return found


def gavel_jobs(data: Path, jobs: int, load: float) -> Workload:
    """The first jobs of a virtual cluster that fit, with gaps squeezed to `load` on V100s in place of all GPUs."""
    table = throughputs(data)
    submit_s, run_s, gpus, speeds = list[float](), list[float](), list[int](), list[list[float]]()
    for row in rows(data / "gpu" / "gavel_philly_seed0.csv.gz"):
        of = table.get((row["model"], row["batch_size"], int(row["scale_factor"])), {})
        if row["virtual_cluster"] != "0e4a51" or not of.get("v100") or int(row["scale_factor"]) > 4:
            continue
        submit_s.append(float(row["arrival_time_s"]))
        run_s.append(float(row["total_steps"]) / of["v100"])
        gpus.append(int(row["scale_factor"]))
        speeds.append([of.get(name, 0.0) / of["v100"] for name in TYPES])
        if len(run_s) == jobs:
            break
    work = np.array(run_s) * gpus
    at = np.array(submit_s) - submit_s[0]
    at *= work.sum() / (load * CLUSTER.units) / at[-1]
    columns: dict[str, Any] = {
        f"speed.{name}": [each[at] for each in speeds] for at, name in enumerate(TYPES)
    }
    return Workload.from_columns(
        submit_s=at, work_s=work, max_units=gpus, gpu=1.0, extra=columns, name="gavel"
    )


class Blind:
    """A planner to which all machines are alike."""

    def __init__(self, planner: Any) -> None:
        self.planner, self.period_s = planner, planner.period_s

    @property
    def every_round(self) -> bool:
        """As the planner has it."""
        return self.planner.every_round

    def plan(self, snapshot: Any) -> Any:
        """The planner's decisions without the speeds."""
        return self.planner.plan(
            snapshot._replace(jobs=tuple(job._replace(speeds=()) for job in snapshot.jobs))
        )


def blind(chosen: ChosenPolicy[NodesPolicy]) -> ChosenPolicy[NodesPolicy]:
    """The same policy, which does not know that machines differ."""
    policy = chosen.policy
    return replace(
        chosen,
        policy=replace(policy, planner=lambda values, cluster: Blind(policy.planner_of(values, cluster))),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    chosen = parse_nodes_policy(f"wfq:{CLASSES},heterogeneous=yes")
    policies: dict[str, Any] = {
        "wfq, heterogeneous=yes": chosen,
        "the same, speeds unknown": blind(chosen),
        "wfq-order": "wfq-order:first=50000,factor=10,W=0.9,backfill=skip-over",
        "fifo": "nodes:fifo",
        "easy": "easy",
    }
    print("| load | policy | mean JCT | p50 JCT | p99 JCT | preemptions a job | moves a job |")
    print("|---|---|---|---|---|---|---|")
    for load in (0.4, 0.6):
        jobs = gavel_jobs(given.data, given.jobs, load)
        for name, policy in policies.items():
            result = simulate(jobs, policy, cluster=CLUSTER, restart_s=60.0)
            jct_h = (result.jobs.finish_s - result.jobs.submit_s) / 3600.0
            each = f"{result.jobs.preemptions.mean():.1f} | {result.migrations / len(jobs):.1f}"
            p50, p99 = np.percentile(jct_h, [50, 99])
            print(f"| {load:g} | {name} | {jct_h.mean():.1f} h | {p50:.1f} h | {p99:.1f} h | {each} |")


if __name__ == "__main__":
    main()
