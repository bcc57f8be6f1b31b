"""JCT against prediction error, the axes in which the study draws its fronts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.outcome.figure import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST = 0.1  # % below which an error is shown as zero
_LABELS = {"srsf": "Tiresias (srsf)", "afs": "AFS", "themis": "Themis", "fifo": "FIFO"}
_MARKS = {
    "fifo": ("s", COLOURS[5]),
    "srsf": ("^", COLOURS[1]),
    "themis": ("D", COLOURS[3]),
    "afs": ("v", COLOURS[4]),
    "max-min": ("P", COLOURS[7]),
    "PCS-JCT": ("o", COLOURS[0]),
    "PCS-bal": ("h", COLOURS[0]),
    "PCS-pred": ("*", COLOURS[0]),
}


def mark(axes: Axes, name: str, jct_over_best: float, error_percent: float, hollow: bool = False) -> None:
    """One policy; the legend names each once. hollow: a published value."""
    shape, colour = _MARKS[name]
    label = _LABELS.get(name, name)
    axes.plot(
        [jct_over_best], [error_percent], linestyle="", marker=shape, markersize=8, markeredgecolor=colour,
        markerfacecolor="none" if hollow else colour, label=f"{label}, published" if hollow else label,
    )  # fmt: skip


def labelled_axes(axes: Axes, error: str = "Mean absolute prediction error (%)") -> None:
    """Scales that show both ends: JCT over the best is a ratio of 1 and more, errors may be zero."""
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=_LEAST, linscale=0.3)
    low, high = axes.get_xlim()
    ticks = [at for at in (1, 1.5, 2, 3, 5, 10, 20, 50, 100) if low <= at <= high]
    axes.set_xticks(ticks, [f"{at:g}" for at in ticks])
    axes.minorticks_off()
    axes.set_ylim(-0.02, 1.6 * axes.get_ylim()[1])  # room for the marks at the top
    ticks = [at for at in (0, 0.1, 1, 10, 100, 1000) if at <= axes.get_ylim()[1]]
    axes.set_yticks(ticks, [f"{at:g}" for at in ticks])
    axes.set_xlabel("Mean JCT over the smallest")
    axes.set_ylabel(error)
