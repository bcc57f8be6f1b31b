"""FitGpp (OpML 2019), figure 1: slowdowns of trial and best-effort jobs, by policy.

The figure itself is a picture without numbers; the text gives three changes against FIFO.
"""

from __future__ import annotations

from pathlib import Path

from betimes.reproduce.experiment import Progress, Row
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
    with_changes,
)
from betimes.reproduce.pace import Pace

PUBLISHED = {"te_p95_change": -96.6, "be_p50_change": 18.0, "be_p95_change": 23.9}
SLOWDOWNS = tuple(f"{group}_p{percent}" for group in ("te", "be") for percent in (50, 95, 99))
CHANGES = ("te_p95_change", "be_p50_change", "be_p95_change")

Found = dict[str, list[Figures]]
"""By policy, the figures with each seed."""


def run(sizes: tuple[int, ...], out: Path | None, progress: Progress) -> list[Row]:
    """The rows of some numbers of jobs, and with `out` a picture."""
    planned = (fifo(), lrtp(), rand(), fitgpp())
    pace = Pace(progress, runs(planned) * sum(sizes))
    found: dict[int, Found] = {}
    for jobs in sizes:
        base, *others = simulated(jobs, planned, pace)
        found[jobs] = {"FIFO": base} | {
            each.name: with_changes(figures, base) for each, figures in zip(planned[1:], others, strict=True)
        }
    progress("done", pace.total, pace.total)
    if out is not None:
        from betimes.reproduce.fitgpp.fig1_picture import draw

        draw(found, out / "fitgpp-fig1.svg")
    return [row for jobs, of_size in found.items() for row in _rows(jobs, of_size)]


def _rows(jobs: int, found: Found) -> list[Row]:
    rows: list[Row] = []
    for policy, figures in found.items():
        keys = SLOWDOWNS if policy == "FIFO" else (*SLOWDOWNS, *CHANGES)
        rows += rows_of(f"{jobs}/{policy}", figures, keys, PUBLISHED if policy == "FitGpp" else None)
    return rows


EXPERIMENT = sized("fitgpp-fig1", "FitGpp, figure 1: slowdowns of trial and best-effort jobs", run)
