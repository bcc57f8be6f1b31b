"""Figure 10: errors and JCTs against the error in the sizes, and fronts tuned at one load and run at another."""

from __future__ import annotations

from pathlib import Path

from betimes.outcome.figure import COLOURS, drawing
from betimes.reproduce.pcs.fig10 import RUN, Moved, Noisy
from betimes.reproduce.pcs.fig10_published import ERROR_MEAN, JCT_MEAN
from betimes.reproduce.pcs.search import Searched

_NAMES = {"fifo": "FIFO", "PCS": "PCS", "afs": "AFS"}


def draw(noisy: list[Noisy], front: Searched, moved: list[Moved], path: Path) -> None:
    """Three panels; raises InputError where the file cannot be written."""
    with drawing(path, 14.0, 4.4) as figure:
        errors, jcts, loads = figure.subplots(1, 3)
        afs_s = next(each.jct_mean_s for each in noisy if each.name == "afs" and each.size_error == 0)
        for (name, label), colour in zip(_NAMES.items(), COLOURS, strict=False):
            own = [each for each in noisy if each.name == name]
            at = [each.size_error for each in own]
            errors.plot(at, [each.error for each in own], "o-", color=colour, markersize=4, label=label)
            theirs = ERROR_MEAN[name]
            errors.plot(
                list(theirs), list(theirs.values()), "o--", color=colour, markersize=5, markerfacecolor="none",
                label=f"{label}, published",
            )  # fmt: skip
            if name == "fifo":
                continue  # it does not ask for sizes
            jcts.plot(
                at, [each.jct_mean_s / afs_s for each in own], "o-", color=colour, markersize=4, label=label
            )
            published_s = JCT_MEAN[name]
            jcts.plot(
                list(published_s), [each / JCT_MEAN["afs"][0] for each in published_s.values()], "o--",
                color=colour, markersize=5, markerfacecolor="none", label=f"{label}, published",
            )  # fmt: skip
        errors.set_ylabel("Mean absolute prediction error (%)")
        jcts.set_ylabel("Mean JCT over that of AFS with true sizes")
        errors.set_yscale("symlog", linthresh=10.0)
        errors.set_yticks([0, 5, 10, 20, 50, 100, 200], ["0", "5", "10", "20", "50", "100", "200"])
        for axes in (errors, jcts):
            axes.set_xlabel("Sizes off by up to (%)")
            axes.set_ylim(bottom=0.0)
            axes.legend(fontsize=8)
        values = front.values
        loads.plot(
            values[:, 0] / 3600.0, 100.0 * values[:, 1], "-", color="black", label=f"front at {RUN:.0%}"
        )
        for each, colour, shape in zip(moved, (COLOURS[1], COLOURS[0]), "^.", strict=True):
            loads.plot(
                each.values[:, 0] / 3600.0, 100.0 * each.values[:, 1], shape, color=colour, markersize=5,
                label=f"found at {each.tuned_load:.0%} on other jobs",
            )  # fmt: skip
        loads.set_xlabel(f"Mean JCT at {RUN:.0%} load (h)")
        loads.set_ylabel("Mean absolute prediction error (%)")
        loads.legend(fontsize=8)
