"""Shortcuts of play-outs that need no decision of the policy.

Under an overload a play-out passes thousands of finishes before the newest job's turn comes. Under some policies the
order of service does not depend on events on the way, so that a finish costs a step in a heap and not a decision. The
schedule is the same, event for event; a policy declares which of these ways holds for it.
"""

from __future__ import annotations

import math

from betimes.core.pool.columns import Progress, State
from betimes.core.pool.feasible_grants import curtails
from betimes.core.pool.transitions import regrant
from betimes.kernels import Each, Ints, kernel
from betimes.policies.hooks import BY_CLASS, EQUAL_SHARES, IN_ORDER, ONE_EACH_IN_ORDER


@kernel
def applies(copy: State, way: int) -> bool:
    """Whether the play-out can go `way` from here: no minimum widths, and an overload if the way needs one.

    If the core curtails decisions, the order of service does depend on events on the way.
    """
    if curtails(copy) and not (way == IN_ORDER and has_room_for_all_units(copy)):
        return False
    pool = copy.pool[0]
    if way == IN_ORDER:
        return pool.with_minimum == 0
    if way == BY_CLASS:
        # Room for the notes of `class_queues`, which use the columns of decisions.
        return pool.with_minimum == 0 and 2 * len(copy.groups) <= len(copy.grants)
    if way == ONE_EACH_IN_ORDER:
        return pool.with_minimum == 0 and pool.fractional == 0 and pool.active >= pool.units
    if way == EQUAL_SHARES:
        return (
            pool.with_minimum == 0
            and pool.fractional == 1
            and pool.active > pool.units
            and pool.restart_s == 0.0
        )
    return False


@kernel
def has_room_for_all_units(copy: State) -> bool:
    """Whether every free unit of the pool finds room on a node for any job, so that nothing is curtailed.

    A node counts with the number of units that it holds if each takes the largest demand of any job per resource. If
    all nodes together hold at least as many units as the pool has, then wherever the units in use are, the nodes with
    fewer units than they count with have room for all the others.
    """
    pool = copy.pool[0]
    if pool.resize_interval_s > 0.0 or pool.resize_gain == 1 or len(copy.closings) > 0:
        return False
    gpu, cpu, memory = 0, 0, 0
    for number in range(len(copy.groups)):
        group = copy.groups[number]
        for place in range(group.head, group.tail):
            footprint = copy.footprints[copy.order[number, place]]
            gpu, cpu = max(gpu, footprint.gpu), max(cpu, footprint.cpu)
            memory = max(memory, footprint.memory)
    units, wanted = 0, math.ceil(pool.units)
    for number in range(len(copy.nodes)):
        node = copy.nodes[number]
        if node.up == 0:
            continue
        fitting = wanted - units
        if gpu > 0:
            fitting = min(fitting, node.gpu // gpu)
        if cpu > 0:
            fitting = min(fitting, node.cpu // cpu)
        if memory > 0:
            fitting = min(fitting, node.memory // memory)
        units += fitting
    return units >= wanted


@kernel
def play_in_order(copy: State) -> bool:
    """Play a pool whose units go down the queue to its end; False: the policy must decide at every event.

    A job's account has its start and finish (`started_s`, `finish_at`; infinity: never). The nodes of its units are not
    tracked.
    """
    pool, line, head = copy.pool[0], copy.order[0], copy.groups[0].head
    if pool.pending == 1 or pool.used > pool.units or not applies(copy, IN_ORDER):
        return False
    for at in range(pool.holders):
        job = copy.jobs[line[head + at]]
        if job.units <= 0.0 or (at < pool.holders - 1 and job.units < job.max_units):
            return False
    hand_down(copy, False, -1)
    return True


@kernel
def hand_down(copy: State, one_each: bool, watch: int) -> float:
    """Hand freed units down the queue, to each job as many as it can use, or one with `one_each`.

    Returns the finish of job `watch`, or the last finish (-1: none is watched). With `one_each` returns NaN, with the
    copy at the event after which there are fewer jobs than units: a job may then have several, and a decision is due.
    """
    pool, jobs, progress = copy.pool[0], copy.jobs, copy.progress
    line, heap = copy.order[0], copy.holders
    tail = copy.groups[0].tail
    following = copy.groups[0].head + pool.holders  # jobs that hold units come first in the queue
    size = 0
    # The last job served may hold less than it can use. It is kept out of the heap: its finish may change.
    growing = -1
    for at in range(pool.holders):
        slot = line[copy.groups[0].head + at]
        if at == pool.holders - 1 and not one_each and jobs[slot].units < jobs[slot].max_units:
            growing = slot
        else:
            push(progress, heap, size, slot)
            size += 1
    while True:
        if watch < 0:
            if size == 0 and growing < 0:
                return pool.now
        elif growing != watch and jobs[watch].units > 0.0 and not one_each:
            return progress[watch].finish_at  # the job has all it can use, and keeps it
        now = progress[heap[0]].finish_at if size > 0 else math.inf
        if growing >= 0:
            now = min(now, progress[growing].finish_at)
        pool.now = now
        freed = pool.units - pool.used
        while size > 0 and progress[heap[0]].finish_at == now:
            slot = heap[0]
            if slot == watch:
                return now
            size -= 1
            sink(progress, heap, size, heap[size])
            freed += leave_behind(copy, slot)
        if growing >= 0 and progress[growing].finish_at == now:
            if growing == watch:
                return now
            freed += leave_behind(copy, growing)
            growing = -1
        if one_each and pool.active < pool.units:
            pool.holders = size
            close_ranks(copy, 0)
            return math.nan
        if growing >= 0:
            units = min(freed + jobs[growing].units, float(jobs[growing].max_units))
            freed -= units - jobs[growing].units
            if units > jobs[growing].units:
                regrant(copy, growing, units, now)
            if units == jobs[growing].max_units:
                push(progress, heap, size, growing)
                size += 1
                growing = -1
        while freed > 0.0 and following < tail:
            slot = line[following]
            following += 1
            most = 1.0 if one_each else float(jobs[slot].max_units)
            units = min(freed, most)
            freed -= units
            regrant(copy, slot, units, now)
            if units < most:
                growing = slot
            else:
                push(progress, heap, size, slot)
                size += 1
        pool.used = pool.units - freed


@kernel
def share_equally(copy: State, watch: int) -> float:
    """Run all jobs at one pace, in the order of work left, while there are at least as many jobs as units.

    Returns the finish of job `watch`, or NaN with the copy at the event after which there are fewer jobs than
    units: a decision is due.
    """
    pool, jobs, progress = copy.pool[0], copy.jobs, copy.progress
    line, head, tail = copy.order[0], copy.groups[0].head, copy.groups[0].tail
    now = pool.now
    for place in range(head, tail):
        account = progress[line[place]]
        account.work_left = max(0.0, account.work_left - account.rate * (now - account.since))
        account.since = now
        account.believed_left = account.work_left
    _sort_by_work(progress, line, head, tail)
    done, place = 0.0, head
    while tail - place >= pool.units:
        slot = line[place]
        now += (progress[slot].work_left - done) * (float(tail - place) / pool.units)
        done = progress[slot].work_left
        if slot == watch:
            return now
        leave_behind(copy, slot)
        place += 1
    pool.now = now
    count = 0
    for rest in range(place, tail):
        slot = line[rest]
        account = progress[slot]
        account.work_left -= done
        account.believed_left = account.work_left
        account.since = now
        copy.holders[count] = slot
        count += 1
        earlier = rest
        while earlier > place and jobs[line[earlier - 1]].seq > jobs[slot].seq:
            line[earlier] = line[earlier - 1]
            earlier -= 1
        line[earlier] = slot
    pool.holders = count
    copy.groups[0].head = place
    return math.nan


@kernel
def leave_behind(copy: State, slot: int) -> float:
    """End a job of the copy; returns the units it held. `close_ranks` takes it out of the queue."""
    job, pool = copy.jobs[slot], copy.pool[0]
    units = job.units
    job.units = 0.0
    copy.progress[slot].served_by = -1
    pool.active -= 1
    copy.groups[job.group].demand -= min(float(job.max_units), pool.units)
    return units


@kernel
def close_ranks(copy: State, number: int) -> None:
    """Take finished jobs out of the queue of a group."""
    group, line = copy.groups[number], copy.order[number]
    kept = group.head
    for place in range(group.head, group.tail):
        if copy.progress[line[place]].served_by >= 0:
            line[kept] = line[place]
            kept += 1
    group.tail = kept


@kernel
def push(progress: Each[Progress], heap: Ints, size: int, slot: int) -> None:
    """Add a job to the heap of `size` jobs, the first to finish on top."""
    at, finish_at = size, progress[slot].finish_at
    while at > 0:
        parent = (at - 1) // 2
        if progress[heap[parent]].finish_at <= finish_at:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = slot


@kernel
def sink(progress: Each[Progress], heap: Ints, size: int, slot: int) -> None:
    """Put a job in the place of the heap's top and let it sink; `size` jobs remain."""
    at, finish_at = 0, progress[slot].finish_at
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and progress[heap[child + 1]].finish_at < progress[heap[child]].finish_at:
            child += 1
        if progress[heap[child]].finish_at >= finish_at:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = slot


@kernel
def _sort_by_work(progress: Each[Progress], line: Ints, head: int, tail: int) -> None:
    """Heap sort of line[head:tail] by work left, smallest first."""
    size = tail - head
    for start in range(size // 2 - 1, -1, -1):
        _sift(progress, line, head, start, size)
    for last in range(size - 1, 0, -1):
        line[head], line[head + last] = line[head + last], line[head]
        _sift(progress, line, head, 0, last)


@kernel
def _sift(progress: Each[Progress], line: Ints, head: int, at: int, size: int) -> None:
    slot = line[head + at]
    work = progress[slot].work_left
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if (
            child + 1 < size
            and progress[line[head + child + 1]].work_left > progress[line[head + child]].work_left
        ):
            child += 1
        if progress[line[head + child]].work_left <= work:
            break
        line[head + at] = line[head + child]
        at = child
    line[head + at] = slot
