"""PCS (OSDI 2024), figure 7: policies on Philly traces, by JCT and by how well promises held (Workload-2).

64 GPUs, fractional grants, measured speed-up curves, whole traces, as published. The study predicted a random
5,000 jobs of a longer trace, with a seed that nobody knows. Here every job is predicted, and a note says between
which values 95 % of such samples of 5,000 fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from betimes.reproduce.experiment import Experiment, Progress, Row
from betimes.reproduce.pcs_fig7_published import CONFIGURATIONS, FIGURE_7, Published

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from betimes.workload import Workload
    from betimes.workload.speedup import SpeedupTable

TRACES = tuple(FIGURE_7)
QUICK = ("2869ce", "0e4a51")
UNITS = 64
SAMPLE = 5000  # jobs that the study predicted of a longer trace
SEED = 0  # of the samples; the runs themselves draw nothing

_CURVES = "scaling/afs_pcs_speedup.csv.gz"
_BASELINES = ("fifo", "srsf", "themis", "afs", "max-min")
_RESAMPLES = 500
_EXACT = 1e-6  # %, below which promises were kept

_NOTES = {
    "srsf": "Tiresias in the paper",
    "themis": "errors are of another forecast: the published play-out forgot the pending lease, and the work done",
    "max-min": "not in the published figure",
}
_CONFIGURED = "the released configuration, its weights to three digits; the published bar may be of another"


@dataclass(frozen=True)
class Planned:
    """A run: the policy's name in the figure, its specification, and what to know of its published values."""

    name: str
    policy: str
    note: str


@dataclass(frozen=True)
class Outcome:
    """What came of a run: mean JCT of all jobs in s, absolute errors in % of the jobs that were predicted."""

    run: Planned
    jobs: int
    jct_mean_s: float
    errors: NDArray[np.float64]

    def error(self, percent: float | None = None) -> float:
        """The mean, or a percentile, of the absolute prediction error, %."""
        import numpy as np

        return float(np.mean(self.errors) if percent is None else np.percentile(self.errors, percent))


def experiment(traces: tuple[str, ...], name: str = "pcs-fig7") -> Experiment:
    """Figure 7 on some of its traces."""

    def run(data: Path | None, out: Path | None, progress: Progress) -> list[Row]:
        if data is None:
            raise ValueError("figure 7 needs the data directory")
        return run_traces(traces, data, out, progress)

    return Experiment(
        name=name,
        summary="PCS, figure 7: JCT and prediction error on Philly traces (all four: pcs-fig7:all)",
        needs=(_CURVES, *map(_trace_file, traces)),
        run=run,
        parts=TRACES,
        narrowed=lambda chosen: experiment(chosen, f"{name}:{'+'.join(chosen)}"),
    )


def run_traces(traces: tuple[str, ...], data: Path, out: Path | None, progress: Progress) -> list[Row]:
    """The rows of some traces, and with `out` a picture of published and own values."""
    from betimes.workload import read_trace
    from betimes.workload.speedup import SpeedupTable

    curves = SpeedupTable.read_csv(data / _CURVES)
    workloads = {trace: read_trace(data / _trace_file(trace), format="philly-pcs") for trace in traces}
    total = sum(len(workload) * len(planned(trace)) for trace, workload in workloads.items())
    outcomes: dict[str, list[Outcome]] = {trace: [] for trace in traces}
    before = 0
    for trace, workload in workloads.items():
        for run in planned(trace):
            doing = f"{trace}, {run.name}"
            progress(doing, before, total)
            outcomes[trace].append(
                _simulated(run, workload, curves, _shifted(progress, doing, before, total))
            )
            before += len(workload)
    progress("done", total, total)
    if out is not None:
        from betimes.reproduce.pcs_fig7_picture import draw

        draw(outcomes, out / "pcs-fig7.svg")
    return [row for trace in traces for row in _rows(trace, outcomes[trace])]


def planned(trace: str) -> list[Planned]:
    """Every run of a trace: what PCS was compared with, max-min, and the released points of PCS."""
    baselines = [Planned(name, name, _NOTES.get(name, "")) for name in _BASELINES]
    return baselines + [Planned(point.name, point.policy, _CONFIGURED) for point in CONFIGURATIONS[trace]]


def best_jct_s(outcomes: list[Outcome]) -> float:
    """The smallest mean JCT of a trace, by which the figure divides."""
    return min(outcome.jct_mean_s for outcome in outcomes)


def _simulated(
    run: Planned, workload: Workload, curves: SpeedupTable, progress: Callable[[int], object]
) -> Outcome:
    import numpy as np

    from betimes.foresight.simulate import simulate
    from betimes.outcome import job_metric

    result = simulate(
        workload,
        run.policy,
        units=UNITS,
        fractional=True,
        curves=curves,
        predict=True,
        progress=progress,
    )
    errors = np.abs(job_metric(result, "prediction_error_frac"))
    return Outcome(
        run,
        len(workload),
        float(np.mean(job_metric(result, "jct_s"))),
        100.0 * errors[~np.isnan(errors)],
    )


def _rows(trace: str, outcomes: list[Outcome]) -> list[Row]:
    best = best_jct_s(outcomes)
    rows: list[Row] = []
    for outcome in outcomes:
        case, note = f"{trace}/{outcome.run.name}", outcome.run.note
        published: Published | None = FIGURE_7[trace].get(outcome.run.name)
        jct, mean, p99 = published or (None, None, None)
        rows += [
            Row(case, "jct_mean_over_best", jct, outcome.jct_mean_s / best, "ratio", note),
            Row(case, "pred_err_mean", mean, outcome.error(), "%", _sampling_note(outcome, None)),
            Row(case, "pred_err_p99", p99, outcome.error(99.0), "%", _sampling_note(outcome, 99.0)),
        ]
    return rows


def _sampling_note(outcome: Outcome, percent: float | None) -> str:
    """What samples like the study's would have shown, where it took one."""
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


def _shifted(progress: Progress, doing: str, before: int, total: int) -> Callable[[int], object]:
    return lambda done: progress(doing, before + done, total)


def _trace_file(trace: str) -> str:
    return f"gpu/philly_pcs/trace_{trace}.csv.gz"


EXPERIMENT = experiment(QUICK)
