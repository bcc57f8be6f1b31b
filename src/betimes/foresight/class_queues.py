"""The play-out of weighted fair queueing, without asking the policy at every finish.

As long as a class has more jobs than its share serves at the strictest cap, units that one of them frees go to the next
of the same class, and no share changes: a step in a heap. A finish in any other class changes the shares and needs a
decision of the policy. The schedule is the same, event for event.
"""

from __future__ import annotations

import math

from betimes.core.pool.columns import State
from betimes.core.pool.transitions import SLACK_FRAC, regrant
from betimes.foresight.shortcuts import close_ranks, leave_behind, push, sink
from betimes.kernels import kernel
from betimes.policies.pool.wfq import NEARLY_NOTHING, RELAXATIONS

NOT_NOW = -1.0

# Notes about class g, kept in the columns of a decision: grants[g].job is the job that holds less than its cap, or one
# of these; grants[g].units are freed units; grants[classes + g].job is the place of the next job to serve.
NO_JOB = -1
ASK_AFTERWARDS = -2  # the class can serve all its jobs: after a finish in it the policy decides


@kernel
def drain(copy: State, watch: int) -> float:
    """Let jobs finish while waiting jobs of their classes take their units.

    Returns the finish of job `watch`; NaN with the copy at the event after which a decision is due; or `NOT_NOW`, with
    the copy unchanged, if the next finish needs a decision anyway.
    """
    pool, jobs, progress = copy.pool[0], copy.jobs, copy.progress
    classes = len(copy.groups)
    if pool.finisher < 0:
        return NOT_NOW
    _look_at(copy, jobs[pool.finisher].group)
    if copy.grants[jobs[pool.finisher].group].job == ASK_AFTERWARDS:
        return NOT_NOW
    for group in range(classes):
        _look_at(copy, group)
    heap, size = copy.holders, 0
    for at in range(pool.holders):
        slot = heap[at]
        if copy.grants[jobs[slot].group].job != slot:
            push(progress, heap, size, slot)
            size += 1
    due = False
    while not due:
        now = progress[heap[0]].finish_at if size > 0 else math.inf
        for group in range(classes):
            growing = copy.grants[group].job
            if growing >= 0:
                now = min(now, progress[growing].finish_at)
        if now == math.inf:
            break  # no job runs, and none would after a decision
        pool.now = now
        while size > 0 and progress[heap[0]].finish_at == now:
            slot = heap[0]
            if slot == watch:
                return now
            size -= 1
            sink(progress, heap, size, heap[size])
            group = jobs[slot].group
            copy.grants[group].units += leave_behind(copy, slot)
            due = due or copy.grants[group].job == ASK_AFTERWARDS
        for group in range(classes):
            growing = copy.grants[group].job
            if growing >= 0 and progress[growing].finish_at == now:
                if growing == watch:
                    return now
                copy.grants[group].units += leave_behind(copy, growing)
                copy.grants[group].job = NO_JOB
        for group in range(classes):
            if not due and copy.grants[group].units > 0.0:
                size = _pass_on(copy, group, size)
                due = copy.grants[group].job == ASK_AFTERWARDS
    for group in range(classes):
        growing = copy.grants[group].job
        if growing >= 0:
            heap[size] = growing
            size += 1
        close_ranks(copy, group)
    pool.holders = size
    return math.nan


@kernel
def _look_at(copy: State, group: int) -> None:
    """Note the job of the class that holds less than the strictest cap, and the next job to serve.

    In a class served beyond that cap, a finish changes more than one grant; in a class whose demand exceeds its units
    by less than one, a finish can change the shares.
    """
    note, line, group_of = copy.grants[group], copy.order[group], copy.groups[group]
    note.job = NO_JOB
    note.units = 0.0
    held, place = 0.0, group_of.head
    while place < group_of.tail:
        slot = line[place]
        units = copy.jobs[slot].units
        cap = _cap(copy, slot)
        if units > cap:
            note.job = ASK_AFTERWARDS
            return
        held += units
        if _is_more(cap, units):
            if units > 0.0:
                note.job = slot
                place += 1
            break
        place += 1
    copy.grants[len(copy.groups) + group].job = place
    copy.grants[len(copy.groups) + group].units = held
    is_behind = place < group_of.tail and copy.jobs[line[place]].units > 0.0
    if is_behind or group_of.demand < held + 1.0:
        note.job = ASK_AFTERWARDS


@kernel
def _pass_on(copy: State, group: int, size: int) -> int:
    """Hand the class's freed units to its next jobs; returns the size of the heap.

    If they cannot take them all, or the class is close to its demand, a decision is due: `ASK_AFTERWARDS`.
    """
    note, more = copy.grants[group], copy.grants[len(copy.groups) + group]
    line, now = copy.order[group], copy.pool[0].now
    if copy.groups[group].demand < more.units + 1.0:
        if note.job >= 0:
            copy.holders[size] = note.job
            size += 1
        note.job = ASK_AFTERWARDS
        return size
    freed = note.units
    note.units = 0.0
    if note.job >= 0:
        slot = note.job
        cap = _cap(copy, slot)
        units = min(freed + copy.jobs[slot].units, cap)
        freed -= units - copy.jobs[slot].units
        if _is_more(units, copy.jobs[slot].units):
            regrant(copy, slot, units, now)
        if not _is_more(cap, units):
            push(copy.progress, copy.holders, size, slot)
            size += 1
            note.job = NO_JOB
    while freed > NEARLY_NOTHING and more.job < copy.groups[group].tail:
        slot = line[more.job]
        more.job += 1
        cap = _cap(copy, slot)
        units = min(freed, cap)
        freed -= units
        regrant(copy, slot, units, now)
        if _is_more(cap, units):
            note.job = slot
        else:
            push(copy.progress, copy.holders, size, slot)
            size += 1
    if freed > NEARLY_NOTHING:
        note.job = ASK_AFTERWARDS  # units are left because no job holds less than the cap
    return size


@kernel
def _is_more(units: float, than: float) -> bool:
    """Whether `apply_grants` would treat the two grants as different."""
    return units - than > SLACK_FRAC * than


@kernel
def _cap(copy: State, slot: int) -> float:
    """The units that the strictest cap allows the job; no job has a minimum width here."""
    job = copy.jobs[slot]
    if copy.params[RELAXATIONS] == 0.0:
        return float(job.max_units)
    return float(copy.table[job.curve, job.max_units])
