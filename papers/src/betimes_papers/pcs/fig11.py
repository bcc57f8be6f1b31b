"""PCS (OSDI 2024), figure 11: neither its size nor the contention it sees predicts when a job will be done.

Under Tiresias: prediction error against size; under max-min: the number of active jobs, averaged over each job's
events. The study reads both off the picture: errors of up to 200 % for small jobs and above 600 % for long ones, and a
tail of contention at four times the mean. Its data are not in the release. The caption names Workload-3, which is run
as in figure 8; Workload-1 at load 0.8 comes nearer. 3,000 jobs, 64 GPUs, five seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Experiment, Pace, Progress, Row, Workers
from betimes_papers.pcs.fig8 import JOBS, SEEDS, workload
from betimes_papers.pcs.runs import TABLES, TIRESIAS, UNITS, Outcome, Planned, problem_of, workload_1
from betimes_papers.pcs.study import study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LOAD_1 = 0.8  # of Workload-1
_RUNS = (Planned("srsf", "srsf", TIRESIAS), Planned("max-min", "max-min"))

# Read off figure 11 in the paper's text: "up to", "above" and "times less".
SMALL_ERROR_MAX, LONG_ERROR_MAX, CONTENTION_TAIL_OVER_MEAN = 200.0, 600.0, 4.0


@dataclass(frozen=True, eq=False)
class Seen:
    """One workload: sizes and errors (%) under Tiresias, and contention (jobs) under max-min; one value a job."""

    sizes: NDArray[np.float64]
    errors: NDArray[np.float64]
    contention: NDArray[np.float64]


def run(data: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of (a) and (b) on both workloads."""
    if data is None:
        raise ValueError("figure 11 needs the data directory")
    pace = Pace(progress, 4 * JOBS * len(SEEDS))
    workloads = {
        "Workload-3": [workload(seed) for seed in SEEDS],
        "Workload-1": [workload_1(data, jobs=JOBS, load=LOAD_1, units=UNITS, seed=seed) for seed in SEEDS],
    }
    names = [(name, seed) for name in workloads for seed in SEEDS]
    problems = {
        f"{name}, {seed}": problem_of(jobs)
        for (name, seed), jobs in zip(names, (each for of in workloads.values() for each in of), strict=True)
    }
    with study(problems, workers, pace) as of_both:
        outcomes = of_both.outcomes([(problem, run) for problem in problems for run in _RUNS])
    found: dict[str, list[Seen]] = {name: [] for name in workloads}
    for (name, _), tiresias, max_min in zip(names, outcomes[::2], outcomes[1::2], strict=True):
        found[name].append(_seen(tiresias, max_min))
    progress("done", pace.total, pace.total)
    return [row for name, of_workload in found.items() for row in rows(name, of_workload)]


def rows(workload: str, found: list[Seen]) -> list[Row]:
    """The paper's statements about the figure, and rank correlations, each with its range over the seeds."""
    import numpy as np

    def row(
        case: str, metric: str, published: float | None, values: list[float], unit: str, note: str
    ) -> Row:
        spread = f"{note}; mean of seeds, which give {min(values):.4g} to {max(values):.4g}"
        return Row(f"{workload}/{case}", metric, published, float(np.mean(values)), unit, spread)

    halves = [s.sizes > np.median(s.sizes) for s in found]
    small = [float(s.errors[~half].max()) for s, half in zip(found, halves, strict=True)]
    long = [float(s.errors[half].max()) for s, half in zip(found, halves, strict=True)]
    ranked = [_ranked(s.sizes, s.errors) for s in found]
    over_mean = [s.contention / s.contention.mean() for s in found]
    largest = [float(each.max()) for each in over_mean]
    p99 = [float(np.percentile(each, 99.0)) for each in over_mean]
    seen = "jobs there, averaged over the events that a job sees"
    return [
        row("Tiresias/small", "pred_err_max", SMALL_ERROR_MAX, small, "%", "the smaller half of the jobs"),
        row("Tiresias/long", "pred_err_max", LONG_ERROR_MAX, long, "%", "the larger half; published: above"),
        row("Tiresias", "rank_correlation_size_error", None, ranked, "ratio", "Spearman's; published: weak"),
        row("max-min", "contention_max_over_mean", CONTENTION_TAIL_OVER_MEAN, largest, "ratio", seen),
        row("max-min", "contention_p99_over_mean", CONTENTION_TAIL_OVER_MEAN, p99, "ratio", seen),
    ]


def _ranked(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    import numpy as np
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def _seen(tiresias: Outcome, max_min: Outcome) -> Seen:
    return Seen(tiresias.result.jobs.work_s, tiresias.errors, max_min.result.jobs.contention_mean)


EXPERIMENT = Experiment(
    name="pcs-fig11",
    summary="PCS, figure 11: size and contention say little about when a job will be done",
    needs=(TABLES,),
    run=run,
)
