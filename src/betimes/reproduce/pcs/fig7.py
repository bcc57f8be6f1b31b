"""PCS (OSDI 2024), figure 7: policies on Philly traces, by JCT and by how well promises held (Workload-2).

64 GPUs, fractional grants, measured speed-up curves, whole traces, as published. The study predicted a random
5,000 jobs of a longer trace, with a seed that is not published. Here every job is predicted, and a note says between
which values 95 % of such samples of 5,000 fall. After the released configurations of PCS come those found here, on
the first jobs of the trace, and run on the rest of it (`pcs_fig7_found`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.outcome.figure import COLOURS, drawing
from betimes.reproduce.experiment import Experiment, Row
from betimes.reproduce.pace import Pace, Progress
from betimes.reproduce.pcs.fig7_found import draw as draw_found
from betimes.reproduce.pcs.fig7_found import judged, steps, stretches
from betimes.reproduce.pcs.published import OnTrace, configurations, figure_7
from betimes.reproduce.pcs.runs import (
    CURVES,
    TIRESIAS,
    Outcome,
    Planned,
    best_jct_s,
    compared,
    problem_of,
    trace_file,
)
from betimes.reproduce.pcs.study import study
from betimes.reproduce.workers import Workers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from betimes.reproduce.pcs.study import Study

TRACES = tuple(figure_7())
QUICK = ("2869ce", "0e4a51")
SAMPLE = 5000  # jobs that the study predicted of a longer trace
SEED = 0  # of the samples; the runs themselves draw nothing

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


def experiment(traces: tuple[str, ...], name: str = "pcs-fig7") -> Experiment:
    """Figure 7 on some of its traces."""

    def run(data: Path | None, out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
        if data is None:
            raise ValueError("figure 7 needs the data directory")
        return run_traces(traces, data, out, progress, workers)

    return Experiment(
        name=name,
        summary="PCS, figure 7: JCT and prediction error on Philly traces (all four: pcs-fig7:all)",
        needs=(CURVES, *map(trace_file, traces)),
        run=run,
        parts=TRACES,
        narrowed=lambda chosen: experiment(chosen, f"{name}:{'+'.join(chosen)}"),
    )


def run_traces(
    traces: tuple[str, ...], data: Path, out: Path | None, progress: Progress, workers: Workers
) -> list[Row]:
    """The rows of some traces, and with `out` pictures of published and own values and of what was found."""
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
    if out is not None:
        _draw(whole, out / "pcs-fig7.svg")
        draw_found(found, out / "pcs-fig7-found.svg")
    return [row for trace in traces for row in (*rows_of_whole(trace, whole[trace]), *found[trace].rows)]


def planned(trace: str) -> list[Planned]:
    """Every run of a whole trace: what PCS was compared with, max-min, and the released points of PCS."""
    released = configurations(trace)
    return [*BASELINES, *(Planned(point.name, point.policy, _CONFIGURED) for point in released)]


def of_whole(traces: Sequence[str], of_traces: Study) -> dict[str, list[Outcome]]:
    """What comes of every planned run of each whole trace."""
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


_LABELS = {"srsf": "Tiresias\n(srsf)", "max-min": "max-\nmin", "PCS-JCT": "PCS-\nJCT", "PCS-bal": "PCS-\nbal",
           "PCS-pred": "PCS-\npred"}  # fmt: skip
_WIDTH = 0.38
_PUBLISHED, _OURS = COLOURS[5], COLOURS[0]
_FOOT = 0.9  # of the bars of a ratio that is 1 or more
_LEAST = 0.1  # % below which an error is shown as zero


def _draw(outcomes: dict[str, list[Outcome]], path: Path) -> None:
    """JCT above, prediction errors below, a column a trace; raises InputError where it cannot be written."""
    with drawing(path, 1.2 + 4.2 * len(outcomes), 6.4) as figure:
        panels: Any = figure.subplots(2, len(outcomes), squeeze=False, sharey="row")
        for column, (trace, of_trace) in enumerate(outcomes.items()):
            upper, lower = panels[:, column]
            published = [figure_7()[trace].get(outcome.run.name) for outcome in of_trace]
            _jct_panel(upper, of_trace, published)
            _error_panel(lower, of_trace, published)
            names = [_LABELS.get(outcome.run.name, outcome.run.name) for outcome in of_trace]
            for axes in (upper, lower):
                axes.set_xticks(range(len(names)), names, fontsize=8)
                axes.grid(axis="x", visible=False)
            upper.set_title(f"{trace}, {of_trace[0].jobs:,} jobs")
        top = max(
            bar.get_height() for axes in panels[0] for bar in axes.patches if np.isfinite(bar.get_height())
        )
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick < 2 * top]
        panels[0, 0].set_yticks(ticks, [str(tick) for tick in ticks])
        panels[0, 0].minorticks_off()
        panels[0, 0].set_ylim(_FOOT, 1.4 * top)
        panels[0, 0].set_ylabel("Mean JCT over the smallest")
        panels[1, 0].set_ylabel("Absolute prediction error (%)")
        handles, names = panels[1, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower right", ncols=len(names))


def _jct_panel(axes: Axes, outcomes: list[Outcome], published: list[OnTrace | None]) -> None:
    best = best_jct_s(outcomes)
    theirs = [p.jct_over_best if p else np.nan for p in published]
    ours = [outcome.jct_mean_s / best for outcome in outcomes]
    axes.set_yscale("log")
    _bars(axes, theirs, ours, _FOOT)
    for at, value in enumerate(ours):
        axes.annotate(
            f"{value:.3g}", (at + _WIDTH / 2, max(value, 1.0)), xytext=(0, 2), textcoords="offset points",
            ha="center", fontsize=7,
        )  # fmt: skip


def _error_panel(axes: Axes, outcomes: list[Outcome], published: list[OnTrace | None]) -> None:
    axes.set_yscale("symlog", linthresh=_LEAST, linscale=0.3)
    _bars(axes, [p.error_mean if p else np.nan for p in published], [o.error() for o in outcomes], 0.0)
    for offset, tails in (
        (-_WIDTH / 2, [p.error_p99 if p else np.nan for p in published]),
        (_WIDTH / 2, [outcome.error(99.0) for outcome in outcomes]),
    ):
        axes.plot(
            np.arange(len(tails)) + offset, tails, linestyle="", marker="_", markersize=9, markeredgewidth=2,
            color="black", label="99th percentile" if offset > 0 else None,
        )  # fmt: skip
    axes.set_ylim(0, None)
    axes.set_yticks([0, 0.1, 1, 10, 100, 1000], ["0", "0.1", "1", "10", "100", "1000"])


def _bars(axes: Axes, theirs: list[float], ours: list[float], foot: float) -> None:
    """Pairs of bars that stand on `foot`: a logarithmic axis has no zero for them to stand on."""
    at = np.arange(len(ours))
    for offset, values, colour, name in (
        (-_WIDTH / 2, theirs, _PUBLISHED, "published"),
        (_WIDTH / 2, ours, _OURS, "ours"),
    ):
        heights = np.asarray(values) - foot
        axes.bar(at + offset, heights, _WIDTH, bottom=foot, color=colour, label=name, zorder=3)


EXPERIMENT = experiment(QUICK)
