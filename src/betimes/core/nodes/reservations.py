"""Conservative backfilling: every waiting job has a reservation, and nobody goes ahead at the cost of an earlier one.

The plan is a profile: what every node has free from each instant on, as running jobs are believed to end and
reserved jobs to begin and end. It is made anew at every pass, so that time gained by jobs that end early is used
(compression), in the order of the reservations that stand, so that nobody loses by it.
Source: Feitelson and Weil, Utilization and predictability in scheduling the IBM SP2 with backfilling, 1998.
"""

from __future__ import annotations

import math

from betimes.core.kernel import inlined_kernel, lean_kernel
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.dues import pop_end, push_end
from betimes.core.nodes.queue import all_waiting, remove
from betimes.core.nodes.room import PlaceHook, find_room, has_room
from betimes.core.nodes.transitions import believed_end, give_all, start, take, would_end

DONE = 0
NEED_ROWS = -3
NEED_PLACEMENTS = -4


@lean_kernel
def start_as_reserved(state: NodesState, place: PlaceHook, spreads: bool, window: int) -> int:
    """Plan the waiting jobs, the first `window` that have to wait (0: all), and start those whose time is now.

    Returns DONE, NEED_ROWS or NEED_PLACEMENTS (what has started stands; call it again with more room), or
    `room.BAD_SCORE`.
    """
    cluster, chosen, made = state.cluster[0], state.chosen, state.ends
    if not _begin_plan(state):
        return NEED_ROWS
    count = all_waiting(state, chosen)
    _sort_by_promise(state, count)
    waiting = 0
    for k in range(count):
        if cluster.rows + 2 > len(state.rows):
            return NEED_ROWS
        if cluster.unused < len(state.nodes):
            return NEED_PLACEMENTS
        slot = chosen[k]
        row, places = _earliest(state, slot, place, spreads)
        if places < 0:
            state.pool[0].offender = slot
            return places
        made[waiting].at_s = state.instants[row]
        made[waiting].slot = slot
        ends_s = _end_of(state, slot, row)
        if row == 0:
            remove(state, slot)
            start(state, slot, places)
        else:
            waiting += 1
        _reserve(state, slot, places, row, ends_s)
        if waiting == window > 0:
            break
    for k in range(waiting):  # only now: a pass that is called again must find the order that it had
        state.needs[made[k].slot].promised_s = made[k].at_s
    return DONE


@lean_kernel
def _sort_by_promise(state: NodesState, count: int) -> None:
    """Those with a reservation first, in its order; the others as they stand in the queue.

    In this order each job finds at least the place that it was promised: whoever was to start before it starts no
    later now, and so is gone no later. (On several nodes it may have moved to others.)
    """
    chosen = state.chosen
    for k in range(1, count):
        slot, other = chosen[k], k
        promised_s = state.needs[slot].promised_s
        while other > 0 and state.needs[chosen[other - 1]].promised_s > promised_s:
            chosen[other] = chosen[other - 1]
            other -= 1
        chosen[other] = slot


@lean_kernel
def _begin_plan(state: NodesState) -> bool:
    """The profile of what runs: from now on, and from each instant at which something is believed to end."""
    cluster, now, count = state.cluster[0], state.pool[0].now, len(state.nodes)
    length = 0
    for at in range(state.pool[0].holders):
        holder = state.holders[at]
        length = push_end(state.ends, length, believed_end(state, holder), state.jobs[holder].seq, holder)
    state.rows[0] = 0
    state.instants[0] = now
    cluster.rows = 1
    for number in range(count):
        state.profile[number] = state.nodes[number]
    while length > 0:
        length = pop_end(state.ends, length)
        at_s, leaver = state.ends[length].at_s, state.ends[length].slot
        row = cluster.rows - 1
        if at_s > state.instants[row]:
            if cluster.rows == len(state.rows):
                return False
            row = cluster.rows
            cluster.rows += 1
            state.rows[row] = row
            state.instants[row] = at_s
            for number in range(count):
                state.profile[row * count + number] = state.profile[(row - 1) * count + number]
        give_all(state, state.profile, leaver, row * count)
    return True


@inlined_kernel
def _end_of(state: NodesState, slot: int, row: int) -> float:
    """When the job would be done if it started at the instant of `row`."""
    return state.instants[row] + (would_end(state, slot) - state.pool[0].now)


@lean_kernel
def _earliest(state: NodesState, slot: int, place: PlaceHook, spreads: bool) -> tuple[int, int]:
    """The first row from which the job has room for as long as it takes, and the length of state.plan[:count]."""
    cluster, nodes, count = state.cluster[0], state.sketch, len(state.nodes)
    need = state.needs[slot]
    for row in range(cluster.rows):
        first = state.rows[row] * count
        for number in range(count):
            nodes[number] = state.profile[first + number]
        later, ends_s = row + 1, _end_of(state, slot, row)
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
def _reserve(state: NodesState, slot: int, count: int, row: int, ends_s: float) -> None:
    """Take what the job needs on the nodes of state.plan[:count] out of the profile, from `row` until `ends_s`."""
    cluster, need, nodes = state.cluster[0], state.needs[slot], len(state.nodes)
    last = row
    while last + 1 < cluster.rows and state.instants[last + 1] < ends_s:
        last += 1
    if ends_s < math.inf and (last + 1 == cluster.rows or state.instants[last + 1] > ends_s):
        _split(state, last, ends_s)
    for between in range(row, last + 1):
        first = state.rows[between] * nodes
        for k in range(count):
            take(state.profile[first + state.plan[k].node], need, state.plan[k].tasks)


@inlined_kernel
def _split(state: NodesState, row: int, at_s: float) -> None:
    """A new row behind `row`, from `at_s` on, with the same content."""
    cluster, nodes = state.cluster[0], len(state.nodes)
    for other in range(cluster.rows, row + 1, -1):
        state.rows[other] = state.rows[other - 1]
        state.instants[other] = state.instants[other - 1]
    number = cluster.rows
    state.rows[row + 1] = number
    state.instants[row + 1] = at_s
    cluster.rows += 1
    for node in range(nodes):
        state.profile[number * nodes + node] = state.profile[state.rows[row] * nodes + node]
