"""Finish-time fairness with leases (Themis, NSDI 2020, as the PCS study simulates it).

One lease timer for the whole pool, set anew at every decision. A job's rho is its completion time on the units offered
now, over that on an equal share; the job with the largest rho is served first. Rho depends on units and sizes only,
never on the speed-up curve.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from betimes.core.pool.columns import Again, Grant, View
from betimes.kernels import Floats, Ints, Records, full_kernel, kernel
from betimes.policies.hooks import Parameter, Policy, Prepared, Setting, Value

LEASE_S = 0
SERVED = -1.0  # in place of a rho
WIDTHS = 64  # binary digits of any number of units


@kernel
def unfairness_if_given(view: View, now: float, slot: int, units: float) -> float:
    """Rho = T_shared / T_ideal of a job if it runs on `units` from now on."""
    job, pool = view.jobs[slot], view.pool[0]
    active = (pool.contention - job.seen_sum) / (pool.events - job.seen_count)
    shared_s = (now - job.submit_s) + job.remaining_s / units
    ideal_s = job.size_s / min(pool.units / active, float(job.max_units))
    return shared_s / ideal_s


@full_kernel
def auction(view: View, now: float, grants: Records[Grant], again: Records[Again]) -> int:
    """Give the job with the largest rho its maximum, then the next with the rest; repeat when the lease ends."""
    line, head, left = view.order[0], view.groups[0].head, view.pool[0].units
    waiting = view.groups[0].tail - head
    again[0].at_s = now + view.params[LEASE_S]
    if view.groups[0].demand <= left:
        served = 0
        for at in range(waiting):
            job = view.jobs[line[head + at]]
            if job.least <= left:  # else it waits for the pool to grow
                grants[served].job = line[head + at]
                grants[served].units = min(left, float(job.max_units))
                served += 1
        again[0].period_s = view.params[LEASE_S]  # nothing can change until a job is submitted or finishes
        return served
    # By number in order of submission: each job's rho at its maximum, the largest on top of a heap; and lists of jobs
    # by the power of two below their width, for jobs that can no longer get their maximum.
    rho = np.empty(waiting)
    heap = np.arange(waiting)
    following = np.empty(waiting, dtype=np.int64)
    first_of_width = np.full(WIDTHS, -1)
    for number in range(waiting):
        slot = line[head + number]
        most = view.jobs[slot].max_units
        rho[number] = unfairness_if_given(view, now, slot, min(left, float(most)))
        width = _width(most)
        following[number] = first_of_width[width]
        first_of_width[width] = number
    for at in range(waiting // 2 - 1, -1, -1):
        _sift(heap, rho, at, waiting)
    size, count = waiting, 0
    while left > 0.0:
        while size > 0 and (rho[heap[0]] == SERVED or view.jobs[line[head + heap[0]]].max_units > left):
            size -= 1
            heap[0] = heap[size]
            _sift(heap, rho, 0, size)
        worst = heap[0] if size > 0 else -1
        worst_rho = rho[worst] if size > 0 else -1.0
        for width in range(_width(int(left)), WIDTHS):
            number = first_of_width[width]
            while number >= 0:
                slot = line[head + number]
                if rho[number] != SERVED and view.jobs[slot].max_units > left >= view.jobs[slot].least:
                    value = unfairness_if_given(view, now, slot, left)
                    if value > worst_rho or (value == worst_rho and number < worst):
                        worst, worst_rho = number, value
                number = following[number]
        if worst < 0:
            break
        slot = line[head + worst]
        rho[worst] = SERVED
        grants[count].job = slot
        grants[count].units = min(left, float(view.jobs[slot].max_units))
        left -= grants[count].units
        count += 1
    return count


@kernel
def _width(units: int) -> int:
    """The number of binary digits of a number of units."""
    width = 0
    while units > 0:
        units //= 2
        width += 1
    return width


@kernel
def _sift(heap: Ints, rho: Floats, at: int, size: int) -> None:
    """Let heap[at] sink to its place: the larger rho on top, ties to the earlier job."""
    if size == 0:
        return
    number = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _worse(rho, heap[child + 1], heap[child]):
            child += 1
        if not _worse(rho, heap[child], number):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = number


@kernel
def _worse(rho: Floats, a: int, b: int) -> bool:
    return rho[a] > rho[b] or (rho[a] == rho[b] and a < b)


def _prepare(values: dict[str, Value | None], setting: Setting) -> Prepared:
    lease_s = cast(float, values["lease"])
    setting.check_period("themis", "lease", lease_s)
    return Prepared(np.array([lease_s]))


themis = Policy(
    name="themis",
    summary="The job whose finish is most delayed against an equal share goes first, for one lease; others backfill.",
    question="Which division of the units makes finish times fair?",
    paper="Themis (NSDI 2020), as simulated by PCS (OSDI 2024), section 6",
    parameters=(Parameter("lease", "seconds after which everything is decided again", 600.0, low=1e-3),),
    allocate=auction,
    prepare=_prepare,
)
