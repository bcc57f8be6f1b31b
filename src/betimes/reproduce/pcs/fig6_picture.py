"""Figure 6: the distribution of unfairness, and mean error against mean JCT."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from betimes.outcome.figure import COLOURS, DASHES, drawing
from betimes.reproduce.pcs.fig6 import FOUND, REAL, Seeded, reference
from betimes.reproduce.pcs.fig6_published import FRONT
from betimes.reproduce.pcs.front_picture import labelled_axes, mark

_CURVES = {
    "srsf": "Tiresias",
    "themis": "Themis",
    "afs": "AFS",
    "PCS-JCT": "PCS-JCT",
    FOUND + "PCS-JCT": "PCS-JCT, found",
}


def draw(found: dict[str, Seeded], path: Path) -> None:
    """Two panels, both with time lost at each change; raises InputError where the file cannot be written."""
    with drawing(path, 10.4, 4.6) as figure:
        left, right = figure.subplots(1, 2)
        for (name, label), colour, dash in zip(_CURVES.items(), COLOURS, (*DASHES, "-"), strict=False):
            values = np.sort(np.concatenate([each.unfairness for each in found[REAL + name].outcomes]))
            left.step(
                values, np.arange(1, len(values) + 1) / len(values), where="post", color=colour, linestyle=dash,
                label=label,
            )  # fmt: skip
        left.set_xscale("symlog", linthresh=10.0)
        left.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1000"])
        left.set_xlabel("Unfairness (%)")
        left.set_ylabel("Part of the jobs")
        left.legend(fontsize=8, loc="lower right")
        for name in FRONT:
            each = found[REAL + name]
            mark(right, name, each.jct_mean_s / found[reference(REAL + name)].jct_mean_s, each.error)
        for name, point in FRONT.items():
            mark(right, name, point.jct_over_pcs, point.error_mean, hollow=True)
        labelled_axes(right)
        right.set_xlabel("Mean JCT over that of PCS-JCT")
        handles, names = right.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=8)
