"""A sweep as a picture: what trial jobs gain, what best-effort jobs pay, how long they are away and how often."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from betimes.outcome.figure import drawing
from betimes.reproduce.fitgpp.picture import bars, legend, lines
from betimes.reproduce.fitgpp.runs import spread
from betimes.reproduce.fitgpp.sweeps import Found, Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = (
    ("te_p95", "Trial jobs, 95th percentile", "Slowdown"),
    ("be_p95_change", "Best-effort jobs, change of the 95th percentile", "% against FIFO"),
    ("told_p50", "From the signal to resumption, median", "Minutes"),
    ("preemptions", "Preemptions", "% of all jobs"),
)
_OWN = 2  # of the colours, also where FitGpp is alone
_BARS = 2.6  # inches that the bars of a setting and their numbers need in two panels


def draw(sweep: Sweep, found: dict[int, Found], path: Path) -> None:
    """Four panels a number of jobs, two by two; raises InputError where the file cannot be written."""
    width = 10.4 if sweep.ordered else max(10.4, _BARS * len(sweep.settings))
    with drawing(path, width, 0.4 + 6.8 * len(found)) as figure:
        panels: Any = figure.subplots(2 * len(found), 2, squeeze=False)
        for (jobs, of_size), axes_of_size in zip(found.items(), panels.reshape(len(found), 4), strict=True):
            for panel, axes in zip(_PANELS, axes_of_size, strict=True):
                _panel(axes, sweep, of_size, *panel)
            if len(found) > 1:
                axes_of_size[0].set_title(f"{jobs:,} jobs. {_PANELS[0][1]}")
        legend(figure, panels[0, 0])


def _panel(axes: Axes, sweep: Sweep, found: Found, key: str, title: str, label: str) -> None:
    groups = tuple(label.replace(", ", "\n").replace(" x ", "\nx ") for label in found)
    policies = tuple(next(iter(found.values())))
    series = {
        policy: [spread(of_setting[policy], key) for of_setting in found.values()] for policy in policies
    }
    if sweep.ordered:
        lines(axes, groups, series, first=_OWN + 1 - len(policies))
    else:
        bars(axes, groups, series)
    axes.set_title(title)
    axes.set_ylabel(label)
    axes.set_xlabel(sweep.title)
    if min(each.low for values in series.values() for each in values) >= 0.0:
        axes.set_ylim(bottom=0.0)
