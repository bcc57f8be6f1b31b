"""How FitGpp's experiments are drawn: bars or points of the mean over the seeds, with the least and the greatest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from betimes.outcome.figure import COLOURS, DASHES, GREY
from betimes.reproduce.fitgpp.runs import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ALL = 0.84  # of the room for a group that bars take
_MARKERS = ("o", "s", "D", "^", "v")


def bars(
    axes: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Spread]],
    foot: float = 0.0,
    logarithmic: bool = False,
    first: int = 0,
) -> None:
    """A bar for each of the series in each group, on `foot`, with its value at its end; colours from `first` on."""
    if logarithmic:
        axes.set_yscale("log")
    at, width = np.arange(len(groups)), _ALL / len(series)
    top = foot
    for number, (name, values) in enumerate(series.items()):
        place = at + (number - (len(series) - 1) / 2) * width
        heights = np.array([each.mean for each in values]) - foot
        axes.bar(
            place, heights, 0.92 * width, bottom=foot, color=COLOURS[first + number], label=name, zorder=3
        )
        axes.errorbar(place, [each.mean for each in values], _whiskers(values), fmt="none", ecolor=GREY,
                      elinewidth=1, capsize=2, zorder=4)  # fmt: skip
        for where, each in zip(place, values, strict=True):
            above = each.mean >= foot
            axes.annotate(f"{each.mean:.3g}", (where, max(each.high, foot) if above else each.low),
                          xytext=(0, 3 if above else -3), textcoords="offset points", fontsize=7,
                          ha="center", va="bottom" if above else "top")  # fmt: skip
            top = max(top, each.high)
    axes.set_xticks(at, list(groups))
    axes.grid(axis="x", visible=False)
    if logarithmic:
        axes.set_ylim(0.97 * foot, foot * (top / foot) ** 1.12)
        _plain_decades(axes)
    else:
        axes.margins(y=0.12)
        axes.axhline(0.0, color="black", linewidth=0.8, zorder=5)


def lines(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[Spread]], first: int = 0) -> None:
    """Points of each of the series, one a group, joined; colours and marks from number `first` on."""
    for number, (name, values) in enumerate(series.items(), start=first):
        axes.errorbar(
            np.arange(len(groups)), [each.mean for each in values], _whiskers(values), color=COLOURS[number],
            linestyle=DASHES[number % len(DASHES)], marker=_MARKERS[number % len(_MARKERS)], markersize=5,
            elinewidth=1, capsize=2, label=name, zorder=3,
        )  # fmt: skip
    axes.set_xticks(np.arange(len(groups)), list(groups))


def legend(figure: Figure, axes: Axes) -> None:
    """What the series of a panel are called, below the picture."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower right", ncols=len(names))


def _whiskers(values: Sequence[Spread]) -> Any:
    """Down and up from the mean; rounding must not make them negative."""
    return np.maximum(
        [[each.mean - each.low for each in values], [each.high - each.mean for each in values]], 0.0
    )


def _plain_decades(axes: Axes) -> None:
    from matplotlib.ticker import NullLocator

    low, high = axes.get_ylim()
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if low <= tick <= high]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
