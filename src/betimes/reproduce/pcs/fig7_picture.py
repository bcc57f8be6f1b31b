"""Figure 7 as a picture: published and own values side by side, a column of panels a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.outcome.figure import COLOURS, drawing
from betimes.reproduce.pcs.fig7_published import FIGURE_7, Published
from betimes.reproduce.pcs.runs import Outcome, best_jct_s

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"srsf": "Tiresias\n(srsf)", "max-min": "max-\nmin", "PCS-JCT": "PCS-\nJCT", "PCS-bal": "PCS-\nbal",
           "PCS-pred": "PCS-\npred"}  # fmt: skip
_WIDTH = 0.38
_PUBLISHED, _OURS = COLOURS[5], COLOURS[0]
_FOOT = 0.9  # of the bars of a ratio that is 1 or more
_LEAST = 0.1  # % below which an error is shown as zero


def draw(outcomes: dict[str, list[Outcome]], path: Path) -> None:
    """JCT above, prediction errors below, a column a trace; raises InputError where it cannot be written."""
    with drawing(path, 1.2 + 4.2 * len(outcomes), 6.4) as figure:
        panels: Any = figure.subplots(2, len(outcomes), squeeze=False, sharey="row")
        for column, (trace, of_trace) in enumerate(outcomes.items()):
            upper, lower = panels[:, column]
            published = [FIGURE_7[trace].get(outcome.run.name) for outcome in of_trace]
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


def _jct_panel(axes: Axes, outcomes: list[Outcome], published: list[Published | None]) -> None:
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


def _error_panel(axes: Axes, outcomes: list[Outcome], published: list[Published | None]) -> None:
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
