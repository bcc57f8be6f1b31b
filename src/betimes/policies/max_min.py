"""Max-min fair shares (the published simulator's `FS`; PCS, section 2.1)."""

from __future__ import annotations

import math

from betimes.core.columns import HEAD, TAIL, Grants, View
from betimes.core.kernel import kernel
from betimes.policies.hooks import Policy


@kernel
def share(view: View, now: float, grants: Grants) -> float:
    """Raise everybody's share together until the units are used up, each job no further than it can use."""
    if view.machine.fractional:
        left = fill(view, grants)
    else:
        left = fill_whole(view, grants)
    if left > 0.0:
        _offer_rest(view, grants, left)
    return math.inf


@kernel
def fill(view: View, grants: Grants) -> float:
    """Water filling: a job has all it can use, or the level that all others have too; returns what is left."""
    jobs, line = view.jobs, view.queue.order[0]
    head, tail = view.queue.ends[0, HEAD], view.queue.ends[0, TAIL]
    level = common_level(view)
    left = view.machine.units
    count = 0
    for place in range(head, tail):
        job = line[place]
        units = min(level, float(jobs.max_units[job]))
        if units >= jobs.least[job]:
            grants.job[count] = job
            grants.units[count] = units
            left -= units
            count += 1
    grants.count[0] = count
    # Whoever was left out because of its minimum leaves units; a rounding error is none.
    return left if count < tail - head else 0.0


@kernel
def common_level(view: View) -> float:
    """The share of the jobs that could use more than they get; infinity when everybody is satisfied."""
    jobs, line = view.jobs, view.queue.order[0]
    head, tail = view.queue.ends[0, HEAD], view.queue.ends[0, TAIL]
    left, sharing, level = view.machine.units, float(tail - head), 0.0
    if sharing >= left:  # nobody can use less than one unit
        return left / sharing
    while sharing > 0.0:
        candidate = left / sharing
        below, satisfied = 0.0, 0.0
        for place in range(head, tail):
            wants = float(jobs.max_units[line[place]])
            if level < wants <= candidate:
                below += wants
                satisfied += 1.0
        if satisfied == 0.0:
            return candidate
        level = candidate
        left -= below
        sharing -= satisfied
    return math.inf


@kernel
def fill_whole(view: View, grants: Grants) -> float:
    """The same in whole units, rounds of one more unit each in order of submission; returns what is left."""
    jobs, line = view.jobs, view.queue.order[0]
    left = view.machine.units
    count = 0
    for place in range(view.queue.ends[0, HEAD], view.queue.ends[0, TAIL]):
        if left <= 0.0:
            break
        job = line[place]
        if jobs.min_units[job] <= left:  # the first step of a job is its minimum
            grants.job[count] = job
            grants.units[count] = jobs.min_units[job]
            left -= jobs.min_units[job]
            count += 1
    grants.count[0] = count
    while left > 0.0:
        # Everybody at the lowest level rises until the next level, somebody's maximum, or the last unit.
        lowest, ceiling, rising = math.inf, math.inf, 0.0
        for at in range(count):
            units, most = grants.units[at], float(jobs.max_units[grants.job[at]])
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
        last_round = step == 0.0
        for at in range(count):
            if grants.units[at] == lowest and lowest < jobs.max_units[grants.job[at]]:
                if last_round:
                    if left == 0.0:
                        break
                    grants.units[at] += 1.0
                    left -= 1.0
                else:
                    grants.units[at] += step
                    left -= step
    return left


@kernel
def _offer_rest(view: View, grants: Grants, left: float) -> None:
    """Units that the shares left over go to jobs that have none, then to any that can use more, in order."""
    jobs, line = view.jobs, view.queue.order[0]
    served = grants.count[0]
    at, count = 0, served
    for place in range(view.queue.ends[0, HEAD], view.queue.ends[0, TAIL]):
        job = line[place]
        if at < served and grants.job[at] == job:
            at += 1
            continue
        units = min(left, float(jobs.max_units[job]))
        if units > 0.0 and units >= jobs.least[job]:
            grants.job[count] = job
            grants.units[count] = units
            count += 1
            left -= units
    grants.count[0] = count
    for at in range(count):
        more = min(left, jobs.max_units[grants.job[at]] - grants.units[at])
        if more > 0.0:
            grants.units[at] += more
            left -= more


max_min = Policy(
    name="max-min",
    summary="Every job has the same share, unless it can use less.",
    question="Which division of the units is fair at every moment?",
    paper="PCS (OSDI 2024), section 2.1 (fair share)",
    allocate=share,
    reads_progress=False,
)
