"""Shortest remaining time first (the published simulator's `SRTF`)."""

from __future__ import annotations

from betimes.core.pool.columns import View
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import Policy


@kernel
def remaining_time(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Remaining seconds of the job at full width: r / s(d)."""
    for k in range(len(chosen)):
        job = view.jobs[chosen[k]]
        key[k] = job.remaining_s / job.full_speed


srtf = Policy(
    name="srtf",
    summary="The job that needs the least further time at full width goes first.",
    question="Which order gives short completion times?",
    paper="Schrage and Miller (1966); optimal for mean completion time on one unit",
    rank=remaining_time,
)
