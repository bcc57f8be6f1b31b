"""Scores of a simulation: under the published rules, and under those of Betimes."""

from __future__ import annotations

from betimes.foresight.portfolio.ledger import Totals
from betimes.foresight.portfolio.lookahead import Foreseen
from betimes.foresight.portfolio.utility import Utility

FEW_JOBS = 20
"""With fewer finished jobs the totals of a run mean little."""


def of_queue(utility: Utility, job_s: float, foreseen: Foreseen) -> float:
    """The published score: the utility of the waiting jobs alone (C.5)."""
    return utility.of(job_s, foreseen.machine_s, foreseen.slowdown)


def of_run(utility: Utility, so_far: Totals, job_s: float, foreseen: Foreseen) -> float:
    """The utility of the whole run up to the end of the waiting jobs.

    Paid machine time that is left then does not count as spent: later jobs can use it.
    """
    if so_far.jobs < FEW_JOBS:
        return of_queue(utility, job_s, foreseen)
    jobs = so_far.jobs + foreseen.jobs
    slowdown = (so_far.slowdown + foreseen.jobs * foreseen.slowdown) / jobs
    return utility.of(so_far.job_s + job_s, max(0.0, so_far.machine_s + foreseen.used_s), slowdown)
