"""Shared by Eva's experiments: the trace, the schedulers, the measures of a run, and the published figures."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.processes import Do, Say
from betimes_papers.experiment import Pace, Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.cluster import Cluster
    from betimes.outcome import Result
    from betimes.workload import Workload

PODS = "gpu/alibaba_openb/openb_pod_list_default.csv.gz"
SEED = 3  # of the published trace
JOBS = 6274
SIZES = ("200", "1000", str(JOBS))  # jobs, the first of the trace
DEFAULT = SIZES[0]

EVA = "eva:rules=paper,fill=cost-test"
"""The headline. In the text, Partial Reconfiguration opens new machines alone; the released code fills running ones
first, whatever that does to their tasks, and only so figure 6 can be had. Here it fills them where that pays."""

SCHEDULERS = {
    "No-Packing": "no-packing",
    "Stratus": "stratus",
    "Synergy": "synergy",
    "Owl": "owl",
    "Eva": EVA,
    "Eva, literal text": "eva:rules=paper",
    "Eva, improved": "eva",
}
"""Names as in the paper, and policies; the last is ours."""

UNITS = {
    "cost": "% of No-Packing",
    "jct": "h",
    "tasks_per_instance": "tasks",
    "idle": "h a job",
    "migrations": "a job",
    "planning": "s",
}

FULL_S = (30 * 86400.0, 60 * 86400.0)
"""The time in which the paper counts tasks on machines: days 30 to 60 of 87, in which the system is full."""

Figures = dict[str, float]
"""`usd` and the figures in `UNITS`, except `cost` and `planning`."""


def trace(
    data: Path, jobs: int, *, durations: str = "gavel", mean_gap_s: float = 1200.0, seed: int = SEED
) -> Workload:
    """The first jobs of Eva's trace, which has two models of durations; of another such trace with another seed."""
    from betimes.workload.generators import generate

    spec = f"eva:pods={data / PODS},jobs={jobs},durations={durations},mean_gap_s={mean_gap_s:g}"
    return generate(spec, units=1, seed=seed)


def machines(throughput: float | None = None) -> Cluster:
    """Eva's 21 instance types; `throughput` of any pair of tasks replaces the measured ones."""
    from betimes.cluster import Interference, read_cluster

    cluster = read_cluster("ec2-2023-vcpu")
    if throughput is None:
        return cluster
    assert cluster.interference is not None
    names = cluster.interference.workloads
    uniform = tuple(tuple(throughput for _ in names) for _ in names)
    return replace(cluster, interference=Interference(names, uniform, throughput))


def simulated(workload: Workload, policy: str, cluster: Cluster, pace: Pace, what: str) -> Figures:
    """The figures of one run."""
    return _figures(workload, policy, cluster, pace.run(what, len(workload)))


def simulates(points: Sequence[tuple[Workload, Cluster]]) -> Do:
    """A worker's function from the number of a point and a policy to the figures of that run."""

    def run(task: tuple[int, str], say: Say) -> Figures:
        (workload, cluster), done = points[task[0]], 0

        def submitted(rows: int) -> None:
            nonlocal done
            say(rows - done)
            done = rows

        return _figures(workload, task[1], cluster, submitted)

    return run


def _figures(workload: Workload, policy: str, cluster: Cluster, progress: Callable[[int], object]) -> Figures:
    import numpy as np

    from betimes.foresight.nodes.simulate import simulate_nodes
    from betimes.outcome.summary import summarise

    policy += (
        f"{',' if ':' in policy else ':'}rounds=fixed"  # the published schedulers decide in rounds alone
    )
    result = simulate_nodes(workload, policy, cluster=cluster, sizes="true", timeline=True, progress=progress)
    found, jobs = summarise(result), result.jobs
    return {
        "usd": found["cost_usd"],
        "jct": found["jct_mean_s"] / 3600.0,
        "tasks_per_instance": _tasks_on_a_machine(result),
        # Time without machines from arrival to end: while they boot, and in moves.
        "idle": float(np.mean(jobs.finish_s - jobs.submit_s - jobs.units_s / jobs.max_units)) / 3600.0,
        "migrations": found["migrations"] / len(workload),
    }


def _tasks_on_a_machine(result: Result) -> float:
    """Tasks on a machine while it is up, as a mean over `FULL_S`; over the whole run if that ends before."""
    import numpy as np

    held, leases = result.segments, result.leases
    assert held is not None
    assert leases is not None
    from_s, until_s = FULL_S if leases.ended_s.max() >= FULL_S[1] else (0.0, np.inf)

    def within_s(start_s: NDArray[np.float64], end_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(0.0, np.minimum(end_s, until_s) - np.maximum(start_s, from_s))

    # A unit is a task in Eva's traces.
    task_s = np.sum(held.units * within_s(held.start_s, held.end_s))
    return float(task_s / np.sum(within_s(leases.booted_s, leases.ended_s)))


def rows(
    experiment: str, setting: str, found: dict[str, Figures], metrics: Sequence[str], full: bool
) -> list[Row]:
    """A row for each scheduler and metric; costs are shares of No-Packing's.

    full: whether the run is the published one, so that the two are comparable.
    """
    base = found["No-Packing"]["usd"]
    made: list[Row] = []
    for name, figures in found.items():
        for metric in metrics:
            ours = 100.0 * figures["usd"] / base if metric == "cost" else figures[metric]
            note = f"{figures['usd']:,.2f} USD" if metric == "cost" else ""
            known = published(experiment, name, metric) if full else None
            case = f"{setting}/{name}" if setting else name
            made.append(Row(case, metric, known, ours, UNITS[metric], note))
    return made


def published(experiment: str, case: str, metric: str) -> float | None:
    """The value in the paper; None if there is none."""
    return _published().get((experiment, case, metric))


@cache
def _published() -> dict[tuple[str, str, str], float]:
    with Path(__file__).with_name("published.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["experiment"], row["case"], row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
        }
