"""Rows of any experiment as a picture: a panel for each group of cases and metric.

A case is `group/curve/x=value`, and is drawn as a point of a curve, or `group/name` or `name`, and is drawn as a bar.
Points and bars stand in the order of the rows; published ones are hollow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from betimes.outcome.figure import COLOURS, DASHES, drawing
from betimes_papers.experiment import Row

_WIDE, _HIGH = 5.2, 3.4  # inches a panel
_BAR = 0.3  # inches a bar
_COLUMNS = 3
_SPAN = 50.0  # ratio of positive values beyond which the axis is logarithmic


def draw(title: str, rows: Sequence[Row], path: Path) -> None:
    """Write the picture; raises InputError where the file cannot be written."""
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        panels.setdefault((_group(row), row.metric), []).append(row)
    if not panels:
        return
    columns = min(_COLUMNS, len(panels))
    keys = list(panels)
    lines = [keys[at : at + columns] for at in range(0, len(keys), columns)]
    heights = [max(_height(panels[key]) for key in line) for line in lines]
    with drawing(path, _WIDE * columns, 0.6 + sum(heights)) as figure:
        grid: Any = figure.subplots(
            len(lines), columns, squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        figure.suptitle(title)
        for axes in grid.flat[len(keys) :]:
            axes.set_visible(False)
        for axes, ((group, metric), of_panel) in zip(grid.flat, panels.items(), strict=False):
            (_curves if _is_point(of_panel[0]) else _bars)(axes, of_panel)
            name = group.partition(" ")[0]
            axes.set_title(f"{name}: {metric.replace('_', ' ')}" if name else metric.replace("_", " "))
        named = {
            name: handle
            for axes in grid.flat
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if named:
            figure.legend(named.values(), named.keys(), loc="outside lower right", ncols=len(named))


def _is_point(row: Row) -> bool:
    return row.case.count("/") == 2 and "=" in row.case.rpartition("/")[2]


def _group(row: Row) -> str:
    """The group of a row; of a point with the varied parameter, as curves over different ones do not share a panel."""
    group, slash, rest = row.case.partition("/")
    if _is_point(row):
        return f"{group} {rest.rpartition('/')[2].partition('=')[0]}"
    return group if slash else ""


def _height(rows: list[Row]) -> float:
    return _HIGH if _is_point(rows[0]) else 1.2 + _BAR * len(rows)


def _bars(axes: Any, rows: list[Row]) -> None:
    cases = [row.case.partition("/")[2] or row.case for row in rows]
    places = range(len(rows))
    axes.barh(places, [row.ours for row in rows], height=0.7, color=COLOURS[0], label="ours", zorder=3)
    known = [(row.published, at) for at, row in enumerate(rows) if row.published is not None]
    if known:
        axes.plot(
            *zip(*known, strict=True), linestyle="", marker="D", markersize=6, color="black",
            markerfacecolor="none", label="published", zorder=4,
        )  # fmt: skip
    shown = [value for row in rows for value in (row.ours, row.published) if value is not None]
    if min(shown) > 0.0 and max(shown) > _SPAN * min(shown):
        axes.set_xscale("log")
    axes.set_yticks(places, cases)
    axes.invert_yaxis()
    axes.set_xlabel(rows[0].unit)


def _curves(axes: Any, rows: list[Row]) -> None:
    curves: dict[str, list[Row]] = {}
    for row in rows:
        curves.setdefault(row.case.split("/")[1], []).append(row)
    values = list(dict.fromkeys(_value(row) for row in rows))
    for number, (name, of_curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = [values.index(_value(row)) for row in of_curve]
        axes.plot(
            at, [row.ours for row in of_curve], color=colour, linestyle=DASHES[number % len(DASHES)], marker="o",
            markersize=4, label=name,
        )  # fmt: skip
        known = [(x, row.published) for x, row in zip(at, of_curve, strict=True) if row.published is not None]
        if known:
            axes.plot(*zip(*known, strict=True), "o", markersize=9, fillstyle="none", color=colour)
    axes.set_xticks(range(len(values)), values)
    axes.set_xlabel(rows[0].case.rpartition("/")[2].partition("=")[0])
    axes.set_ylabel(rows[0].unit)


def _value(row: Row) -> str:
    return row.case.rpartition("=")[2]
