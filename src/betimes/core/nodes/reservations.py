"""Conservative backfilling: every waiting job has a reservation, and nobody goes ahead at the cost of another's.

Reservations stand: of a time, and of nodes. When something ends early, every waiting job in turn moves up as far as
all other reservations let it (compression), so that nobody is put off by it. The plan is a profile: what every node
has free from each instant on, as running jobs are believed to end and reserved ones to begin and end.
Sources: Feitelson and Weil, Utilization and predictability in scheduling the IBM SP2 with backfilling, 1998;
Mu'alem and Feitelson, Utilization, predictability, workloads, and user runtime estimates, 2001.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.core.account import believed_left
from betimes.core.kernel import inlined_kernel, lean_kernel
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.dues import pop_end, push_end
from betimes.core.nodes.queue import all_waiting, remove
from betimes.core.nodes.room import PlaceHook, find_room, has_room, tasks_that_fit
from betimes.core.nodes.transitions import (
    believed_end,
    book,
    give_all,
    restart_s,
    start_as_booked,
    unbook,
)
from betimes.core.places import fits, take

DONE = 0
NEED_ROWS = -3
NEED_PLACEMENTS = -4


@lean_kernel
def start_as_reserved(state: NodesState, place: PlaceHook, spreads: bool, window: int) -> int:
    """Let every waiting job in order move up, or give it a reservation, and start those whose time is now.

    window: jobs that may have reservations, 0: all. Returns DONE, `room.BAD_SCORE`, or NEED_ROWS or NEED_PLACEMENTS:
    what has been decided stands, and it is to be called again with more room.
    """
    cluster, pool = state.cluster[0], state.pool[0]
    if cluster.planning == 0:
        pool.stamp += 1
        cluster.planning = 1
    count = all_waiting(state, state.chosen)
    if not _begin_plan(state, count):
        return NEED_ROWS
    booked = 0
    for k in range(count):
        if state.needs[state.chosen[k]].booked >= 0:
            booked += 1
    for k in range(count):
        slot = state.chosen[k]
        need, progress = state.needs[slot], state.progress[slot]
        if progress.mark == pool.stamp or (need.booked < 0 and booked >= window > 0):
            continue
        if cluster.rows + 2 > len(state.rows):
            return NEED_ROWS
        if cluster.unused < len(state.nodes):
            return NEED_PLACEMENTS
        progress.mark = pool.stamp
        begin_s = pool.now
        if need.booked >= 0:
            begin_s = max(need.promised_s, pool.now)
            _claim(state, slot, begin_s, -1)
        row, places = _earliest(state, slot, place, spreads)
        if places < 0:
            pool.offender = slot
            return places
        if places == 0:  # it never has room as things stand: nodes that it needs take no work
            booked -= 1 if need.booked >= 0 else 0
            unbook(state, slot)
            continue
        if need.booked < 0:
            booked += 1
        if need.booked < 0 or state.instants[row] < begin_s or not _still_has(state, slot, begin_s):
            begin_s = state.instants[row]
            unbook(state, slot)
            book(state, slot, places, begin_s)
        _claim(state, slot, begin_s, 1)
        if begin_s == pool.now and _has_now(state, slot):
            remove(state, slot)
            start_as_booked(state, slot)
            booked -= 1
    cluster.planning = 0
    return DONE


@lean_kernel
def _begin_plan(state: NodesState, count: int) -> bool:
    """The profile of what runs and of the reservations of state.chosen[:count]; False: there are too few rows."""
    cluster, now, nodes = state.cluster[0], state.pool[0].now, len(state.nodes)
    length = 0
    for at in range(state.pool[0].holders):
        holder = state.holders[at]
        length = push_end(state.ends, length, believed_end(state, holder), state.jobs[holder].seq, holder)
    state.rows[0] = 0
    state.instants[0] = now
    cluster.rows = 1
    for number in range(nodes):
        state.profile[number] = state.nodes[number]
    while length > 0:
        length = pop_end(state.ends, length)
        at_s, leaver = state.ends[length].at_s, state.ends[length].slot
        row = cluster.rows - 1
        # Who holds nodes now holds them a while, however small, whatever is believed.
        at_s = max(at_s, np.nextafter(now, math.inf))
        if at_s > state.instants[row]:
            if cluster.rows == len(state.rows):
                return False
            row = cluster.rows
            cluster.rows += 1
            state.rows[row] = row
            state.instants[row] = at_s
            for number in range(nodes):
                state.profile[row * nodes + number] = state.profile[(row - 1) * nodes + number]
        give_all(state, state.profile, leaver, row * nodes)
    for k in range(count):
        slot = state.chosen[k]
        if state.needs[slot].booked >= 0:
            if cluster.rows + 2 > len(state.rows):
                return False
            _claim(state, slot, max(state.needs[slot].promised_s, now), 1)
    return True


@inlined_kernel
def _lasts_s(state: NodesState, slot: int) -> float:
    """How long a waiting job is believed to hold its nodes once it starts.

    Never as a difference of instants: whoever begins when another ends must find the very same instant again.
    """
    return restart_s(state, slot) + believed_left(state, slot, state.pool[0].now)


@lean_kernel
def _earliest(state: NodesState, slot: int, place: PlaceHook, spreads: bool) -> tuple[int, int]:
    """The first row from which the job has room for as long as it takes, and the length of state.plan[:count]."""
    cluster, nodes, count = state.cluster[0], state.sketch, len(state.nodes)
    need, lasts_s = state.needs[slot], _lasts_s(state, slot)
    for row in range(cluster.rows):
        first = state.rows[row] * count
        for number in range(count):
            nodes[number] = state.profile[first + number]
        later, ends_s = row + 1, state.instants[row] + lasts_s
        has = has_room(nodes, need)
        while has and later < cluster.rows and state.instants[later] < ends_s:
            first = state.rows[later] * count
            for number in range(count):
                node, then = nodes[number], state.profile[first + number]
                node.free_gpu = min(node.free_gpu, then.free_gpu)
                node.free_cpu = min(node.free_cpu, then.free_cpu)
                node.free_memory = min(node.free_memory, then.free_memory)
            has = has_room(nodes, need)
            later += 1
        if has:
            return row, find_room(state, nodes, slot, place, spreads, -1)
    return 0, 0


@lean_kernel
def _still_has(state: NodesState, slot: int, begin_s: float) -> bool:
    """Whether the nodes of its reservation have room for the job from `begin_s` on; overruns may have taken it."""
    need, count = state.needs[slot], len(state.nodes)
    row, ends_s = _row_at(state, begin_s), begin_s + _lasts_s(state, slot)
    while row < state.cluster[0].rows and state.instants[row] < ends_s:
        at = need.booked
        while at >= 0:
            placement = state.placements[at]
            node = state.profile[state.rows[row] * count + placement.node]
            if not fits(node, need) or tasks_that_fit(node, need) < placement.tasks:
                return False
            at = placement.follows
        row += 1
    return True


@inlined_kernel
def _has_now(state: NodesState, slot: int) -> bool:
    """Whether there is room now on the nodes of its reservation: a job shorter than the clock can tell claims none."""
    at = state.needs[slot].booked
    while at >= 0:
        placement = state.placements[at]
        if tasks_that_fit(state.nodes[placement.node], state.needs[slot]) < placement.tasks:
            return False
        at = placement.follows
    return True


@lean_kernel
def _claim(state: NodesState, slot: int, begin_s: float, sign: int) -> None:
    """Take what the job's reservation needs out of the profile from `begin_s` on (1), or give it back (-1)."""
    cluster, need, nodes = state.cluster[0], state.needs[slot], len(state.nodes)
    ends_s = begin_s + _lasts_s(state, slot)
    _split(state, begin_s)
    _split(state, ends_s)
    row = _row_at(state, begin_s)
    while row < cluster.rows and state.instants[row] < ends_s:
        at = need.booked
        while at >= 0:
            placement = state.placements[at]
            take(state.profile[state.rows[row] * nodes + placement.node], need, sign * placement.tasks)
            at = placement.follows
        row += 1


@lean_kernel
def _row_at(state: NodesState, at_s: float) -> int:
    """The last row that begins no later than `at_s`."""
    low, high = 0, state.cluster[0].rows
    while high - low > 1:
        middle = (low + high) // 2
        if state.instants[middle] <= at_s:
            low = middle
        else:
            high = middle
    return low


@lean_kernel
def _split(state: NodesState, at_s: float) -> None:
    """Let a row begin at `at_s`, with the content of the one before, if none does."""
    cluster, nodes = state.cluster[0], len(state.nodes)
    row = _row_at(state, at_s)
    if state.instants[row] == at_s or at_s == math.inf:
        return
    for other in range(cluster.rows, row + 1, -1):
        state.rows[other] = state.rows[other - 1]
        state.instants[other] = state.instants[other - 1]
    number = cluster.rows
    state.rows[row + 1] = number
    state.instants[row + 1] = at_s
    cluster.rows += 1
    for node in range(nodes):
        state.profile[number * nodes + node] = state.profile[state.rows[row] * nodes + node]
