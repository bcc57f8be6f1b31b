"""FitGpp with the load of 2.0 kept under each policy, instead of FIFO's submission times for all.

The two readings of how jobs were submitted; `fitgpp-mixtures` has the other one for the same demands.
"""

from __future__ import annotations

from pathlib import Path

from betimes.reproduce.experiment import Row
from betimes.reproduce.fitgpp.fig1 import PUBLISHED
from betimes.reproduce.fitgpp.runs import fifo, rows_of, runs, simulated, sized, with_changes
from betimes.reproduce.fitgpp.sweeps import DEMANDS, KEYS, Found, draw
from betimes.reproduce.pace import Pace, Progress
from betimes.reproduce.workers import Workers


def run(sizes: tuple[int, ...], out: Path | None, progress: Progress, workers: Workers) -> list[Row]:
    """The rows of some numbers of jobs, and with `out` a picture."""
    pace = Pace(progress, sum(runs((fifo(), *each.planned)) for each in DEMANDS.settings) * sum(sizes))
    found = {jobs: _found(jobs, pace, workers) for jobs in sizes}
    progress("done", pace.total, pace.total)
    if out is not None:
        draw(DEMANDS, found, out / "fitgpp-load.svg")
    return [
        row
        for jobs, of_size in found.items()
        for label, of_setting in of_size.items()
        for policy, figures in of_setting.items()
        for row in rows_of(
            f"{jobs}/{label}/{policy}",
            figures,
            (*KEYS, "submitted_change"),
            PUBLISHED if policy == "FitGpp" else None,
        )
    ]


def _found(jobs: int, pace: Pace, workers: Workers) -> Found:
    found: Found = {}
    for setting in DEMANDS.settings:
        planned = (fifo(), *setting.planned)
        base, *others = simulated(jobs, planned, pace, setting.parameters, kept=True, workers=workers)
        found[setting.label] = {
            each.name: with_changes(figures, base)
            for each, figures in zip(setting.planned, others, strict=True)
        }
    return found


EXPERIMENT = sized("fitgpp-load", "FitGpp, LRTP and RAND with the load kept under each of them", run)
