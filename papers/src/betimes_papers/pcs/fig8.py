"""PCS (OSDI 2024), figure 8: Workload-3, where mean errors are small and the tail matters.

Gavel's continuous-multiple trace as the published generator draws it: 3,000 jobs on 64 GPUs, linear speed-up, load 1.2,
and a lease of Themis of 10 units of time. The study gives neither the number of jobs nor the load; these reproduce its
figures. Five seeds; 4567 is that of the published generator. The released configurations are run as they are; others
are found on jobs of another seed (42), by mean JCT and 99th percentile of error, and run on the same five workloads.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.pcs.published import OnWorkload3, configurations, figure_8
from betimes_papers.pcs.runs import TAIL, TIRESIAS, UNITS, Outcome, Planned, problem_of, workload_3
from betimes_papers.pcs.study import OF_FIFO, Study, study

if TYPE_CHECKING:
    from betimes.workload import Workload

JOBS = 3000
LOAD = 1.2
SEEDS = (4567, 4568, 4569, 4570, 4571)
EVALUATIONS = 200
TRAIN_JOBS, TRAIN_SEED = 1000, 42
_TRAIN = "train"
FASTEST = "srsf"  # JCTs are divided by its JCT

RUNS = (
    Planned("fifo", "fifo"),
    Planned("srsf", "srsf", TIRESIAS),
    Planned("themis", "themis:lease=10"),
    Planned("afs", "afs"),
    Planned("max-min", "max-min", "FS in the released data"),
    *(Planned(each.name, each.policy, "the released configuration") for each in configurations("workload-3")),
)


def workload(seed: int, jobs: int = JOBS) -> Workload:
    """Workload-3 at the load of the figure."""
    return workload_3(jobs=jobs, load=LOAD, units=UNITS, seed=seed)


def run(_: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows, means over the seeds."""
    points = len(configurations("workload-3"))
    pace = Pace(
        progress,
        TRAIN_JOBS * (EVALUATIONS + 1) + JOBS * len(SEEDS) * (len(RUNS) + points),
    )
    problems = {f"seed {seed}": problem_of(workload(seed)) for seed in SEEDS}
    problems[_TRAIN] = problem_of(workload(TRAIN_SEED, TRAIN_JOBS), TAIL)
    with study(problems, workers, pace) as of_seeds:
        runs = [(f"seed {seed}", each) for each in (*RUNS, *_search(of_seeds)) for seed in SEEDS]
        outcomes: dict[str, list[Outcome]] = {}
        for each in of_seeds.outcomes(runs):
            outcomes.setdefault(each.run.name, []).append(each)
    progress("done", pace.total, pace.total)
    return [row for name, of_policy in outcomes.items() for row in _rows(name, of_policy, outcomes[FASTEST])]


def over_fastest(of_policy: list[Outcome], fastest: list[Outcome]) -> list[float]:
    """Mean JCT over Tiresias's, a value a seed."""
    return [a.jct_mean_s / b.jct_mean_s for a, b in zip(of_policy, fastest, strict=True)]


def _search(of_seeds: Study) -> list[Planned]:
    front = of_seeds.searched(_TRAIN, EVALUATIONS)
    [fifo] = of_seeds.outcomes([(_TRAIN, Planned("fifo", "fifo"))])
    picked = front.picked(OF_FIFO * fifo.jct_mean_s)
    note = f"found here on {TRAIN_JOBS:,} other jobs; published: the released configuration's bar"
    return [Planned(f"found/{name}", config.policy, note) for name, config in picked.items()]


def _rows(name: str, of_policy: list[Outcome], fastest: list[Outcome]) -> list[Row]:
    published = figure_8().get(name.removeprefix("found/"), OnWorkload3())
    metrics = (
        ("jct_mean_over_srsf", published.jct_over_srsf, over_fastest(of_policy, fastest), "ratio"),
        ("pred_err_mean", published.error_mean, [each.error() for each in of_policy], "%"),
        ("pred_err_p99", published.error_p99, [each.error(99.0) for each in of_policy], "%"),
    )
    rows: list[Row] = []
    for metric, theirs, values, unit in metrics:
        spread = f"seeds {SEEDS[0]} to {SEEDS[-1]} give {min(values):.4g} to {max(values):.4g}"
        note = f"{of_policy[0].run.note}; {spread}" if of_policy[0].run.note else spread
        rows.append(Row(name, metric, theirs, sum(values) / len(values), unit, note))
    return rows


EXPERIMENT = Experiment(
    name="pcs-fig8",
    summary="PCS, figure 8: Workload-3, whose jobs are alike and whose tail of errors is long",
    needs=(),
    run=run,
)
