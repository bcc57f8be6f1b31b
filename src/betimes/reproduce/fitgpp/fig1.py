"""FitGpp (OpML 2019), figure 1: slowdowns of trial and best-effort jobs, by policy.

The figure itself is a picture without numbers; the text gives three changes against FIFO.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import drawing
from betimes.reproduce.experiment import Row
from betimes.reproduce.fitgpp.picture import bars, legend
from betimes.reproduce.fitgpp.runs import (
    Figures,
    fifo,
    fitgpp,
    lrtp,
    rand,
    rows_of,
    runs,
    simulated,
    sized,
    spread,
    with_changes,
)
from betimes.reproduce.pace import Pace, Progress
from betimes.reproduce.workers import Workers

PUBLISHED = {"te_p95_change": -96.6, "be_p50_change": 18.0, "be_p95_change": 23.9}
SLOWDOWNS = tuple(f"{group}_p{percent}" for group in ("te", "be") for percent in (50, 95, 99))
CHANGES = ("te_p95_change", "be_p50_change", "be_p95_change")

Found = dict[str, list[Figures]]
"""By policy, the figures with each seed."""


def run(sizes: tuple[int, ...], out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of some numbers of jobs, and with `out` a picture."""
    planned = (fifo(), lrtp(), rand(), fitgpp())
    pace = Pace(progress, runs(planned) * sum(sizes))
    found: dict[int, Found] = {}
    for jobs in sizes:
        base, *others = simulated(jobs, planned, pace, workers=workers)
        found[jobs] = {"FIFO": base} | {
            each.name: with_changes(figures, base) for each, figures in zip(planned[1:], others, strict=True)
        }
    progress("done", pace.total, pace.total)
    if out is not None:
        _draw(found, out / "fitgpp-fig1.svg")
    return [row for jobs, of_size in found.items() for row in _rows(jobs, of_size)]


def _rows(jobs: int, found: Found) -> list[Row]:
    rows: list[Row] = []
    for policy, figures in found.items():
        keys = SLOWDOWNS if policy == "FIFO" else (*SLOWDOWNS, *CHANGES)
        rows += rows_of(f"{jobs}/{policy}", figures, keys, PUBLISHED if policy == "FitGpp" else None)
    return rows


_GROUPS = (("te", "Trial jobs"), ("be", "Best-effort jobs"))


def _draw(found: dict[int, Found], path: Path) -> None:
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


EXPERIMENT = sized("fitgpp-fig1", "FitGpp, figure 1: slowdowns of trial and best-effort jobs", run)
