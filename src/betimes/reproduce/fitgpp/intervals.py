"""FitGpp (OpML 2019), section 3: how long preempted jobs are away, and how many are preempted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import drawing
from betimes.reproduce.experiment import Row
from betimes.reproduce.fitgpp.picture import bars, legend
from betimes.reproduce.fitgpp.runs import (
    Figures,
    fitgpp,
    lrtp,
    rand,
    row,
    rows_of,
    runs,
    simulated,
    sized,
    spread,
)
from betimes.reproduce.pace import Pace, Progress
from betimes.reproduce.workers import Workers

ABSENCES = ("told_p50", "told_p95", "left_p50", "left_p95")
COUNTS = ("preemptions", "preempted")
RATIOS = ("told_p50", "told_p95", "left_p95", "preemptions", "preempted")

# "Almost half", "20% shorter" and "33% shorter"; "less than 7.0% relative to that of LRTP and RAND".
PUBLISHED = {
    "LRTP": {"told_p50": 0.5, "told_p95": 0.8, "preempted": 0.07},
    "RAND": {"told_p50": 0.5, "told_p95": 0.67, "preempted": 0.07},
}
_METRICS = {"told": "told_to_resumed", "left": "left_to_resumed"}

Found = dict[str, list[Figures]]
"""By policy, the figures with each seed."""


def run(sizes: tuple[int, ...], out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of some numbers of jobs, and with `out` a picture."""
    planned = (lrtp(), rand(), fitgpp())
    pace = Pace(progress, runs(planned) * sum(sizes))
    found: dict[int, Found] = {}
    for jobs in sizes:
        figures = simulated(jobs, planned, pace, workers=workers)
        found[jobs] = {each.name: of_policy for each, of_policy in zip(planned, figures, strict=True)}
    progress("done", pace.total, pace.total)
    if out is not None:
        _draw(found, out / "fitgpp-intervals.svg")
    return [row for jobs, of_size in found.items() for row in _rows(jobs, of_size)]


def ratios(own: list[Figures], base: list[Figures], key: str) -> list[float]:
    """One figure over that of another policy, with each seed."""
    return [mine[key] / theirs[key] for mine, theirs in zip(own, base, strict=True)]


def _rows(jobs: int, found: Found) -> list[Row]:
    rows: list[Row] = []
    for policy, figures in found.items():
        rows += rows_of(f"{jobs}/{policy}", figures, (*ABSENCES, *COUNTS))
    for other, published in PUBLISHED.items():
        for key in RATIOS:
            group, _, rest = key.partition("_")
            name = "_".join(filter(None, (_METRICS.get(group, group), rest, "over", other)))
            values = ratios(found["FitGpp"], found[other], key)
            rows.append(row(f"{jobs}/FitGpp", name, values, "ratio", published.get(key)))
    return rows


_SINCE = (("told", "From the signal to resumption"), ("left", "From leaving to resumption"))

_OTHER = 5  # of the colours: this is no percentile


def _draw(found: dict[int, Found], path: Path) -> None:
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


EXPERIMENT = sized("fitgpp-intervals", "FitGpp, section 3: absences of preempted jobs, and their number", run)
