"""The absences as a picture: minutes from the signal and from leaving to resumption, and how many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import drawing
from betimes.reproduce.fitgpp.intervals import Found
from betimes.reproduce.fitgpp.picture import bars, legend
from betimes.reproduce.fitgpp.runs import spread

_SINCE = (("told", "From the signal to resumption"), ("left", "From leaving to resumption"))

_OTHER = 5  # of the colours: this is no percentile


def draw(found: dict[int, Found], path: Path) -> None:
    """One row of panels a number of jobs; raises InputError where the file cannot be written."""
    with drawing(path, 11.0, 0.6 + 3.4 * len(found)) as figure:
        panels: Any = figure.subplots(len(found), 3, squeeze=False)
        for (jobs, of_size), (*times, counts) in zip(found.items(), panels, strict=True):
            for (since, title), axes in zip(_SINCE, times, strict=True):
                series = {
                    f"{percent}th percentile": [
                        spread(each, f"{since}_p{percent}") for each in of_size.values()
                    ]
                    for percent in (50, 95)
                }
                bars(axes, tuple(of_size), series)
                axes.set_title(title)
                axes.set_ylabel("Minutes")
            counted = [spread(each, "preemptions") for each in of_size.values()]
            bars(counts, tuple(of_size), {"preemptions": counted}, first=_OTHER)
            counts.set_title(f"Preemptions of {jobs:,} jobs")
            counts.set_ylabel("% of all jobs")
        legend(figure, panels[0, 0])
