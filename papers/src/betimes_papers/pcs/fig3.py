"""PCS (OSDI 2024), figure 3: the front of Workload-2, against those released with the study.

A released front is the whole result of one search on the first 2,001 jobs of a trace (all, if there are fewer): 370
evaluations, with an unpublished seed. The search here has the same jobs, bounds, operators, numbers and rule for
classes, and seeds 0, 1 and 2. Fronts are compared by their ends: FIFO, which is in every one, and the fastest point.
Two points of a released front are run again from their variables. The baselines, and the three points of seed 0 that
the study would name, are run on the same jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from betimes_papers.experiment import Pace, Progress, Row, Workers
from betimes_papers.pcs import published
from betimes_papers.pcs.fig7 import BASELINES
from betimes_papers.pcs.runs import (
    CURVES,
    Outcome,
    Planned,
    best_jct_s,
    compared,
    on_philly,
    problem_of,
    trace_file,
)
from betimes_papers.pcs.study import NAMES, OF_BEST, Searched, study

if TYPE_CHECKING:
    from betimes_papers.pcs.study import Study

TRACES = tuple(published.fronts())
QUICK = ("2869ce", "e13805")
SEEDS = (0, 1, 2)

_NAMED = "found here, seed 0; on the jobs that it was found on"


@dataclass(frozen=True, eq=False)
class Found:
    """The fronts of a trace, one a seed, the baselines, and the named points of the first front."""

    fronts: list[Searched]
    baselines: list[Outcome]
    points: list[Outcome]


class Ends(NamedTuple):
    """The two ends of a front, as mean JCT in s and mean error in %, and its number of points."""

    least_jct_s: float
    most_error: float
    most_jct_s: float
    least_error: float
    points: int


def run_traces(traces: tuple[str, ...], data: Path, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of some traces."""
    from betimes.workload import read_trace
    from betimes.workload.speedup import SpeedupTable

    curves = SpeedupTable.read_csv(data / CURVES)
    problems = {
        trace: problem_of(
            read_trace(data / trace_file(trace), format="philly-pcs").head(published.JOBS), curves=curves
        )
        for trace in traces
    }
    runs = published.EVALUATIONS * len(SEEDS) + len(BASELINES) + len(NAMES)
    pace = Pace(progress, sum(len(each.workload) * runs for each in problems.values()))
    with study(problems, workers, pace) as of_traces:
        found = {trace: _found(trace, of_traces) for trace in traces}
        stored = [row for trace in traces for row in _stored(trace, of_traces)]
    progress("done", pace.total, pace.total)
    rows = [
        row
        for trace in traces
        for row in (*_rows(trace, found[trace].fronts, str(workers)), *_policies(trace, found[trace]))
    ]
    return rows + stored


def ends(front: Searched) -> Ends:
    """The ends of a front; points that print alike count once."""
    values = front.values
    return Ends(
        float(values[0, 0]),
        100.0 * float(values[0, 1]),
        float(values[-1, 0]),
        100.0 * float(values[-1, 1]),
        len({(round(jct, 6), round(error, 12)) for jct, error in values.tolist()}),
    )


def _found(trace: str, of_traces: Study) -> Found:
    fronts = [
        of_traces.searched(
            trace, published.EVALUATIONS, seed=seed, published=True, what=f"{trace}, search, seed {seed}"
        )
        for seed in SEEDS
    ]

    def run(planned: Iterable[Planned]) -> list[Outcome]:
        return of_traces.outcomes([(trace, each) for each in planned], f"{trace}, ")

    baselines = run(BASELINES)
    picked = fronts[0].picked(OF_BEST * best_jct_s(baselines))
    points = run(Planned(name, config.policy, _NAMED) for name, config in picked.items())
    return Found(fronts, baselines, points)


def _policies(trace: str, found: Found) -> list[Row]:
    """Every policy, and the named points, on the jobs of the search."""
    outcomes = [*found.baselines, *found.points]
    best, rows = best_jct_s(outcomes), list[Row]()
    for outcome in outcomes:
        note = outcome.run.note
        rows += compared(f"{trace}/{outcome.run.name}", outcome, best, None, (note, note, note))
    return rows


def _rows(trace: str, fronts: list[Searched], workers: str) -> list[Row]:
    import numpy as np

    front = published.fronts()[trace]
    all_ends = np.array([ends(front) for front in fronts])
    low, mean, high = all_ends.min(axis=0), all_ends.mean(axis=0), all_ends.max(axis=0)
    metrics = (
        ("least_jct_mean", front.least_jct_s, "s"),
        ("pred_err_mean_there", front.most_error, "%"),
        ("most_jct_mean", front.most_jct_s, "s"),
        ("least_pred_err_mean", front.least_error, "%"),
        ("points", front.points, "points"),
    )
    rows = [
        Row(
            trace,
            metric,
            theirs,
            float(mean[at]),
            unit,
            f"seeds 0, 1, 2 give {low[at]:.5g} to {high[at]:.5g}",
        )
        for at, (metric, theirs, unit) in enumerate(metrics)
    ]
    seconds = [front.seconds for front in fronts]
    return [
        *rows,
        Row(
            trace, "search", front.seconds, float(np.mean(seconds)), "s",
            f"published: on ten machines; ours: {workers}",
        ),
    ]  # fmt: skip


def _stored(trace: str, of_traces: Study) -> list[Row]:
    """Released points run again from their stored variables."""
    import numpy as np

    from betimes.foresight.tuning import Evaluator, HeuristicSpace

    space = HeuristicSpace(Evaluator(of_traces.problems[trace]).sizes(), published=True)
    points = published.stored(trace)
    configs = [space.config(np.array(point[:4])) for point in points]
    all_values = of_traces.values(trace, [config.policy for config in configs if config is not None])
    rows: list[Row] = []
    for number, (point, values) in enumerate(zip(points, all_values, strict=True)):
        if values is None:
            raise ValueError(f"{trace}: the stored point {point[:4]} is impossible")
        note = "a stored point run again, classes as in the released code"
        case = f"{trace}/stored-{number}"
        rows += [
            Row(case, "jct_mean", point.jct_s, values[0], "s", note),
            Row(case, "pred_err_mean", point.error, 100.0 * values[1], "%", note),
        ]
    return rows


EXPERIMENT = on_philly(
    "pcs-fig3",
    "PCS, figure 3: the Pareto front of Philly traces, against the released fronts (all six: pcs-fig3:all)",
    run_traces,
    QUICK,
    TRACES,
)
