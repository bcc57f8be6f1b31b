"""PCS (OSDI 2024), figure 1: four jobs on one unit, and why a promise breaks.

Promises after a job's own arrival are those of a run that ends with that later arrival: without further
submissions the future is the play-out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.outcome import Result, summarise
from betimes.outcome.figure import COLOURS, GREY, drawing
from betimes.reproduce.experiment import Experiment, Row
from betimes.reproduce.pace import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from betimes.outcome import Result
    from betimes.workload import Workload

UNIT = "time units"

Promises = dict[str, dict[str, float]]
"""By job, then by the job at whose arrival the promise was made: the promised finish."""


@dataclass(frozen=True)
class Case:
    """A policy as the example runs it, and what figure 1 prints of it: its summary (b) and promises (a)."""

    name: str
    policy: str
    title: str
    jct_mean: float | None = None
    error_percent: float | None = None
    unfairness_percent: float | None = None
    promises: tuple[tuple[str, tuple[float, ...]], ...] = ()


CASES = (
    Case(
        "srsf", "srsf", "Tiresias", 11.25, 46.0, 10.0,
        (("J1", (10.0, 18.0, 19.0, 27.0)),),
    ),
    Case(
        "themis", "themis:lease=1", "Themis", 13.5, 24.0, 0.0,
        (("J1", (10.0, 18.0, 19.0, 19.0)), ("J2", (15.0, 16.0, 16.0))),
    ),
    Case(
        "fifo", "fifo", "FIFO", 15.75, 0.0, 500.0,
        (("J1", (10.0, 10.0, 10.0)), ("J2", (18.0, 18.0, 18.0)), ("J3", (19.0, 19.0)), ("J4", (27.0,))),
    ),
    Case("afs", "afs", "AFS"),
    Case("max-min", "max-min", "max-min"),
    Case("wfq", "wfq:thresholds=5,weights=1/2+1/2,zeta_min=0", "WFQ, half to jobs of size 5 or less"),
)  # fmt: skip


def four_jobs() -> Workload:
    """The example: J1 and J2 at 0, J3 at 1, J4 at 10; 10, 8, 1 and 8 units of work, one unit of machine."""
    from betimes.workload import Workload

    return Workload.from_columns(
        job_id=["J1", "J2", "J3", "J4"],
        submit_s=[0.0, 0.0, 1.0, 10.0],
        work_s=[10.0, 8.0, 1.0, 8.0],
        name="the four jobs of figure 1",
        machine_units=1,
    )


def run(_: Path | None, out: Path | None, progress: Progress) -> list[Row]:
    """The rows of all policies, and with `out` a picture of the three that the paper draws."""
    from betimes.foresight.simulate import simulate
    from betimes.outcome import summarise

    jobs = four_jobs()
    rows: list[Row] = []
    drawn: list[tuple[Case, Result, Promises]] = []
    for at, case in enumerate(CASES):
        progress(case.title, at, len(CASES))
        result = simulate(jobs, case.policy, units=1, fractional=True, predict=True, timeline=True, fair=True)
        promised = promises(jobs, case.policy, result)
        rows += _summary_rows(case, summarise(result), result) + _promise_rows(case, promised)
        if case.jct_mean is not None:
            drawn.append((case, result, promised))
    progress("done", len(CASES), len(CASES))
    if out is not None:
        _draw(drawn, out / "pcs-fig1.svg")
    return rows


def promises(jobs: Workload, policy: str, result: Result) -> Promises:
    """What every job is promised at its own arrival and at each later one that it is still there for."""
    from betimes.foresight.simulate import simulate

    names = [str(name) for name in jobs.job_id]
    found: Promises = {name: {} for name in names}
    for last, arriving in enumerate(names):
        until_then = simulate(jobs.head(last + 1), policy, units=1, fractional=True)
        for row in range(last + 1):
            if row == last or result.jobs.finish_s[row] > jobs.submit_s[last]:
                found[names[row]][arriving] = float(until_then.jobs.finish_s[row])
    return found


def _summary_rows(case: Case, summary: dict[str, float], result: Result) -> list[Row]:
    import numpy as np

    from betimes.outcome import job_metric

    jct = Row(case.name, "jct_mean", case.jct_mean, summary["jct_mean_s"], UNIT)
    error = Row(
        case.name,
        "pred_err_mean",
        case.error_percent,
        100.0 * summary["pred_err_mean_frac"],
        "%",
        "" if case.error_percent is None else "printed without decimals",
    )
    against_run = Row(
        case.name,
        "unfairness_fair_run_max",
        case.unfairness_percent,
        100.0 * summary["unfairness_fair_run_max_frac"],
        "%",
        "fair finish time: that of a max-min run, as in the figure",
    )
    averaged = Row(
        case.name,
        "unfairness_max",
        None,
        100.0 * float(np.max(job_metric(result, "unfairness_frac"))),
        "%",
        "fair finish time: from the contention averaged over events, as in the released code",
    )
    return [jct, error, against_run, averaged]


def _promise_rows(case: Case, promised: Promises) -> list[Row]:
    return [
        Row(f"{case.name}/{job}", f"promised_finish_at_{arriving}", published, ours, UNIT)
        for job, expected in case.promises
        for (arriving, ours), published in zip(promised[job].items(), expected, strict=True)
    ]


_BAR = 0.5  # of a row


def _draw(runs: list[tuple[Case, Result, Promises]], path: Path) -> None:
    """One panel a policy; raises InputError where the file cannot be written."""
    with drawing(path, 8.4, 1.0 + 2.2 * len(runs)) as figure:
        panels: Any = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (case, result, promised) in zip(panels, runs, strict=True):
            _panel(axes, case, result, promised)
        panels[-1].set_xlabel("Time")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower right", ncols=len(names))


def _panel(axes: Axes, case: Case, result: Result, promised: Promises) -> None:
    jobs, segments, summary = result.jobs, result.segments, summarise(result)
    if segments is None:
        raise ValueError("figure 1 is drawn from allocation segments")
    names = [str(name) for name in jobs.job_id]
    for row, name in enumerate(names):
        axes.hlines(row, jobs.submit_s[row], jobs.finish_s[row], color=GREY, linewidth=0.8, zorder=2)
        mine = segments.row == row
        spans = [
            (start, end - start)
            for start, end in zip(segments.start_s[mine], segments.end_s[mine], strict=True)
        ]
        axes.broken_barh(spans, (row - _BAR / 2, _BAR), facecolor=COLOURS[row], edgecolor="white", zorder=3)
        first, *later = promised[name].values()
        axes.plot(
            later,
            [row] * len(later),
            linestyle="",
            marker="o",
            markersize=4,
            color="white",
            markeredgecolor=GREY,
            zorder=4,
            label="expected at a later arrival" if row == 0 else None,
        )
        axes.plot(
            [first],
            [row],
            linestyle="",
            marker="D",
            markersize=6,
            color="white",
            markeredgecolor="black",
            zorder=5,
            label="finish promised at arrival" if row == 0 else None,
        )
        axes.annotate(
            f"{jobs.finish_s[row]:g}",
            (jobs.finish_s[row], row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.plot(
        jobs.submit_s,
        range(len(names)),
        linestyle="",
        marker="|",
        color="black",
        markersize=12,
        markeredgewidth=1.6,
        zorder=4,
        label="arrival",
    )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.4, 29)
    axes.grid(axis="y", visible=False)
    axes.set_title(
        f"{case.title}: mean JCT {summary['jct_mean_s']:g}, "
        f"mean prediction error {100 * summary['pred_err_mean_frac']:.0f} %, "
        f"peak unfairness {100 * summary['unfairness_fair_run_max_frac']:.0f} %"
    )


EXPERIMENT = Experiment(
    name="pcs-fig1",
    summary="PCS, figure 1: four jobs on one unit, their promised and their true finishes",
    needs=(),
    run=run,
    alone="its runs of four jobs take less time than a process takes to start",
)
