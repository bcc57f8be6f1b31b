"""Fronts as figure 3 draws them: mean error against JCT, a panel a trace, a colour a seed, the baselines beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import COLOURS, drawing
from betimes.reproduce.pcs.fig3 import SEEDS, Found
from betimes.reproduce.pcs.fig3_published import FRONTS
from betimes.reproduce.pcs.front_picture import labelled_axes, mark
from betimes.reproduce.pcs.runs import best_jct_s


def draw(found: dict[str, Found], path: Path) -> None:
    """A panel a trace; raises InputError where the file cannot be written."""
    with drawing(path, 1.0 + 4.2 * len(found), 4.2) as figure:
        panels: Any = figure.subplots(1, len(found), squeeze=False)
        for axes, (trace, each) in zip(panels[0], found.items(), strict=True):
            best = best_jct_s(each.baselines)
            for seed, front, colour in zip(
                SEEDS, each.fronts, (COLOURS[0], COLOURS[2], COLOURS[6]), strict=True
            ):
                axes.plot(
                    front.values[:, 0] / best, 100.0 * front.values[:, 1],
                    ".-", color=colour, markersize=4, linewidth=0.6, label=f"found, seed {seed}",
                )  # fmt: skip
            theirs = FRONTS[trace]
            axes.plot(
                [theirs.least_jct_s / best, theirs.most_jct_s / best], [theirs.most_error, theirs.least_error],
                "x", color="black", markersize=8, label="ends of the released front",
            )  # fmt: skip
            for outcome in (*each.baselines, *each.points):
                mark(axes, outcome.run.name, outcome.jct_mean_s / best, outcome.error())
            axes.set_title(f"{trace}, {each.baselines[0].jobs:,} jobs")
            labelled_axes(axes)
        handles, names = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2 * len(found), fontsize=8)
