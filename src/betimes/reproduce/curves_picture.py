"""Rows as a picture, whatever they are of: a panel for each metric and group of cases, a line for each of its curves.

A case is `group/curve/x=value`. Points stand in the order of the rows; what was published is a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from betimes.outcome.figure import COLOURS, DASHES, drawing
from betimes.reproduce.experiment import Row


def draw(title: str, rows: Sequence[Row], path: Path) -> None:
    """Panels side by side for the metrics, one below the other for the groups and for what is varied.

    Raises InputError where the file cannot be written.
    """
    panels = dict[tuple[str, str], dict[str, dict[str, list[Row]]]]()
    for row in rows:
        group, curve, point = row.case.split("/")
        of_metric = panels.setdefault((group, point.partition("=")[0]), {}).setdefault(row.metric, {})
        of_metric.setdefault(curve, []).append(row)
    if not panels:
        return
    wide = max(len(metrics) for metrics in panels.values())
    with drawing(path, 5.2 * wide, 0.6 + 3.4 * len(panels)) as figure:
        grid: Any = figure.subplots(len(panels), wide, squeeze=False)
        figure.suptitle(title)
        for axes_of, ((group, varied), metrics) in zip(grid, panels.items(), strict=True):
            for axes, (metric, curves) in zip(axes_of, metrics.items(), strict=False):
                _panel(axes, curves)
                axes.set_title(f"{group}: {metric.replace('_', ' ')}")
                axes.set_xlabel(varied)
                axes.set_ylabel(next(iter(curves.values()))[0].unit)
            for axes in axes_of[len(metrics) :]:
                axes.set_visible(False)
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower right", ncols=len(names))


def _panel(axes: Any, curves: dict[str, list[Row]]) -> None:
    points = list(dict.fromkeys(_value(row) for rows in curves.values() for row in rows))
    for number, (name, rows) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = [points.index(_value(row)) for row in rows]
        axes.plot(
            at, [row.ours for row in rows], color=colour, linestyle=DASHES[number % len(DASHES)], marker="o",
            markersize=4, label=name,
        )  # fmt: skip
        known = [
            (place, row.published) for place, row in zip(at, rows, strict=True) if row.published is not None
        ]
        axes.plot(
            [place for place, _ in known],
            [value for _, value in known],
            "o",
            markersize=9,
            fillstyle="none",
            color=colour,
        )
    axes.set_xticks(range(len(points)), points)


def _value(row: Row) -> str:
    return row.case.rpartition("=")[2]
