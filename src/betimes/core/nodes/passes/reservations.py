"""Conservative backfilling: every waiting job has a reservation, and none goes ahead at the cost of another's.

Reservations stand: of a time, and of nodes. When something ends early, every waiting job in turn moves up as far as
all other reservations let it (compression), so that none is put off by it. A job that loses its reservation to an
overrun keeps its place in the queue: all behind it give theirs up and have their turn after it.

The plan (`profile`) is worked out in the passes that need one. While all goes as believed no reservation can move: then
jobs that are due start, and only new ones ask for a plan; and where no job has a reservation, they need none either.
Sources: Feitelson and Weil, Utilization and predictability in scheduling the IBM SP2 with backfilling, 1998;
Mu'alem and Feitelson, Utilization, predictability, workloads, and user runtime estimates, 2001.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import ANYTHING, ROOM_FREED, NodesState
from betimes.core.nodes.demands import tasks_that_fit
from betimes.core.nodes.log import room_for_a_decision
from betimes.core.nodes.passes.find_nodes import find_room, see_for
from betimes.core.nodes.passes.profile import (
    claim,
    earliest_s,
    is_kept,
    make_plan,
    may_move_up,
    must_stay,
    sketch_from,
)
from betimes.core.nodes.queue import all_waiting, remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import book, start, start_as_booked, unbook
from betimes.core.shares import is_over_limit
from betimes.core.status import DONE, NEED_STEPS
from betimes.kernels import Ints, kernel


@kernel
def start_as_reserved(state: NodesState, rules: NodesRules) -> int:
    """Let every waiting job in order move up, or give it a reservation, and start those whose time is now.

    No more jobs than `rules.window` have reservations, 0: all. Returns DONE, `find_nodes.BAD_SCORE`, or the room
    that it needs: decisions so far stand, and the same call follows with more of it.
    """
    cluster, pool = state.cluster[0], state.pool[0]
    count = all_waiting(state, state.chosen)
    if cluster.planning == 0:
        pool.decision += 1
        cluster.planning = 1
        cluster.moved = 0
        if _has_slipped(state, state.chosen[:count]):
            cluster.must_replan = ANYTHING
    cluster.steps = 0
    booked = 0
    for k in range(count):
        if state.needs[state.chosen[k]].reservation >= 0:
            booked += 1
    for k in range(count):
        slot = state.chosen[k]
        need, progress = state.needs[slot], state.progress[slot]
        if progress.served_by == pool.decision or (need.reservation < 0 and booked >= rules.window > 0):
            continue
        if is_over_limit(state, slot):
            booked -= _give_up(state, state.chosen[k : k + 1])
            continue
        if need.reservation >= 0 and cluster.must_replan == 0:
            if need.reserved_s <= pool.now and _begin(state, slot):
                booked -= 1
            continue
        room = room_for_a_decision(state)
        if room != DONE:
            return room
        if booked == 0 and cluster.steps == 0:
            # Only running jobs are in the way, and they only end: a job that fits now fits for as long as it takes.
            see_for(state, state.nodes, slot)
            places = find_room(state, rules, state.nodes, slot, -1)
            if places < 0:
                pool.offender = slot
                return places
            if places > 0:
                remove(state, slot)
                start(state, slot, places)
                continue
        if cluster.steps == 0 and not make_plan(state, state.chosen[:count]):
            return NEED_STEPS
        if cluster.steps + 2 * min(need.tasks, len(state.nodes)) > len(state.steps):
            return NEED_STEPS
        progress.served_by = pool.decision
        begin_s = math.inf
        if need.reservation >= 0:
            stands_s = max(need.reserved_s, pool.now)
            stays = cluster.must_replan == ROOM_FREED and not may_move_up(state, slot, stands_s)
            need.freed_seen = cluster.freed
            if stays or must_stay(state, slot, stands_s):
                if stands_s == pool.now and _begin(state, slot):
                    booked -= 1
                continue
            claim(state, slot, stands_s, -1)
            begin_s = earliest_s(state, slot, stands_s)
            if begin_s == math.inf and is_kept(state, slot, stands_s):
                claim(state, slot, stands_s, 1)
                if stands_s == pool.now and _begin(state, slot):
                    booked -= 1
                continue
            if begin_s == math.inf and earliest_s(state, slot, math.inf) > stands_s:
                booked -= _give_up(state, state.chosen[k + 1 : count])
            cluster.moved = cluster.moved or ROOM_FREED
        if begin_s == math.inf:
            begin_s = earliest_s(state, slot, math.inf)
        places = 0
        if begin_s < math.inf:
            sketch_from(state, slot, begin_s)
            places = find_room(state, rules, state.sketch, slot, -1)
        if places < 0:
            pool.offender = slot
            return places
        if need.reservation >= 0:
            unbook(state, slot)
            booked -= 1
        if places == 0:
            continue  # nodes that it needs are closed
        book(state, slot, places, begin_s)
        need.freed_seen = cluster.freed
        booked += 1
        claim(state, slot, begin_s, 1)
        if begin_s == pool.now and _begin(state, slot):
            booked -= 1
    cluster.planning = 0
    cluster.must_replan = cluster.moved
    return DONE


@kernel
def _has_slipped(state: NodesState, waiting: Ints) -> bool:
    """Whether a reservation cannot begin when it should, or a belief shrinks at a different pace."""
    now = state.pool[0].now
    for k in range(len(waiting)):
        need = state.needs[waiting[k]]
        if need.reservation >= 0 and need.reserved_s <= now:
            if need.reserved_s < now or not _has_now(state, waiting[k]):
                return True
    for at in range(state.pool[0].holders):
        if state.progress[state.holders[at]].believed_per_work != 1.0:
            return True
    return False


@kernel
def _begin(state: NodesState, slot: int) -> bool:
    """Start a job on the nodes of its reservation; False: a job shorter than the clock can tell has them."""
    if not _has_now(state, slot):
        state.cluster[0].moved = ANYTHING
        return False
    remove(state, slot)
    start_as_booked(state, slot)
    return True


@kernel
def _has_now(state: NodesState, slot: int) -> bool:
    """Whether there is room now on the nodes of its reservation."""
    see_for(state, state.nodes, slot)
    at = state.needs[slot].reservation
    while at >= 0:
        placement = state.placements[at]
        if tasks_that_fit(state, state.nodes, placement.node, state.needs[slot]) < placement.tasks:
            return False
        at = placement.follows
    return True


@kernel
def _give_up(state: NodesState, behind: Ints) -> int:
    """Take the reservations of these jobs back; returns their number."""
    count = 0
    for k in range(len(behind)):
        need = state.needs[behind[k]]
        if need.reservation >= 0:
            if state.cluster[0].steps > 0:
                claim(state, behind[k], max(need.reserved_s, state.pool[0].now), -1)
            unbook(state, behind[k])
            count += 1
    if count > 0:
        state.cluster[0].moved = ANYTHING
        if state.cluster[0].must_replan == ROOM_FREED:
            state.cluster[0].must_replan = ANYTHING
    return count
