"""A front as a still picture: front.svg, front.png."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from betimes.foresight.tuning.front import Front
from betimes.foresight.tuning.shown import Axis, Mark, Shown, shown_by_part
from betimes.outcome.figure import COLOURS, GREY, drawing

FILES = ("front.svg", "front.png")

_FRONT, _BASELINE = COLOURS[0], COLOURS[1]
_SIGNS = "sD^vP*X<>p"
_PANEL_PT = (290.0, 260.0)  # the room within the axes of a part, a little less than there is


def draw(front: Front, path: str | Path) -> None:
    """The first two objectives against each other (one: along a line), where searched and on the testing part.

    Further objectives are left to front.html and the table. Raises InputError where it cannot be written.
    """
    parts = shown_by_part(front)
    with drawing(path, 2.0 + 5.0 * len(parts), 4.8) as figure:
        for number, (name, found) in enumerate(parts.items(), 1):
            axes: Any = figure.add_subplot(1, len(parts), number)  # matplotlib's types are too loose
            _panel(axes, found)
            axes.set_title(f"{front.workload}, {front.pool_units} units, {name}", color=GREY, fontsize=9)


def _panel(axes: Any, found: Shown) -> None:
    """One part: the front with its names, and a distinct marker for each other policy."""

    def put(group: Sequence[Mark], colour: str, marker: str, size: float, label: str) -> None:
        at = [found.place(mark) for mark in group]
        axes.scatter(
            *zip(*at, strict=True), s=size, c=colour, marker=marker, label=label, linewidths=0, zorder=3
        )

    put(found.of("front", "named"), _FRONT, "o", 22, "wfq")
    for mark, sign in zip(found.of("baseline"), cycle(_SIGNS), strict=False):
        put([mark], _BASELINE, sign, 40, mark.names[0])
    for label in found.labels(*_PANEL_PT, letter=5.2, line=10.0):
        axes.annotate(
            "\n".join(label.lines),
            (label.x, label.y),
            xytext=(-7 if label.is_left else 7, 0),
            textcoords="offset points",
            ha="right" if label.is_left else "left",
            va="center",
            fontsize=8,
            zorder=4,
        )
    _scale(axes, "x", found.axes[0], found.values(0))
    if len(found.axes) > 1:
        _scale(axes, "y", found.axes[1], found.values(1))
    else:
        axes.set_yticks([])


def _scale(axes: Any, which: str, axis: Axis, values: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    of_axis = axes.xaxis if which == "x" else axes.yaxis
    limits = axis.limits(values)
    if axis.floor is not None:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        limits = (10.0 ** limits[0], 10.0 ** limits[1])
    ticks = axis.ticks(values)
    if ticks is not None:
        of_axis.set_ticks(list(ticks), list(ticks.values()))
        of_axis.set_minor_locator(NullLocator())
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(axis.heading)
