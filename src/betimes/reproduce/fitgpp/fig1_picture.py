"""Figure 1 as a picture: percentiles of the slowdown by policy, trial jobs left, best-effort jobs right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import drawing
from betimes.reproduce.fitgpp.fig1 import Found
from betimes.reproduce.fitgpp.picture import bars, legend
from betimes.reproduce.fitgpp.runs import spread

_GROUPS = (("te", "Trial jobs"), ("be", "Best-effort jobs"))


def draw(found: dict[int, Found], path: Path) -> None:
    """One row of panels a number of jobs; raises InputError where the file cannot be written."""
    with drawing(path, 9.6, 0.6 + 3.4 * len(found)) as figure:
        panels: Any = figure.subplots(len(found), 2, squeeze=False)
        for (jobs, of_size), pair in zip(found.items(), panels, strict=True):
            for (group, title), axes in zip(_GROUPS, pair, strict=True):
                series = {
                    f"{percent}th percentile": [
                        spread(each, f"{group}_p{percent}") for each in of_size.values()
                    ]
                    for percent in (50, 95, 99)
                }
                bars(axes, tuple(of_size), series, foot=1.0, logarithmic=True)
                axes.set_title(f"{title}, {jobs:,} jobs")
            pair[0].set_ylabel("Slowdown")
        legend(figure, panels[0, 0])
