"""Finish-time fairness with leases (Themis, NSDI 2020, as the PCS study simulates it; spec 1.5).

One lease timer for the whole pool, set anew at every decision. A job's rho compares the time it will have taken,
if it runs on what is offered now, with the time it would have taken with an equal share to itself; whoever fares
worst is served first. Works with units and sizes only, never with the speed-up curve.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from betimes.core.columns import Records, View
from betimes.core.kernel import lean_kernel
from betimes.policies.hooks import Parameter, Policy, Prepared, Setting, Value

LEASE_S = 0


@lean_kernel
def unfairness_if_given(view: View, now: float, slot: int, units: float) -> float:
    """rho = T_shared / T_ideal of a job if it runs on `units` from now on."""
    job, pool = view.jobs[slot], view.pool[0]
    active = (pool.contention - job.seen_sum) / (pool.events - job.seen_count)
    shared_s = (now - job.submit_s) + job.remaining_s / units
    ideal_s = job.size_s / min(pool.units / active, float(job.max_units))
    return shared_s / ideal_s


@lean_kernel
def auction(view: View, now: float, grants: Records, again: Records) -> int:
    """Serve the job that fares worst with as much as it can use; again with what is left; until the lease ends."""
    line, head, left = view.order[0], view.groups[0].head, view.pool[0].units
    waiting = view.groups[0].tail - head
    again[0].at_s = now + view.params[LEASE_S]
    if view.groups[0].demand <= left:
        for at in range(waiting):
            grants[at].job = line[head + at]
            grants[at].units = view.jobs[line[head + at]].max_units
        again[0].period_s = view.params[LEASE_S]  # nothing can change until a job is submitted or finishes
        return waiting
    # grants[:count] are served, grants[count:waiting] are not yet, in order of submission; until then their rho
    # stands in place of units. It changes only for jobs that can no longer have all they can use.
    for at in range(waiting):
        slot = line[head + at]
        grants[at].job = slot
        grants[at].units = unfairness_if_given(view, now, slot, min(left, float(view.jobs[slot].max_units)))
    count = 0
    before = left
    while left > 0.0 and count < waiting:
        worst = -1
        for at in range(count, waiting):
            slot = grants[at].job
            if view.jobs[slot].max_units > left:
                if left < view.jobs[slot].least:
                    continue
                if left < before:
                    grants[at].units = unfairness_if_given(view, now, slot, left)
            if worst < 0 or grants[at].units > grants[worst].units:
                worst = at
        if worst < 0:
            break
        before = left
        slot = grants[worst].job
        for at in range(worst, count, -1):
            grants[at].job = grants[at - 1].job
            grants[at].units = grants[at - 1].units
        grants[count].job = slot
        grants[count].units = min(left, float(view.jobs[slot].max_units))
        left -= grants[count].units
        count += 1
    return count


def _prepare(values: dict[str, Value | None], setting: Setting) -> Prepared:
    lease_s = cast(float, values["lease"])
    setting.check_period("themis", "lease", lease_s)
    return Prepared(np.array([lease_s]))


themis = Policy(
    name="themis",
    summary="The job whose finish is most delayed against an equal share goes first, for one lease.",
    question="Which division of the units makes finish times fair?",
    paper="Themis (NSDI 2020), as simulated by PCS (OSDI 2024), section 6",
    parameters=(
        Parameter("lease", "seconds after which everything is decided again", 600.0, low=1e-3),
    ),
    allocate=auction,
    prepare=_prepare,
)
