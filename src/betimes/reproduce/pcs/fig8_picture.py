"""Figure 8b: JCT against the 99th percentile of error; each seed's value small, the published one hollow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from betimes.outcome.figure import drawing
from betimes.reproduce.pcs.fig8 import FASTEST, over_fastest
from betimes.reproduce.pcs.front_picture import labelled_axes, mark
from betimes.reproduce.pcs.runs import Outcome
from betimes.reproduce.pcs.workload_3_published import FIGURE_8


def draw(outcomes: dict[str, list[Outcome]], path: Path) -> None:
    """Released configurations left, found ones right; raises InputError."""
    with drawing(path, 10.4, 4.8) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for name, of_policy in outcomes.items():
            bare, found = name.removeprefix("found/"), name.startswith("found/")
            jct = over_fastest(of_policy, outcomes[FASTEST])
            tail = [each.error(99.0) for each in of_policy]
            for axes in (right,) if found else (left,) if bare.startswith("PCS") else (left, right):
                axes.plot(jct, tail, ".", color="grey", markersize=3)
                mark(axes, bare, float(np.mean(jct)), float(np.mean(tail)))
            published = FIGURE_8[bare]
            if not found and published.jct_over_srsf is not None and published.error_p99 is not None:
                mark(left, bare, published.jct_over_srsf, published.error_p99, hollow=True)
        left.set_title("Released configurations")
        right.set_title("Configurations found here, on other jobs")
        for axes in (left, right):
            labelled_axes(axes, "99th percentile of absolute error (%)")
            axes.set_xlabel("Mean JCT over that of Tiresias")
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=6, fontsize=8)
