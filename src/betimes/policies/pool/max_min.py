"""Max-min fair shares (the published simulator's `FS`; PCS, section 2.1)."""

from __future__ import annotations

import math

from betimes.core.pool.columns import Again, Grant, View
from betimes.kernels import Records, kernel
from betimes.policies.hooks import EQUAL_SHARES, ONE_EACH_IN_ORDER, Policy


@kernel
def share(view: View, now: float, grants: Records[Grant], again: Records[Again]) -> int:
    """Raise the shares of all jobs together, each up to its maximum, until the units are used up."""
    if view.pool[0].fractional == 0:
        return fill_whole(view, grants)
    count, left = fill(view, grants)
    return _offer_rest(view, grants, count, left) if left > 0.0 else count


@kernel
def fill(view: View, grants: Records[Grant]) -> tuple[int, float]:
    """Water filling: a job gets its maximum, or the common level of all others.

    A job cannot use a level below its minimum. While there is such a job, the latest of them gets nothing and the
    others share again. Returns the number of grants and the units left over.
    """
    jobs, line = view.jobs, view.order[0]
    head, tail = view.groups[0].head, view.groups[0].tail
    for place in range(head, tail):
        grants[place - head].job = line[place]
    sharing = tail - head
    level = common_level(view, grants, sharing)
    at = sharing - 1
    while at >= 0:
        job = jobs[grants[at].job]
        if min(level, float(job.max_units)) < job.least:
            sharing -= 1
            for behind in range(at, sharing):
                grants[behind].job = grants[behind + 1].job
            level = common_level(view, grants, sharing)  # higher than before, so enough for those behind
        at -= 1
    left = view.pool[0].units
    for at in range(sharing):
        grants[at].units = min(level, float(jobs[grants[at].job].max_units))
        left -= grants[at].units
    return sharing, left if sharing < tail - head else 0.0  # all are served: the rest is a rounding error


@kernel
def common_level(view: View, grants: Records[Grant], sharing: int) -> float:
    """The share of the jobs in grants[:sharing] that could use more than they get; infinity: all are satisfied."""
    jobs = view.jobs
    left, rest, level = view.pool[0].units, float(sharing), 0.0
    if rest >= left:  # no job can use less than one unit
        return left / rest
    while rest > 0.0:
        candidate = left / rest
        below, satisfied = 0.0, 0.0
        for at in range(sharing):
            wants = float(jobs[grants[at].job].max_units)
            if level < wants <= candidate:
                below += wants
                satisfied += 1.0
        if satisfied == 0.0:
            return candidate
        level = candidate
        left -= below
        rest -= satisfied
    return math.inf


@kernel
def fill_whole(view: View, grants: Records[Grant]) -> int:
    """Max-min in whole units: rounds of one more unit each in order of submission."""
    left, count = view.pool[0].units, 0
    for place in range(view.groups[0].head, view.groups[0].tail):
        if left <= 0.0:
            break
        slot = view.order[0, place]
        if view.jobs[slot].min_units <= left:  # the first step of a job is its minimum
            grants[count].job = slot
            grants[count].units = view.jobs[slot].min_units
            left -= grants[count].units
            count += 1
    while left > 0.0:
        # All jobs at the lowest level rise until the next level, the maximum of one of them, or the last unit.
        lowest, ceiling, rising = math.inf, math.inf, 0.0
        for at in range(count):
            units, most = grants[at].units, float(view.jobs[grants[at].job].max_units)
            if units >= most:
                continue
            if units < lowest:
                ceiling = min(lowest, most)
                lowest, rising = units, 1.0
            elif units == lowest:
                ceiling = min(ceiling, most)
                rising += 1.0
            else:
                ceiling = min(ceiling, units)
        if rising == 0.0:
            break
        step = min(ceiling - lowest, math.floor(left / rising))
        one_by_one = step == 0.0
        for at in range(count):
            if grants[at].units == lowest and lowest < view.jobs[grants[at].job].max_units and left > 0.0:
                rise = 1.0 if one_by_one else step
                grants[at].units += rise
                left -= rise
    return count


@kernel
def _offer_rest(view: View, grants: Records[Grant], served: int, left: float) -> int:
    """Give units left over by minimum widths to jobs without units, then to any that can use more, in order."""
    at, count = 0, served
    for place in range(view.groups[0].head, view.groups[0].tail):
        slot = view.order[0, place]
        if at < served and grants[at].job == slot:
            at += 1
            continue
        units = min(left, float(view.jobs[slot].max_units))
        if units > 0.0 and units >= view.jobs[slot].least:
            grants[count].job = slot
            grants[count].units = units
            count += 1
            left -= units
    for at in range(count):
        more = min(left, view.jobs[grants[at].job].max_units - grants[at].units)
        if more > 0.0:
            grants[at].units += more
            left -= more
    return count


max_min = Policy(
    name="max-min",
    summary="Every job has the same share, unless it can use less.",
    question="Which division of the units is fair at every moment?",
    paper="PCS (OSDI 2024), section 2.1 (fair share)",
    allocate=share,
    reads_progress=False,
    playout_whole=ONE_EACH_IN_ORDER,
    playout_fractional=EQUAL_SHARES,
)
