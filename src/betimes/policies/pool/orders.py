"""Orders that need nothing but the jobs' sizes: FIFO, SRSF and SRTF.

First in, first out (PCS, section 2.1; the published simulator's `FIFO`); shortest remaining service first, which is
Tiresias with known sizes (PCS, section 2.1; Tiresias, NSDI 2019); shortest remaining time first (the published
simulator's `SRTF`).
"""

from __future__ import annotations

from betimes.core.pool.columns import View
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import IN_ORDER, Policy

fifo = Policy(
    name="fifo",
    summary="In order of submission, each job as wide as it can be; those behind backfill until it can be wider.",
    question="Which order is perfectly predictable?",
    paper="PCS (OSDI 2024), section 2.1",
    reads_progress=False,
    playout_whole=IN_ORDER,
    playout_fractional=IN_ORDER,
)


@kernel
def remaining_service(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Remaining unit-seconds of the job at full width: d r / s(d)."""
    for k in range(len(chosen)):
        job = view.jobs[chosen[k]]
        key[k] = job.max_units * job.remaining_s / job.full_speed


srsf = Policy(
    name="srsf",
    summary="The job that needs the fewest further unit-seconds at full width goes first; others backfill.",
    question="Which order gives short completion times?",
    paper="Tiresias (NSDI 2019), as compared in PCS (OSDI 2024), section 6",
    rank=remaining_service,
)


@kernel
def remaining_time(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Remaining seconds of the job at full width: r / s(d)."""
    for k in range(len(chosen)):
        job = view.jobs[chosen[k]]
        key[k] = job.remaining_s / job.full_speed


srtf = Policy(
    name="srtf",
    summary="The job that needs the least further time at full width goes first; others backfill.",
    question="Which order gives short completion times?",
    paper="Schrage and Miller (1966); optimal for mean completion time on one unit",
    rank=remaining_time,
)
