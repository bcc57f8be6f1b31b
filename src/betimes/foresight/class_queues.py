"""The play-out of weighted fair queueing, without asking the policy at every finish.

As long as a class has more jobs than its share serves at the strictest cap, what one of them lets go of goes to the
next of the same class, and no share changes: a step in a heap. A finish in any other class changes the shares, and the
policy is asked. The schedule is the same, event for event.
"""

from __future__ import annotations

import math

from betimes.core.pool.columns import State
from betimes.core.pool.transitions import SLACK_FRAC, regrant
from betimes.foresight.shortcuts import close_ranks, leave_behind, push, sink
from betimes.kernels import kernel
from betimes.policies.pool.wfq import NEARLY_NOTHING, RELAXATIONS

NOT_NOW = -1.0

# Notes about class g, made in the room for a decision: grants[g].job is the job that holds less than its cap, or one
# of these; grants[g].units is what has been let go of; grants[classes + g].job is the place of the next job to serve.
NO_JOB = -1
ASK_AFTERWARDS = -2  # the class has no more jobs than it can serve: after a finish in it the policy decides


@kernel
def drain(copy: State, watch: int) -> float:
    """Let jobs finish while those that wait in their classes take their units.

    Returns when job `watch` finishes; NaN with the copy at the event after which a decision is due; or `NOT_NOW` where
    the next finish calls for a decision anyway, and nothing has been changed.
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
            break  # no job works any more; nor would any after a decision
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
    """Note how the class stands: who holds less than the strictest cap, and who is next.

    In a class that is served beyond that cap a finish changes more than one grant; in one that wants less than a whole
    unit more than it holds, a finish can change the shares.
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
    """What the class has let go of to its next jobs; returns the size of the heap.

    Where it cannot take all of that, or has come close to its demand, a decision is due: `ASK_AFTERWARDS`.
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
        note.job = ASK_AFTERWARDS  # no job holds less than the cap: that is why something is left
    return size


@kernel
def _is_more(units: float, than: float) -> bool:
    """Whether a decision would tell them apart (`apply_grants`)."""
    return units - than > SLACK_FRAC * than


@kernel
def _cap(copy: State, slot: int) -> float:
    """The units that the strictest cap allows the job; no job has a minimum width here."""
    job = copy.jobs[slot]
    if copy.params[RELAXATIONS] == 0.0:
        return float(job.max_units)
    return float(copy.table[job.curve, job.max_units])
