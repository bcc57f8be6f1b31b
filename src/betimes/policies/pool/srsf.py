"""Shortest remaining service first: Tiresias with known sizes (PCS, section 2.1; Tiresias, NSDI 2019)."""

from __future__ import annotations

from betimes.core.pool.columns import View
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import Policy


@kernel
def remaining_service(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Remaining unit-seconds of the job at full width: d r / s(d)."""
    for k in range(len(chosen)):
        job = view.jobs[chosen[k]]
        key[k] = job.max_units * job.remaining_s / job.full_speed


srsf = Policy(
    name="srsf",
    summary="The job that needs the fewest further unit-seconds at full width goes first.",
    question="Which order gives short completion times?",
    paper="Tiresias (NSDI 2019), as compared in PCS (OSDI 2024), section 6",
    rank=remaining_service,
)
