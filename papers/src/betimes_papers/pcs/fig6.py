"""PCS (OSDI 2024), figure 6: the unfairness of PCS on Workload-1, and its front.

The study measured on 16 real GPUs; here the jobs are simulated, with the size table that the release made for that
testbed (`themis-scaled-2`): 101 jobs of 1 to 20 trials of one GPU each, linear speed-up, at load 1, which the study
does not name. Three seeds, as in the study; 4567 is that of the published generator. A front is found on 1,000 other
jobs (seed 42) for mean JCT and mean error, and points of it are run on the same three workloads as the released
configurations.

All is run twice: as the study simulates, and with two properties of real clusters that the published simulator lacks:
whole GPUs, and 30 s lost whenever a job's grant changes. The study does not give the time lost on its testbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.pcs.published import Unfairness, configurations, testbed_front, unfairness
from betimes_papers.pcs.runs import TABLES, TIRESIAS, Outcome, OverSeeds, Planned, problem_of, workload_1
from betimes_papers.pcs.study import OF_FIFO, study

if TYPE_CHECKING:
    from betimes.foresight.tuning import Problem
    from betimes_papers.pcs.study import Study

TABLE = "themis-scaled-2"
UNITS, JOBS, LOAD = 16, 101, 1.0
SEEDS = (4567, 4568, 4569)
TRAIN_JOBS, TRAIN_SEED = 1000, 42
EVALUATIONS = 400
REFERENCE = "PCS-JCT"  # the figure divides by its mean JCT
FOUND, REAL = "found/", "real/"
RESTART_S = 30.0
_TRAIN = "train"

RUNS = (
    Planned("fifo", "fifo"),
    Planned("srsf", "srsf", TIRESIAS),
    Planned("themis", "themis"),
    Planned("afs", "afs"),
    Planned("max-min", "max-min"),
    *(Planned(each.name, each.policy, "the released configuration") for each in configurations("workload-1")),
)


@dataclass(frozen=True, eq=False)
class Seeded(OverSeeds):
    """A policy on each of the workloads."""

    run: Planned
    outcomes: list[Outcome]

    def unfairness(self) -> Unfairness:
        """Unfairness over the jobs of all seeds."""
        import numpy as np

        values = np.concatenate([each.unfairness for each in self.outcomes])
        percentiles = np.percentile(values, (50, 90, 95, 99, 100)).tolist()
        return Unfairness(float(values.mean()), *percentiles)


def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of (a) and (b)."""
    if data is None:
        raise ValueError("figure 6 needs the data directory")
    pace = Pace(progress, TRAIN_JOBS * (EVALUATIONS + 1) + 2 * JOBS * len(SEEDS) * (len(RUNS) + 3))
    with study(_problems(data), workers, pace) as of_problems:
        front = of_problems.searched(_TRAIN, EVALUATIONS)
        [fifo] = of_problems.outcomes([(_TRAIN, Planned("fifo", "fifo"))])
        points = [
            Planned(FOUND + name, config.policy, f"found here on {TRAIN_JOBS:,} other jobs")
            for name, config in front.picked(OF_FIFO * fifo.jct_mean_s).items()
        ]
        found = _seeded((*RUNS, *points), "", of_problems) | _seeded((*RUNS, *points), REAL, of_problems)
    progress("done", pace.total, pace.total)
    return [
        row for name, each in found.items() for row in _rows(name, each, found[reference(name)].jct_mean_s)
    ]


def reference(name: str) -> str:
    """The run whose JCT is the divisor for another's."""
    return REAL + REFERENCE if name.startswith(REAL) else REFERENCE


def _problems(data: Path) -> dict[str, Problem]:
    """The jobs for the search, and those of each seed, as the study simulates and as on a real cluster."""
    train = workload_1(data, jobs=TRAIN_JOBS, load=LOAD, units=UNITS, seed=TRAIN_SEED, table=TABLE)
    problems = {_TRAIN: problem_of(train, units=UNITS)}
    for seed in SEEDS:
        jobs = workload_1(data, jobs=JOBS, load=LOAD, units=UNITS, seed=seed, table=TABLE)
        problems[f"{seed}"] = problem_of(jobs, units=UNITS)
        problems[f"{REAL}{seed}"] = problem_of(jobs, units=UNITS, fractional=False, restart_s=RESTART_S)
    return problems


def _seeded(runs: Sequence[Planned], where: str, of_problems: Study) -> dict[str, Seeded]:
    """The outcomes of each policy with every seed, by name, prefixed with `where`."""
    outcomes = of_problems.outcomes([(f"{where}{seed}", run) for run in runs for seed in SEEDS])
    by_run = [outcomes[at : at + len(SEEDS)] for at in range(0, len(outcomes), len(SEEDS))]
    return {where + run.name: Seeded(run, of_run) for run, of_run in zip(runs, by_run, strict=True)}


def _rows(name: str, each: Seeded, reference_s: float) -> list[Row]:
    figure = each.run.name.removeprefix(FOUND)
    point, theirs, ours = testbed_front().get(figure), unfairness().get(figure), each.unfairness()
    how = f"whole GPUs, {RESTART_S:g} s lost at each change" if name.startswith(REAL) else "nothing is lost"
    note = f"{each.run.note}; {how}" if each.run.note else how
    jct, error = (None, None) if point is None else (point.jct_over_pcs, point.error_mean)
    return [
        Row(name, "jct_mean_over_pcs_jct", jct, each.jct_mean_s / reference_s, "ratio", note),
        Row(name, "pred_err_mean", error, each.error, "%", note),
        *(
            Row(name, f"unfairness_{field}", getattr(theirs, field, None), getattr(ours, field), "%", note)
            for field in Unfairness._fields
        ),
    ]


EXPERIMENT = Experiment(
    name="pcs-fig6",
    summary="PCS, figure 6: unfairness on Workload-1 (AutoML jobs), and the front",
    needs=(TABLES,),
    run=run,
)
