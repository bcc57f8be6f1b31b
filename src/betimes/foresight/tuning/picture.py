"""A front as a still picture: front.svg, front.png."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from betimes.foresight.tuning.axes import Axis
from betimes.foresight.tuning.front import Front
from betimes.foresight.tuning.shown import Mark, shown
from betimes.outcome.figure import COLOURS, GREY, drawing

FILES = ("front.svg", "front.png")

_FRONT, _BASELINE = COLOURS[0], COLOURS[1]


def draw(front: Front, path: str | Path) -> None:
    """The first two objectives against each other (one: along a line); raises InputError where it cannot be written.

    Further objectives are left to front.html and the table.
    """
    found = shown(front)
    with drawing(path, 7.0, 4.8) as figure:
        axes: Any = figure.add_subplot()  # matplotlib's types say little

        def put(group: Sequence[Mark], colour: str, marker: str, size: float, label: str) -> None:
            if group:
                at = [_place(mark, found.axes) for mark in group]
                axes.scatter(
                    *zip(*at, strict=True),
                    s=size,
                    c=colour,
                    marker=marker,
                    label=label,
                    linewidths=0,
                    zorder=3,
                )

        put(found.of("train"), "#BBBBBB", ".", 25, "the same, training part")
        tested = "testing part" if front.test is not None else "training part"
        put([*found.of("front"), *found.of("named")], _FRONT, "o", 22, f"wfq, {tested}")
        put(found.of("baseline"), _BASELINE, "s", 26, "other policies")
        for mark in [*found.of("named"), *found.of("baseline")]:
            label = mark.label.partition(", ")[2] if mark.group == "named" else mark.label
            colour = _FRONT if mark.group == "named" else _BASELINE
            axes.annotate(
                label,
                _place(mark, found.axes),
                xytext=(5, 4) if mark.group == "named" else (5, -9),
                textcoords="offset points",
                fontsize=8,
                color=colour,
                zorder=4,
            )
        _scale(axes, "x", found.axes[0], found.values(0))
        if len(found.axes) > 1:
            _scale(axes, "y", found.axes[1], found.values(1))
        else:
            axes.set_yticks([])
        axes.set_title(
            f"{front.workload}, {front.pool_units} units, seed {front.seed}", color=GREY, fontsize=9
        )
        axes.legend(fontsize=8)


def _place(mark: Mark, axes: Sequence[Axis]) -> tuple[float, float]:
    return axes[0].placed(mark.values[0]), axes[1].placed(mark.values[1]) if len(axes) > 1 else 0.0


def _scale(axes: Any, which: str, axis: Axis, values: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    if axis.floor is not None:
        of_axis = axes.xaxis if which == "x" else axes.yaxis
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        ticks = axis.ticks(values)
        of_axis.set_ticks(list(ticks), list(ticks.values()))
        of_axis.set_minor_locator(NullLocator())
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(axis.title)
