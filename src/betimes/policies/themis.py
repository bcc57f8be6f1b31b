"""Finish-time fairness with leases (Themis, NSDI 2020, as the PCS study simulates it; spec 1.5).

One lease timer for the whole pool, set anew at every decision. A job's rho compares the time it will have taken,
if it runs on what is offered now, with the time it would have taken with an equal share to itself; whoever fares
worst is served first. Works with units and sizes only, never with the speed-up curve.
"""

from __future__ import annotations

from betimes.core.columns import CONTENTION, EVENTS, HEAD, TAIL, Grants, View
from betimes.core.kernel import kernel
from betimes.policies.hooks import Parameter, Policy

LEASE_S = 0


@kernel
def unfairness_if_given(view: View, now: float, job: int, units: float) -> float:
    """rho = T_shared / T_ideal of a job if it runs on `units` from now on."""
    jobs = view.jobs
    seen = view.clock[CONTENTION] - jobs.seen_sum[job]
    active = seen / (view.tally[EVENTS] - jobs.seen_count[job])
    shared_s = (now - jobs.submit_s[job]) + jobs.remaining[job] / units
    ideal_s = jobs.size[job] / min(view.machine.units / active, float(jobs.max_units[job]))
    return shared_s / ideal_s


@kernel
def auction(view: View, now: float, grants: Grants) -> float:
    """Serve the job that fares worst with as much as it can use; again with what is left; until the lease ends."""
    jobs, line = view.jobs, view.queue.order[0]
    head, tail = view.queue.ends[0, HEAD], view.queue.ends[0, TAIL]
    lease_s, left = view.params[LEASE_S], view.machine.units
    waiting = tail - head
    if view.queue.demand[0] <= left:
        for at in range(waiting):
            job = line[head + at]
            grants.job[at] = job
            grants.units[at] = jobs.max_units[job]
        grants.count[0] = waiting
        grants.period[0] = lease_s  # nothing can change until a job is submitted or finishes
        return now + lease_s
    # grants.job[:count] are served, grants.job[count:waiting] are not yet, in order of submission; rho is
    # kept in grants.units[count:] and changes only for jobs that can no longer have all they can use.
    for at in range(waiting):
        job = line[head + at]
        grants.job[at] = job
        grants.units[at] = unfairness_if_given(view, now, job, min(left, float(jobs.max_units[job])))
    count = 0
    before = left
    while left > 0.0 and count < waiting:
        worst = -1
        for at in range(count, waiting):
            job = grants.job[at]
            if jobs.max_units[job] > left:
                if left < jobs.least[job]:
                    continue
                if left < before:
                    grants.units[at] = unfairness_if_given(view, now, job, left)
            if worst < 0 or grants.units[at] > grants.units[worst]:
                worst = at
        if worst < 0:
            break
        before = left
        job = grants.job[worst]
        for at in range(worst, count, -1):
            grants.job[at] = grants.job[at - 1]
            grants.units[at] = grants.units[at - 1]
        grants.job[count] = job
        grants.units[count] = min(left, float(jobs.max_units[job]))
        left -= grants.units[count]
        count += 1
    grants.count[0] = count
    return now + lease_s


themis = Policy(
    name="themis",
    summary="The job whose finish is most delayed against an equal share goes first, for one lease.",
    question="Which division of the units makes finish times fair?",
    paper="Themis (NSDI 2020), as simulated by PCS (OSDI 2024), section 6",
    parameters=(
        Parameter("lease", "seconds after which everything is decided again", 600.0, low=1e-3),
    ),
    allocate=auction,
)
