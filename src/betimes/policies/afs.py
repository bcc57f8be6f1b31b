"""AFS-L: units one by one to the job for which the next one counts most (AFS, NSDI 2021, algorithm 1; spec 1.5).

The choice of the next receiver is a scan over the jobs in which the present candidate meets one job after the
other. Meeting is not transitive, so the scan cannot be replaced by a heap. But only the receiver changes between
two scans: the candidates before its place are the same as last time, and as soon as the new scan arrives at the
candidate of the old one it can stop.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.core.columns import HEAD, TAIL, Floats, Grants, Ints, View
from betimes.core.kernel import kernel
from betimes.core.transitions import speed
from betimes.policies.hooks import Policy, Prepared, Setting, Value

SMALL_S = 1e-7  # the published code's guard against a division by zero
ONE_EACH_FIRST = 0  # cell of params: whether everybody gets one unit before anybody gets a second


@kernel
def alone_time(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Seconds the job still needs on its first step."""
    jobs = view.jobs
    for k in range(len(chosen)):
        key[k] = jobs.remaining[chosen[k]]


@kernel
def pace(view: View, job: int, units: float) -> float:
    """1 / remaining time on `units`; 0 on none."""
    if units == 0.0:
        return 0.0
    return 1.0 / (view.jobs.remaining[job] / speed(view.speedup, view.jobs.curve[job], units) + SMALL_S)


@kernel
def one_by_one(view: View, now: float, grants: Grants) -> float:
    """Give the units out one by one."""
    active = view.queue.ends[0, TAIL] - view.queue.ends[0, HEAD]
    if view.params[ONE_EACH_FIRST] > 0.0 and active >= view.machine.units:
        _one_each(view, grants)
    else:
        _scan(view, grants, active)
    return math.inf


@kernel
def _one_each(view: View, grants: Grants) -> None:
    """With no fewer jobs than units, one unit each for those shortest on one unit, ties to the later job."""
    line, key = view.queue.order[0], view.jobs.key
    head, tail = view.queue.ends[0, HEAD], view.queue.ends[0, TAIL]
    count = int(view.machine.units)
    last_key = key[line[head + count - 1]]
    first_tied, behind = head + count - 1, head + count
    while first_tied > head and key[line[first_tied - 1]] == last_key:
        first_tied -= 1
    while behind < tail and key[line[behind]] == last_key:
        behind += 1
    surplus = behind - (head + count)
    for at in range(count):
        place = head + at
        grants.job[at] = line[place + surplus if place >= first_tied else place]
        grants.units[at] = 1.0
    grants.count[0] = count


@kernel
def _scan(view: View, grants: Grants, active: int) -> None:
    jobs, line = view.jobs, view.queue.order[0]
    head = view.queue.ends[0, HEAD]
    # In order of submission, whatever the queue's own order.
    crowd = np.empty(active, dtype=np.int64)
    for at in range(active):
        job = line[head + at]
        other = at
        while other > 0 and jobs.seq[crowd[other - 1]] > jobs.seq[job]:
            crowd[other] = crowd[other - 1]
            other -= 1
        crowd[other] = job
    units = np.zeros(active)
    here = np.zeros(active)  # pace on what the job has
    there = np.empty(active)  # pace after its next step
    step = np.empty(active)
    left = view.machine.units
    for at in range(active):
        job = crowd[at]
        step[at] = jobs.min_units[job]
        there[at] = pace(view, job, step[at])
        if view.params[ONE_EACH_FIRST] > 0.0:
            units[at] = 1.0
            here[at] = there[at]
            left -= 1.0
            step[at] = 1.0 if jobs.max_units[job] > 1 else 0.0
            if step[at] > 0.0:
                there[at] = pace(view, job, 2.0)
    candidate = np.empty(active, dtype=np.int64)  # after meeting everybody up to this place; -1: nobody yet
    start, receiver = 0, -1
    while left > 0.0:
        best = candidate[start - 1] if start > 0 else -1
        for at in range(start, active):
            if 0.0 < step[at] <= left:
                best = at if best < 0 else _preferred(best, at, here, there)
            if at > receiver >= 0 and candidate[at] == best and best != receiver:
                break
            candidate[at] = best
        receiver = candidate[active - 1]
        if receiver < 0:
            break
        job = crowd[receiver]
        left -= step[receiver]
        shrunk = step[receiver] > 1.0  # a jump may have put others' first steps out of reach
        units[receiver] += step[receiver]
        here[receiver] = there[receiver]
        step[receiver] = 1.0 if units[receiver] < jobs.max_units[job] else 0.0
        if step[receiver] > 0.0:
            there[receiver] = pace(view, job, units[receiver] + 1.0)
        start = receiver
        if shrunk or left < _largest(step):
            start, receiver = 0, -1
    count = 0
    for at in range(active):
        if units[at] > 0.0:
            grants.job[count] = crowd[at]
            grants.units[count] = units[at]
            count += 1
    grants.count[0] = count


@kernel
def _preferred(candidate: int, other: int, here: Floats, there: Floats) -> int:
    """Which of two jobs gets the next unit: l is the one nearer to its end, h the other (spec 1.5)."""
    low, high = (other, candidate) if here[other] > here[candidate] else (candidate, other)
    if here[low] == 0.0:
        return low if there[low] > there[high] else high
    gain_low = (there[low] - here[low]) / here[low]
    gain_high = (there[high] - here[high]) / there[high]
    return low if gain_low > gain_high else high


@kernel
def _largest(step: Floats) -> float:
    largest = 0.0
    for value in step:
        largest = max(largest, value)
    return largest


def _prepare(values: dict[str, Value | None], setting: Setting) -> Prepared:
    """Where no further unit more than doubles a job's pace, a job without units beats any job that has some."""
    never_doubles = bool(np.all(setting.speedup[:, 2:] <= 2.0 * setting.speedup[:, 1:-1]))
    return Prepared(np.array([float(never_doubles and setting.largest_minimum <= 1)]))


afs = Policy(
    name="afs",
    summary="Units go one by one to the job for which one more counts most, short jobs first.",
    question="How should elastic jobs share units for short completion times?",
    paper="AFS (NSDI 2021), algorithm 1 (AFS-L), as simulated by PCS (OSDI 2024), section 6",
    rank=alone_time,
    allocate=one_by_one,
    prepare=_prepare,
)
