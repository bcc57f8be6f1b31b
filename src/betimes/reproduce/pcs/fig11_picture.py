"""Figure 11: error against size under Tiresias, and the distribution of contention under max-min."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from betimes.outcome.figure import COLOURS, drawing
from betimes.reproduce.pcs.fig8 import SEEDS
from betimes.reproduce.pcs.fig11 import Seen


def draw(found: dict[str, list[Seen]], path: Path) -> None:
    """Two panels a workload; raises InputError where the file cannot be written."""
    with drawing(path, 10.4, 4.2 * len(found)) as figure:
        panels: Any = figure.subplots(len(found), 2, squeeze=False)
        for (left, right), (workload, of_workload) in zip(panels, found.items(), strict=True):
            for seen, seed, colour in zip(of_workload, SEEDS, COLOURS, strict=False):
                # Thousands of points would make a file of megabytes: every third job shows the same.
                left.plot(
                    seen.sizes[::3], seen.errors[::3], ".", color=colour, markersize=2, label=f"seed {seed}"
                )
                values = np.sort(seen.contention)
                right.step(values, np.arange(1, len(values) + 1) / len(values), where="post", color=colour)
                right.axvline(float(values.mean()), color=colour, linewidth=0.8, linestyle=":")
            left.set_title(workload)
            left.set_xscale("log")
            left.set_yscale("symlog", linthresh=10.0)
            left.set_ylim(bottom=-1.0)
            left.set_xlabel("Size (s on one GPU)")
            left.set_ylabel("Absolute prediction error under Tiresias (%)")
            left.legend(fontsize=8, markerscale=4)
            right.set_title(workload)
            right.set_xlabel("Jobs there under max-min, as a job sees it (dotted: means)")
            right.set_ylabel("Part of the jobs")
