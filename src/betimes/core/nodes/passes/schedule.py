"""A scheduling pass: which waiting jobs start now, a function of the state and the policy's hooks alone."""

from __future__ import annotations

import math

import numpy as np

from betimes.core.nodes.columns import BLOCK, GROUP, Bounds, Need, NodesState, Room, view_of
from betimes.core.nodes.directory import (
    begin_tally,
    block_at,
    classes_within,
    end_tally,
    note_least_of_all,
    open_bounds,
    survey,
    tally,
    widen,
)
from betimes.core.nodes.log import room_for_a_decision
from betimes.core.nodes.machines.dedicated import decide_waits
from betimes.core.nodes.machines.rented import see_ends
from betimes.core.nodes.passes.backfilling import note_start
from betimes.core.nodes.passes.ends import make_heap, pop_end, put_end, take_first_end
from betimes.core.nodes.passes.find_nodes import (
    BAD_SCORE,
    OVERBOOKED,
    copy_asked,
    find_room,
    may_any_fit,
    may_fit,
    see_for,
    show,
)
from betimes.core.nodes.passes.preemption import BAD_VICTIM_SCORE, PLANNED
from betimes.core.nodes.queue import (
    all_waiting,
    first,
    rebuild,
    remove,
    remove_at,
)
from betimes.core.nodes.rules import CONSERVATIVE, EASY, SKIP, NodesRules
from betimes.core.nodes.transitions import start, unbook, would_end
from betimes.core.placements import Amounts, Node
from betimes.core.pool.order import goes_before
from betimes.core.shares import begin_order, is_over_limit, order_by_shares
from betimes.core.status import (
    BAD_KEY,
    BAD_PLACE,
    BAD_VICTIM,
    BAD_WRITE,
    DONE,
    NEED_LOG,
    NEED_PLACEMENTS,
    NEED_STEPS,
    REFUSED,
)
from betimes.kernels import FloatTable, Records, full_kernel, kernel

FEW = 8  # newcomers that are tried by themselves, and jobs that are looked for in a queue without order


@kernel
def schedule(state: NodesState, rules: NodesRules) -> int:
    """Start the jobs that can start now, and preempt for those that may.

    Returns DONE, REFUSED + why, or the room it needs: decisions so far stand, and the pass is to be called again.
    """
    cluster = state.cluster[0]
    if cluster.waiting == 0:
        return _complete(state)
    see_ends(state)
    if not rules.dynamic and _are_others_settled(state, rules):
        if cluster.arrived == 0:
            return DONE
        if rules.window == 1 and state.needs[first(state)].freed_seen >= 0:
            return _complete(state)  # the newcomers rank behind the one that did not fit
        if rules.window == 0 and cluster.arrived <= FEW and not (rules.preempts and _is_trial_new(state)):
            if rules.backfill == SKIP or _still_reserved(state):
                return _try_newcomers(state, rules)
    if rules.tick_s > 0.0 and rules.window == 1 and not rules.preempts and not may_any_fit(state):
        return _complete(state)  # in whatever order they stand
    if _goes_by_the_first(state, rules):
        return _start_in_turn(state, rules)
    if rules.dynamic:
        verdict = rank_again(state, rules)
        if verdict != DONE:
            return verdict
    if rules.backfill >= CONSERVATIVE:
        verdict = rules.start_as_reserved(state, rules)
        if verdict in (NEED_STEPS, NEED_PLACEMENTS, NEED_LOG):
            return verdict
        return _complete(state) if verdict == DONE else _refuse(state, state.pool[0].offender, verdict)
    return _walk(state, rules)


@kernel
def _are_others_settled(state: NodesState, rules: NodesRules) -> bool:
    """Whether no job that was in the queue at the last complete pass can start now.

    Mostly because nothing has changed at all. Where jobs may be passed over without a reservation, it is enough that
    nothing was freed on any node: jobs come and go on dedicated machines.
    """
    cluster = state.cluster[0]
    if cluster.seen_change == cluster.changed:
        return True
    return (
        rules.backfill == SKIP
        and rules.window == 0
        and not rules.preempts
        and cluster.seen_freed == cluster.freed
    )


@kernel
def _is_trial_new(state: NodesState) -> bool:
    """Whether a trial job is among the newcomers."""
    for k in range(state.cluster[0].arrived):
        if state.needs[state.newcomers[k]].trial == 1:
            return True
    return False


@kernel
def change_rules(state: NodesState, rules: NodesRules) -> int:
    """Let other rules decide from now on: the queue is in their order if they keep one.

    The next pass relies on no earlier one. Reservations and waiting deadlines are given up, since they depend on the
    rules. Returns DONE, or why an answer cannot be used.
    """
    cluster = state.cluster[0]
    cluster.seen_change = cluster.seen_freed = cluster.reserved = cluster.leavers = -1
    count = all_waiting(state, state.chosen)
    for k in range(count):
        if state.needs[state.chosen[k]].reservation >= 0:
            unbook(state, state.chosen[k])
    if rules.waits:
        status = decide_waits(state, rules)
        if status != DONE:
            return status
    if _goes_by_the_first(state, rules):
        return DONE
    return rank_again(state, rules)


@kernel
def _goes_by_the_first(state: NodesState, rules: NodesRules) -> bool:
    """Whether a pass only ever needs the first of the queue, in an order that is another in each pass.

    Policies that decide at ticks: between them, no job's place in the queue is looked at.
    """
    return (
        rules.dynamic
        and rules.tick_s > 0.0
        and rules.window == 1
        and not rules.preempts
        and len(state.users) == 0
    )


@kernel
def _start_in_turn(state: NodesState, rules: NodesRules) -> int:
    """Start jobs in order up to the first that does not fit; the queue itself stands in any order.

    Mostly the very first does not fit, or one of the next few. A heap gives those that follow them. Returns as
    `schedule` does.
    """
    count, left, tried = all_waiting(state, state.chosen), 0, 0
    verdict = _ask_for_keys(state, rules, count)
    if verdict != DONE:
        return verdict
    first = 0
    for k in range(1, count):
        if state.score[k] < state.score[first] or (
            state.score[k] == state.score[first]
            and state.jobs[state.chosen[k]].seq < state.jobs[state.chosen[first]].seq
        ):
            first = k
    slot = state.chosen[first]
    if not may_fit(state, slot):
        state.needs[slot].freed_seen = state.cluster[0].freed
        return _complete(state)
    for k in range(count):
        if k != first:
            follower = state.chosen[k]
            put_end(state.ends, left, state.score[k], state.jobs[follower].seq, follower)
            left += 1
    while True:
        room = room_for_a_decision(state)
        if room != DONE:
            return room
        places = _room_for(state, rules, slot)
        if places < 0:
            return _refuse(state, slot, places)
        if places == 0:
            return _complete(state)
        remove(state, slot)
        _start_here(state, slot, places)
        if left == 0:
            return _complete(state)
        tried += 1
        if tried == FEW:
            make_heap(state.ends, left)
        left = take_first_end(state.ends, left) if tried < FEW else pop_end(state.ends, left)
        slot = state.ends[left].slot


@kernel
def _complete(state: NodesState) -> int:
    cluster = state.cluster[0]
    cluster.seen_change = cluster.changed
    cluster.seen_freed = cluster.freed
    cluster.arrived = 0
    return DONE


@kernel
def _still_reserved(state: NodesState) -> bool:
    """Whether the first job of the queue has the reservation, on the nodes that a new search would find."""
    cluster = state.cluster[0]
    return cluster.reserved >= 0 and cluster.reserved == first(state) and cluster.outlasts == 0


@kernel
def _refuse(state: NodesState, slot: int, why: int) -> int:
    """Refuse a rule of placement's answer for the job; returns the status."""
    state.pool[0].offender = slot
    return REFUSED + (BAD_WRITE if why == OVERBOOKED else BAD_PLACE)


@kernel
def rank_again(state: NodesState, rules: NodesRules) -> int:
    """Ask for the keys of all waiting jobs, and sort them by it; DONE, or why a key cannot be used."""
    count = all_waiting(state, state.chosen)
    verdict = _ask_for_keys(state, rules, count)
    if verdict == DONE:
        rebuild(state, state.chosen, count, state.score)
    return verdict


@kernel
def _ask_for_keys(state: NodesState, rules: NodesRules, count: int) -> int:
    """Let state.score[:count] be the keys of the jobs state.chosen[:count]; DONE, or why a key cannot be used."""
    now = state.pool[0].now
    if state.cluster[0].guarded == 0:
        rules.rank(view_of(state), now, state.chosen[:count], state.score[:count])
    else:
        show(state, state.nodes)
        copy_asked(state, state.chosen, count)
        rules.rank(view_of(state), now, state.asked[:count], state.score[:count])
    for k in range(count):
        if math.isnan(state.score[k]):
            state.pool[0].offender = state.chosen[k]
            return REFUSED + BAD_KEY
    if len(state.users) > 0:
        return rules.share(state, rules, count)
    return DONE


@full_kernel
def share(state: NodesState, rules: NodesRules, count: int) -> int:
    """Put state.chosen[:count] into the order of their users' shares, within the classes of a policy that has levels.

    state.score[:count], the policy's keys, become their places.
    """
    rank = np.zeros(count, dtype=np.int64)
    if rules.by_level:
        for k in range(count):
            rank[k] = -state.needs[state.chosen[k]].trial
    begin_order(state, True)
    order_by_shares(state, state.chosen[:count], rank, state.score[:count], False)
    return DONE


@kernel
def _try_newcomers(state: NodesState, rules: NodesRules) -> int:
    """Try only the newcomers, in their order: nothing has changed since all other jobs were tried."""
    cluster, newcomers = state.cluster[0], state.newcomers
    for k in range(1, cluster.arrived):
        slot, other = newcomers[k], k
        while other > 0 and goes_before(state.jobs, slot, newcomers[other - 1]):
            newcomers[other] = newcomers[other - 1]
            other -= 1
        newcomers[other] = slot
    for k in range(cluster.arrived):
        slot = newcomers[k]
        if state.needs[slot].holder >= 0:
            continue  # it started before room for placements ran out
        room = room_for_a_decision(state)
        if room != DONE:
            return room
        count = _room_for(state, rules, slot)
        if count < 0:
            return _refuse(state, slot, count)
        if count > 0:
            remove(state, slot)
            _start_here(state, slot, count)
    return _complete(state)


@kernel
def _walk(state: NodesState, rules: NodesRules) -> int:
    """Go through the queue in order: start jobs that fit, and pass over the others, up to the window."""
    cluster = state.cluster[0]
    if cluster.planning == 0:
        cluster.reserved = -1
    cluster.planning = 0
    open_bounds(state.tally[1])
    begin_tally(state)
    passed, at, spot = 0, 0, state.blocks[block_at(state, 0)].head
    may_preempt = rules.preempts
    if len(state.users) > 0:
        _measure_room(state)  # before any job has been tried, whole blocks may be over their users' limits
    while at < cluster.blocks and (rules.window == 0 or passed < rules.window):
        number = block_at(state, at)
        if spot >= state.blocks[number].tail:
            end_tally(state, at, rules.backfill == EASY)
            at, passed = _step_over(state, rules, at + 1, passed, may_preempt)
            if at < cluster.blocks:
                spot = state.blocks[block_at(state, at)].head
            continue
        room = room_for_a_decision(state)
        if room != DONE:
            cluster.planning = 1
            return room
        slot = state.queue[number * BLOCK + spot].slot
        need = state.needs[slot]
        if need.trial == 0 and rules.by_level and cluster.level_mask == 1:
            may_preempt = False  # trial jobs go first, and only they preempt
        if is_over_limit(state, slot):
            tally(state, slot, rules.backfill == EASY)
            spot += 1
            continue
        count = 0 if passed > 0 and _fits_nowhere(state, slot, may_preempt) else _room_for(state, rules, slot)
        if count < 0:
            return _refuse(state, slot, count)
        if count > 0:
            spot = remove_at(state, at, spot)
            _start_here(state, slot, count)
            if passed > 0:  # the start took resources: mostly nothing is left for later jobs
                _measure_room(state)
                if not may_preempt and _can_none_fit(state):
                    return _complete(state)
            continue
        if may_preempt and (cluster.level_mask < 0 or need.trial == 1):
            verdict = rules.preempt(state, rules, slot)
            if verdict == BAD_VICTIM_SCORE:
                return REFUSED + BAD_VICTIM
            if verdict in (BAD_SCORE, OVERBOOKED):
                return _refuse(state, slot, verdict)
            if verdict == PLANNED:
                spot = remove_at(state, at, spot)
                continue
        if passed == 0 and rules.window != 1:
            if rules.backfill == EASY and cluster.reserved != slot:
                found = rules.reserve(state, rules, slot)
                if found < 0:
                    return _refuse(state, slot, found)
            _measure_room(state)
            if not may_preempt and _can_none_fit(state):
                return _complete(state)
        tally(state, slot, rules.backfill == EASY)
        passed += 1
        spot += 1
    if at == cluster.blocks:
        least = state.tally[1]
        note_least_of_all(state, least.gpu, least.cpu, least.memory)
    return _complete(state)


@kernel
def _step_over(
    state: NodesState, rules: NodesRules, at: int, passed: int, may_preempt: bool
) -> tuple[int, int]:
    """The next directory place, from `at` on, of a block in which a job may start; and the jobs passed over."""
    cluster = state.cluster[0]
    while at < cluster.blocks and (rules.window == 0 or passed < rules.window):
        place = cluster.front + at
        if rules.window == 0 and place % GROUP == 0:
            group = place // GROUP
            survey(state, group, cluster.reserved >= 0)
            bounds = state.groups[group]
            if not may_preempt and not _may_start(state, bounds, state.group_least_s, group):
                widen(state.tally[1], bounds.gpu, bounds.cpu, bounds.memory, bounds.classes)
                at += GROUP
                continue
        number = state.directory[place].block
        block = state.blocks[number]
        if may_preempt or _may_start(state, block, state.block_least_s, number):
            break
        widen(state.tally[1], block.gpu, block.cpu, block.memory, block.classes)
        passed += block.tail - block.head
        at += 1
    return min(at, cluster.blocks), passed


@kernel
def _may_start(state: NodesState, bounds: Bounds, least_s: FloatTable, number: int) -> bool:
    """Whether a job within these bounds, least_s[number] among them, may start beside a reservation."""
    cluster = state.cluster[0]
    if not _has_room(state.rooms[0], bounds):
        return False
    classes = bounds.classes & state.rooms[0].classes
    if classes == 0:
        return False
    if cluster.reserved < 0 or (_has_room(state.rooms[1], bounds) and classes & state.rooms[1].classes != 0):
        return True
    kind = 0
    while classes > 0:
        if classes & 1 == 1 and state.pool[0].now + least_s[number, kind] <= cluster.shadow_s:
            return True
        classes //= 2
        kind += 1
    return False


@kernel
def _fits_nowhere(state: NodesState, slot: int, may_preempt: bool) -> bool:
    """Whether some resource alone shows that the job cannot start, beside the reservation if there is one."""
    need, cluster = state.needs[slot], state.cluster[0]
    if not _has_room(state.rooms[0], need):
        return True
    if may_preempt:
        return False
    if need.tasks > 1 and not _has_room_for_all(state.rooms[0], need):
        return True
    return (
        cluster.reserved >= 0
        and not (_has_room(state.rooms[1], need) and _has_room_for_all(state.rooms[1], need))
        and would_end(state, slot) > cluster.shadow_s
    )


@kernel
def _has_room(room: Room, least: Amounts) -> bool:
    """Whether no resource of a task is more than any node has free."""
    return least.gpu <= room.gpu and least.cpu <= room.cpu and least.memory <= room.memory


@kernel
def _has_room_for_all(room: Room, need: Need) -> bool:
    """Whether no resource of all tasks is more than all nodes have free."""
    return (
        need.tasks * need.gpu <= room.all_gpu
        and need.tasks * need.cpu <= room.all_cpu
        and need.tasks * need.memory <= room.all_memory
    )


@kernel
def _can_none_fit(state: NodesState) -> bool:
    """Whether every job of the queue needs more of something than any node has free."""
    cluster, room = state.cluster[0], state.rooms[0]
    return cluster.least_gpu > room.gpu or cluster.least_cpu > room.cpu or cluster.least_memory > room.memory


@kernel
def _room_for(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Nodes for a job that may start now, beside the reservation if there is one (`find_nodes.find_room`)."""
    cluster, need = state.cluster[0], state.needs[slot]
    if cluster.reserved >= 0 and would_end(state, slot) > cluster.shadow_s:
        if may_fit(state, slot):
            see_for(state, state.beside, slot)
            return find_room(state, rules, state.beside, slot, need.freed_seen)
        need.freed_seen = cluster.freed
        return 0
    see_for(state, state.nodes, slot)
    count = find_room(state, rules, state.nodes, slot, need.freed_seen)
    if count == 0:
        need.freed_seen = cluster.freed
    return count


@kernel
def _start_here(state: NodesState, slot: int, count: int) -> None:
    start(state, slot, count)
    if state.cluster[0].reserved >= 0:
        note_start(state, slot, count)


@kernel
def _measure_room(state: NodesState) -> None:
    """Measure into state.rooms the free resources of nodes that are up, and those beside a reservation."""
    _measure(state.nodes, state.rooms[0])
    if state.cluster[0].reserved >= 0:
        _measure(state.beside, state.rooms[1])


@kernel
def _measure(nodes: Records[Node], room: Room) -> None:
    gpu, cpu, memory = 0, 0, 0
    all_gpu, all_cpu, all_memory = 0, 0, 0
    for number in range(len(nodes)):
        node = nodes[number]
        if node.up > 0:
            free_gpu, free_cpu, free_memory = (
                max(0, node.free_gpu),
                max(0, node.free_cpu),
                max(0, node.free_memory),
            )
            gpu, cpu, memory = max(gpu, free_gpu), max(cpu, free_cpu), max(memory, free_memory)
            all_gpu, all_cpu, all_memory = all_gpu + free_gpu, all_cpu + free_cpu, all_memory + free_memory
    room.gpu, room.cpu, room.memory = gpu, cpu, memory
    room.all_gpu, room.all_cpu, room.all_memory = all_gpu, all_cpu, all_memory
    room.classes = classes_within(room)
