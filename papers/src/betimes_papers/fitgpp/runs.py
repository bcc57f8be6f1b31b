"""FitGpp (OpML 2019): shared by its experiments: machine, jobs, load, policies, and the measures of a run.

84 nodes of 8 GPUs, 32 cores and 256 GiB. The next job comes as soon as the load under FIFO is below 2.0, and
every policy gets these submission times; in the other reading each policy keeps up its load. Victims are chosen as
published (`trim=false`), and LRTP knows sizes. The paper prints the means of the times; the demands of its jobs are
not published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from betimes.processes import Do, Say
from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers

if TYPE_CHECKING:
    from betimes.cluster import Cluster
    from betimes.outcome import Result
    from betimes.workload import Workload

SIZES = ("8192", "32768", "131072", "524288")
FULL = SIZES[-1]  # as published
SEEDS = (1, 2, 3)  # of the jobs
DRAWS = (0, 1, 2, 3)  # of RAND's lots; their average is reported, as published
LOAD = 2.0
NO_LIMIT = 10**9  # preemptions of a job

Figures = dict[str, float]
"""Measures of a run: slowdowns `te_p50` to `be_p99`, `preemptions` and `preempted` (jobs) in % of all
jobs, minutes of absence from the signal (`told_p50`, `told_p95`) and from leaving the nodes (`left_p50`, ...), and jobs
`submitted` an hour."""

UNITS = {
    **{f"{group}_p{percent}": "ratio" for group in ("te", "be") for percent in (50, 95, 99)},
    **{f"{group}_p{percent}_change": "%" for group in ("te", "be") for percent in (50, 95)},
    **{f"{since}_p{percent}": "min" for since in ("told", "left") for percent in (50, 95)},
    "preemptions": "% of jobs",
    "preempted": "% of jobs",
    "submitted_change": "%",
}


@dataclass(frozen=True)
class Planned:
    """A policy, and the seeds of the runs that are averaged for it."""

    name: str
    policy: str
    draws: tuple[int, ...] = (0,)


def fifo() -> Planned:
    """The baseline: no job is preempted, and none overtakes the first."""
    return Planned("FIFO", "fifo")


def lrtp(most: int = 1) -> Planned:
    """Longest remaining time first; `most` preemptions of a job."""
    return Planned("LRTP", f"lrtp:trim=false,P={most}")


def rand(most: int = 1) -> Planned:
    """Victims by lot; `most` preemptions of a job."""
    return Planned("RAND", f"rand:trim=false,P={most}", DRAWS)


def fitgpp(s: float = 4.0, most: int = 1) -> Planned:
    """FitGpp with its two parameters."""
    return Planned("FitGpp", f"fitgpp:trim=false,s={s:g},P={most}")


def machine() -> Cluster:
    """The cluster of the paper."""
    from betimes.cluster import Cluster

    return Cluster.uniform(84, gpu=8.0, cpu=32.0, memory_gib=256.0, name="84 nodes")


def loaded(
    jobs: int, seed: int, parameters: Sequence[str] = (), policy: str = "fifo", draw: int = 0
) -> Workload:
    """Jobs of the generator `fitgpp`, with some of its parameters, that keep a policy loaded."""
    from betimes.twin.nodes.closed_loop import keep_loaded
    from betimes.workload.generators import generate

    spec = ",".join((f"fitgpp:jobs={jobs}", *parameters))
    return keep_loaded(generate(spec, units=672, seed=seed), machine(), LOAD, policy, draw)


def runs(planned: Sequence[Planned], seeds: Sequence[int] = SEEDS) -> int:
    """The number of simulations."""
    return len(seeds) * sum(len(each.draws) for each in planned)


def simulated(
    jobs: int,
    planned: Sequence[Planned],
    pace: Pace,
    parameters: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
    kept: bool = False,
    workers: Workers | None = None,
) -> list[list[Figures]]:
    """For every policy planned, its figures with each seed of the jobs; `kept`: each policy keeps up its load."""
    runs = [(seed, each.policy, draw) for seed in seeds for each in planned for draw in each.draws]
    named = [
        f"{jobs:,} jobs, seed {seed}, {each.name}" for seed in seeds for each in planned for _ in each.draws
    ]
    made = (workers or Workers()).made(_simulates, (jobs, tuple(parameters), kept), runs, pace, named)
    of_run = dict(zip(runs, made, strict=True))
    return [
        [averaged([of_run[seed, each.policy, draw] for draw in each.draws]) for seed in seeds]
        for each in planned
    ]


def _simulates(jobs: int, parameters: tuple[str, ...], kept: bool) -> Do:
    """A worker's function from a seed, a policy and a draw to the figures of that run."""

    @lru_cache(maxsize=1)
    def under_fifo(seed: int) -> Workload:
        return loaded(jobs, seed, parameters)

    def run(task: tuple[int, str, int], say: Say) -> Figures:
        from betimes.foresight.nodes.simulate import simulate_nodes

        seed, policy, draw = task
        workload = loaded(jobs, seed, parameters, policy, draw) if kept else under_fifo(seed)
        result = simulate_nodes(workload, policy, cluster=machine(), sizes="true", seed=draw)
        say(jobs)
        return figures_of(result)

    return run


def figures_of(result: Result) -> Figures:
    """The figures of one run; absences are NaN where no job was preempted."""
    import numpy as np

    from betimes.outcome import job_metric
    from betimes.outcome.metrics import percentile

    jobs, slowdown = result.jobs, job_metric(result, "slowdown")
    figures = {
        f"{group}_p{percent}": percentile(slowdown[jobs.qos == qos], percent)
        for group, qos in (("te", 1), ("be", 0))
        for percent in (50, 95, 99)
    }
    figures["preemptions"] = 100.0 * float(np.sum(jobs.preemptions)) / len(jobs)
    figures["preempted"] = 100.0 * float(np.mean(jobs.preemptions > 0))
    figures["submitted"] = 3600.0 * len(jobs) / float(jobs.submit_s[-1] - jobs.submit_s[0])
    if result.absences is not None:
        absences = result.absences
        for since, from_s in (("told", absences.preempted_s), ("left", absences.vacated_s)):
            for percent in (50, 95):
                figures[f"{since}_p{percent}"] = percentile(absences.resumed_s - from_s, percent) / 60.0
    return figures


def averaged(several: Sequence[Figures]) -> Figures:
    """The mean of each figure."""
    return {key: sum(each[key] for each in several) / len(several) for key in several[0]}


def with_changes(own: Sequence[Figures], base: Sequence[Figures]) -> list[Figures]:
    """The figures, and the changes in % against those of `base` (FIFO) with the same seed."""
    return [
        mine
        | {
            f"{key}_change": 100.0 * (mine[key] / theirs[key] - 1.0)
            for key in ("te_p50", "te_p95", "be_p50", "be_p95", "submitted")
        }
        for mine, theirs in zip(own, base, strict=True)
    ]


def row(case: str, metric: str, values: Sequence[float], unit: str, published: float | None = None) -> Row:
    """The mean over the seeds, with the least and the greatest in the note."""
    low, high = min(values), max(values)
    seeds = f"{low:.4g} to {high:.4g} over {len(values)} seeds"
    return Row(case, metric, published, sum(values) / len(values), unit, seeds)


def rows_of(
    case: str,
    figures: Sequence[Figures],
    keys: Sequence[str],
    published: dict[str, float] | None = None,
) -> list[Row]:
    """A row for each of the figures named, NaN left out."""
    return [
        row(case, _metric(key), [each[key] for each in figures], UNITS[key], (published or {}).get(key))
        for key in keys
        if all(each.get(key, float("nan")) == each.get(key) for each in figures)
    ]


def sized(
    name: str, summary: str, run: Callable[[tuple[int, ...], Progress, Workers], list[Row]]
) -> Experiment:
    """An experiment at the size of the paper, or at other numbers of jobs after its name."""

    def experiment(chosen: tuple[str, ...], full_name: str) -> Experiment:
        return Experiment(
            name=full_name,
            summary=summary,
            needs=(),
            run=lambda _, progress, workers: run(tuple(int(jobs) for jobs in chosen), progress, workers),
            parts=SIZES,
            narrowed=lambda parts: experiment(parts, f"{name}:{'+'.join(parts)}"),
        )

    return experiment((FULL,), name)


def _metric(key: str) -> str:
    """The name of a figure in a row."""
    group, _, rest = key.partition("_")
    return {"te": f"te_slowdown_{rest}", "be": f"be_slowdown_{rest}", "told": f"told_to_resumed_{rest}",
            "left": f"left_to_resumed_{rest}"}.get(group, key)  # fmt: skip
