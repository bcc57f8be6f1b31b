"""PCS (OSDI 2024), figure 6: how unfair PCS is on Workload-1, and its front.

The study measured on 16 real GPUs; here the jobs are simulated, with the size table that the release made for that
testbed (`themis-scaled-2`): 101 jobs of 1 to 20 trials of one GPU each, linear speed-up, at load 1, which the study
does not name. Three seeds, as there; 4567 is the published generator's own. A front is found on 1,000 other jobs (seed
42) for mean JCT and mean error, and points of it are run on the same three workloads as the released configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from betimes.reproduce.experiment import Experiment, Progress, Row
from betimes.reproduce.pace import Pace
from betimes.reproduce.pcs_fig6_published import CONFIGURATIONS, FRONT, UNFAIRNESS, Unfairness
from betimes.reproduce.pcs_runs import TABLES, TIRESIAS, Outcome, Planned, simulated
from betimes.reproduce.pcs_search import OF_FIFO, problem_of, searched
from betimes.reproduce.pcs_workloads import workload_1

TABLE = "themis-scaled-2"
UNITS, JOBS, LOAD = 16, 101, 1.0
SEEDS = (4567, 4568, 4569)
TRAIN_JOBS, TRAIN_SEED = 1000, 42
EVALUATIONS = 400
REFERENCE = "PCS-JCT"  # by whose mean JCT the figure divides
FOUND = "found/"

_REAL = "published: measured on a real cluster, which takes time to preempt"
RUNS = (
    Planned("fifo", "fifo"),
    Planned("srsf", "srsf", TIRESIAS),
    Planned("themis", "themis"),
    Planned("afs", "afs"),
    Planned("max-min", "max-min"),
    *(Planned(each.name, each.policy, "the released configuration") for each in CONFIGURATIONS),
)


@dataclass(frozen=True, eq=False)
class Seeded:
    """A policy on each of the workloads."""

    run: Planned
    outcomes: list[Outcome]

    @property
    def jct_mean_s(self) -> float:
        """Mean over the seeds."""
        return sum(each.jct_mean_s for each in self.outcomes) / len(self.outcomes)

    @property
    def error(self) -> float:
        """Mean absolute prediction error, %, mean over the seeds."""
        return sum(each.error() for each in self.outcomes) / len(self.outcomes)

    def unfairness(self) -> Unfairness:
        """Over the jobs of all seeds."""
        import numpy as np

        values = np.concatenate([each.unfairness for each in self.outcomes])
        percentiles = np.percentile(values, (50, 90, 95, 99, 100)).tolist()
        return Unfairness(float(values.mean()), *percentiles)


def run(data: Path | None, out: Path | None, progress: Progress) -> list[Row]:
    """The rows of (a) and (b), and with `out` a picture."""
    if data is None:
        raise ValueError("figure 6 needs the data directory")
    train = workload_1(data, jobs=TRAIN_JOBS, load=LOAD, units=UNITS, seed=TRAIN_SEED, table=TABLE)
    pace = Pace(progress, TRAIN_JOBS * (EVALUATIONS + 1) + JOBS * len(SEEDS) * (len(RUNS) + 3))
    told = pace.run("search", TRAIN_JOBS * EVALUATIONS)
    front = searched(
        problem_of(train, units=UNITS), EVALUATIONS, progress=lambda done: told(TRAIN_JOBS * done)
    )
    fifo = simulated(Planned("fifo", "fifo"), train, units=UNITS, progress=pace.run("FIFO", TRAIN_JOBS))
    points = [
        Planned(FOUND + name, config.policy, f"found here on {TRAIN_JOBS:,} other jobs")
        for name, config in front.picked(OF_FIFO * fifo.jct_mean_s).items()
    ]
    workloads = [
        workload_1(data, jobs=JOBS, load=LOAD, units=UNITS, seed=seed, table=TABLE) for seed in SEEDS
    ]
    found = {
        each.name: Seeded(
            each,
            [simulated(each, jobs, units=UNITS, progress=pace.run(each.name, JOBS)) for jobs in workloads],
        )
        for each in (*RUNS, *points)
    }
    progress("done", pace.total, pace.total)
    if out is not None:
        from betimes.reproduce.pcs_fig6_picture import draw

        draw(found, out / "pcs-fig6.svg")
    return [row for each in found.values() for row in _rows(each, found[REFERENCE].jct_mean_s)]


def _rows(each: Seeded, reference_s: float) -> list[Row]:
    name = each.run.name.removeprefix(FOUND)
    point = FRONT.get(name)
    notes = [each.run.note, _REAL if point is not None else ""]
    note = "; ".join(filter(None, notes))
    rows = [
        Row(
            each.run.name, "jct_mean_over_pcs_jct", point and point.jct_over_pcs, each.jct_mean_s / reference_s,
            "ratio", note,
        ),
        Row(each.run.name, "pred_err_mean", point and point.error_mean, each.error, "%", note),
    ]  # fmt: skip
    theirs, ours = UNFAIRNESS.get(name), each.unfairness()
    return rows + [
        Row(
            each.run.name,
            f"unfairness_{field}",
            getattr(theirs, field, None),
            getattr(ours, field),
            "%",
            note,
        )
        for field in Unfairness._fields
    ]


EXPERIMENT = Experiment(
    name="pcs-fig6",
    summary="PCS, figure 6: unfairness on Workload-1 (AutoML jobs), and the front",
    needs=(TABLES,),
    run=run,
)
