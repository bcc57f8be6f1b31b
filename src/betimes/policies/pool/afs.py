"""AFS-L: units one by one to the job that gains most from the next one (AFS, NSDI 2021, algorithm 1).

The next receiver is found by a scan that compares the present candidate with one job after the other. The comparison is
not transitive, so a heap cannot replace the scan. But only the receiver changes between two scans: the candidates
before its place are the same as last time, and the new scan can stop as soon as it arrives at the candidate of the old
one.
"""

from __future__ import annotations

import numpy as np

from betimes.core.pool.columns import Again, Grant, View
from betimes.core.work import speed
from betimes.kernels import Floats, Ints, Records, full_kernel
from betimes.policies.hooks import Policy, Prepared, Setting, Value

SMALL_S = 1e-7  # the published code's guard against a division by zero
NEVER_DOUBLES = 0  # index in params: whether no further unit more than doubles any job's pace


@full_kernel
def alone_time(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Remaining seconds of the job on one unit."""
    for k in range(len(chosen)):
        key[k] = view.jobs[chosen[k]].remaining_s


@full_kernel
def pace(view: View, slot: int, units: float) -> float:
    """1 / remaining time on `units`."""
    job = view.jobs[slot]
    return 1.0 / (job.remaining_s / speed(view.speedup, job.curve, units) + SMALL_S)


@full_kernel
def one_by_one(view: View, now: float, grants: Records[Grant], again: Records[Again]) -> int:
    """Give the units out one by one."""
    active = view.groups[0].tail - view.groups[0].head
    if _one_each_first(view) and active >= view.pool[0].units:
        return _one_each(view, grants)
    return _scan(view, grants, active)


@full_kernel
def _one_each_first(view: View) -> bool:
    """Whether each job gets one unit before any gets a second."""
    return view.params[NEVER_DOUBLES] > 0.0 and view.pool[0].with_minimum == 0


@full_kernel
def _one_each(view: View, grants: Records[Grant]) -> int:
    """Give a unit each to the jobs shortest on one unit, ties to the later; needs at least as many jobs as units."""
    line, head, tail = view.order[0], view.groups[0].head, view.groups[0].tail
    count = int(view.pool[0].units)
    last_key = view.jobs[line[head + count - 1]].key
    first_tied, behind = head + count - 1, head + count
    while first_tied > head and view.jobs[line[first_tied - 1]].key == last_key:
        first_tied -= 1
    while behind < tail and view.jobs[line[behind]].key == last_key:
        behind += 1
    surplus = behind - (head + count)
    for at in range(count):
        place = head + at
        grants[at].job = line[place + surplus if place >= first_tied else place]
        grants[at].units = 1.0
    return count


@full_kernel
def _scan(view: View, grants: Records[Grant], active: int) -> int:
    line, head, left = view.order[0], view.groups[0].head, view.pool[0].units
    seq = np.empty(active, dtype=np.int64)
    for at in range(active):
        seq[at] = view.jobs[line[head + at]].seq
    # In order of submission, whatever the queue's own order.
    crowd = line[head : head + active][np.argsort(seq)]
    one_each = _one_each_first(view)
    units = np.zeros(active)
    here = np.zeros(active)  # pace on what the job has
    there = np.zeros(active)  # pace after its next step
    step = np.empty(active)
    for at in range(active):
        slot = crowd[at]
        step[at] = view.jobs[slot].min_units
        there[at] = pace(view, slot, step[at])
        if one_each:
            units[at] = 1.0
            left -= 1.0
            here[at] = there[at]
            step[at] = 1.0 if view.jobs[slot].max_units > 1 else 0.0
            if step[at] > 0.0:
                there[at] = pace(view, slot, 2.0)
    candidate = np.empty(active, dtype=np.int64)  # best of the jobs up to this place; -1: none yet
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
        slot = int(crowd[receiver])
        left -= step[receiver]
        units[receiver] += step[receiver]
        here[receiver] = there[receiver]
        step[receiver] = 1.0 if units[receiver] < view.jobs[slot].max_units else 0.0
        if step[receiver] > 0.0:
            there[receiver] = pace(view, slot, float(units[receiver]) + 1.0)
        start = receiver
        if left < np.max(step):  # the first step of some job has come out of reach
            start, receiver = 0, -1
    count = 0
    for at in range(active):
        if units[at] > 0.0:
            grants[count].job = crowd[at]
            grants[count].units = units[at]
            count += 1
    return count


@full_kernel
def _preferred(candidate: int, other: int, here: Floats, there: Floats) -> int:
    """Choose which of two jobs gets the next unit: `low` is the one nearer to its end, `high` the other."""
    low, high = (other, candidate) if here[other] > here[candidate] else (candidate, other)
    if here[low] == 0.0:
        return low if there[low] > there[high] else high
    gain_low = (there[low] - here[low]) / here[low]
    gain_high = (there[high] - here[high]) / there[high]
    return low if gain_low > gain_high else high


def _prepare(values: dict[str, Value | None], setting: Setting) -> Prepared:
    """Compute `NEVER_DOUBLES`: if it holds, a job without units beats any job that has some."""
    never_doubles = bool(np.all(setting.speedup[:, 2:] <= 2.0 * setting.speedup[:, 1:-1]))
    return Prepared(np.array([float(never_doubles)]))


afs = Policy(
    name="afs",
    summary="Units go one by one to the job for which one more counts most, short jobs first.",
    question="How should elastic jobs share units for short completion times?",
    paper="AFS (NSDI 2021), algorithm 1 (AFS-L), as simulated by PCS (OSDI 2024), section 6",
    rank=alone_time,
    allocate=one_by_one,
    prepare=_prepare,
)
