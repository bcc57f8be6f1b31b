"""Figure 1 as a picture: who ran when, what was promised at each arrival, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.outcome import Result, summarise
from betimes.outcome.figure import COLOURS, GREY, drawing
from betimes.reproduce.pcs.fig1 import Case, Promises

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 0.5  # of a row


def draw(runs: list[tuple[Case, Result, Promises]], path: Path) -> None:
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
