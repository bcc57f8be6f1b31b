"""PCS (OSDI 2024), figure 7: policies on Philly traces, by JCT and prediction error (Workload-2).

64 GPUs, fractional grants, measured speed-up curves, whole traces, as published. The study predicted a random
5,000 jobs of a longer trace, with an unpublished seed. Here every job is predicted, and a note gives the range of 95 %
of such samples of 5,000. After the released configurations of PCS come those found here on the first jobs of the trace
and run on the rest: the released fronts were found on the first 2,001 jobs of the trace that they were then reported
on; here no job is in both parts. 400 evaluations with seed 0 (the released: 370) on the first 1,000 jobs, or half of a
shorter trace; the rest begins on an empty machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from betimes_papers.experiment import Pace, Progress, Row, Workers
from betimes_papers.pcs.published import OnTrace, configurations, figure_7
from betimes_papers.pcs.runs import (
    CURVES,
    TIRESIAS,
    Outcome,
    Planned,
    best_jct_s,
    compared,
    on_philly,
    problem_of,
    trace_file,
)
from betimes_papers.pcs.study import NAMES, OF_BEST, study

if TYPE_CHECKING:
    from betimes.foresight.tuning import Problem
    from betimes.workload import Workload
    from betimes.workload.speedup import SpeedupTable
    from betimes_papers.pcs.study import Study

TRACES = tuple(figure_7())
QUICK = ("2869ce", "0e4a51")
SAMPLE = 5000  # jobs that the study predicted of a longer trace
SEED = 0  # of the samples and the search; the runs draw nothing
TRAIN = 1000  # jobs to search on
EVALUATIONS = 400

_ON_REST = "on the jobs that the points were not found on; published: the whole trace"

_RESAMPLES = 500
_EXACT = 1e-6  # %, below which promises were kept

BASELINES = (
    Planned("fifo", "fifo"),
    Planned("srsf", "srsf", TIRESIAS),
    Planned(
        "themis",
        "themis",
        "errors are of another forecast: the published play-out forgot the pending lease, and the work done",
    ),
    Planned("afs", "afs"),
    Planned("max-min", "max-min", "not in the published figure"),
)
_CONFIGURED = "the released configuration, its weights to three digits; the published bar may be of another"


def run_traces(traces: tuple[str, ...], data: Path, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of some traces."""
    from betimes.workload import read_trace
    from betimes.workload.speedup import SpeedupTable

    curves = SpeedupTable.read_csv(data / CURVES)
    workloads = {trace: read_trace(data / trace_file(trace), format="philly-pcs") for trace in traces}
    pace = Pace(
        progress,
        sum(len(jobs) * len(planned(trace)) + steps(jobs, BASELINES) for trace, jobs in workloads.items()),
    )
    problems = {trace: problem_of(jobs, curves=curves) for trace, jobs in workloads.items()}
    for trace, jobs in workloads.items():
        problems |= stretches(trace, jobs, curves)
    with study(problems, workers, pace) as of_traces:
        whole = of_whole(traces, of_traces)
        found = {trace: judged(trace, BASELINES, figure_7()[trace], of_traces) for trace in traces}
    progress("done", pace.total, pace.total)
    return [row for trace in traces for row in (*rows_of_whole(trace, whole[trace]), *found[trace])]


def planned(trace: str) -> list[Planned]:
    """Every run of a whole trace: the published baselines, max-min, and the released points of PCS."""
    released = configurations(trace)
    return [*BASELINES, *(Planned(point.name, point.policy, _CONFIGURED) for point in released)]


def of_whole(traces: Sequence[str], of_traces: Study) -> dict[str, list[Outcome]]:
    """The outcomes of every planned run of each whole trace."""
    runs = [(trace, run) for trace in traces for run in planned(trace)]
    outcomes = of_traces.outcomes(runs)
    return {
        trace: [each for (of, _), each in zip(runs, outcomes, strict=True) if of == trace] for trace in traces
    }


def rows_of_whole(trace: str, outcomes: list[Outcome]) -> list[Row]:
    """Published and own values of these runs."""
    best = best_jct_s(outcomes)
    rows: list[Row] = []
    for outcome in outcomes:
        notes = (outcome.run.note, _sampling_note(outcome, None), _sampling_note(outcome, 99.0))
        name = outcome.run.name
        rows += compared(f"{trace}/{name}", outcome, best, figure_7()[trace].get(name), notes)
    return rows


def _sampling_note(outcome: Outcome, percent: float | None) -> str:
    """The range of samples like the study's, if the study took one."""
    import numpy as np

    note = outcome.run.note
    if outcome.jobs <= SAMPLE or outcome.error(100.0) < _EXACT:
        return note
    rng = np.random.default_rng(SEED)
    samples = np.stack(
        [rng.choice(outcome.errors, SAMPLE, replace=False, shuffle=False) for _ in range(_RESAMPLES)]
    )
    values = samples.mean(axis=1) if percent is None else np.percentile(samples, percent, axis=1)
    low, high = np.percentile(values, (2.5, 97.5))
    about = f"all jobs; 95 % of samples of {SAMPLE:,} give {low:.3f} to {high:.3f}"
    return f"{note}; {about}" if note else about


def steps(workload: Workload, baselines: tuple[Planned, ...]) -> int:
    """The jobs submitted over all runs, for the progress."""
    first = _first_jobs(workload)
    rest = len(workload) - first
    return first * (EVALUATIONS + len(baselines)) + rest * (len(baselines) + len(NAMES))


def stretches(trace: str, workload: Workload, curves: SpeedupTable) -> dict[str, Problem]:
    """The first jobs and the rest, by their names in `judged`."""
    cut = _first_jobs(workload)
    first, rest = _stretches(trace)
    return {
        first: problem_of(workload[:cut], curves=curves),
        rest: problem_of(workload[cut:], curves=curves),
    }


def judged(
    trace: str, baselines: tuple[Planned, ...], published: dict[str, OnTrace], of_traces: Study
) -> list[Row]:
    """Search on the first jobs, pick the three points, and run them and the baselines on the rest."""
    train, test = _stretches(trace)
    first = of_traces.outcomes([(train, each) for each in baselines], f"{train}, ")
    front = of_traces.searched(train, EVALUATIONS, seed=SEED, what=f"{trace}, search")
    picked = front.picked(OF_BEST * best_jct_s(first))
    points = [
        Planned(name, config.policy, f"found here; {_ON_REST}, other points")
        for name, config in picked.items()
    ]
    rest = of_traces.outcomes([(test, each) for each in (*baselines, *points)], f"{test}, ")
    return _rows_of_rest(trace, rest, published)


def _stretches(trace: str) -> tuple[str, str]:
    return f"{trace}, first jobs", f"{trace}, rest"


def _first_jobs(workload: Workload) -> int:
    return min(TRAIN, len(workload) // 2)


def _rows_of_rest(trace: str, outcomes: list[Outcome], published: dict[str, OnTrace]) -> list[Row]:
    best = best_jct_s(outcomes)
    rows: list[Row] = []
    for outcome in outcomes:
        name = outcome.run.name
        note = outcome.run.note if name in NAMES.values() else _ON_REST
        rows += compared(f"{trace}/rest/{name}", outcome, best, published.get(name), (note, note, note))
    return rows


EXPERIMENT = on_philly(
    "pcs-fig7",
    "PCS, figure 7: JCT and prediction error on Philly traces (all four: pcs-fig7:all)",
    run_traces,
    QUICK,
    TRACES,
)
