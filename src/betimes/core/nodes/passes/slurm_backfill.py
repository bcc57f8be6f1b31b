"""Planning as Slurm does (`sched/backfill`): anew at each pass, in order of priority, to a depth and a horizon.

First the main scheduler's pass: jobs start in order, and one that cannot keeps the nodes of its partition from all
behind it. Then each job to a depth is planned: at the earliest time at which enough nodes that no job before it is to
have are free. A plan has whole nodes, and begins and ends at multiples of the resolution. The ends of running jobs are
seen in intervals that double: a job that needs several of these ends is planned at the last of an interval.
`docs/notes/slurm-backfill.md` has what was measured of Slurm.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.core.nodes.believed_ends import believed_end
from betimes.core.nodes.columns import WORD, Need, NodesState
from betimes.core.nodes.demands import give_on, tasks_within
from betimes.core.nodes.log import room_for_a_decision
from betimes.core.nodes.passes.ends import pop_end, push_end, put_end
from betimes.core.nodes.passes.find_nodes import find_room, may_fit, see_for
from betimes.core.nodes.passes.profile import lasts
from betimes.core.nodes.queue import all_waiting, remove
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import start
from betimes.core.placements import suits
from betimes.core.shares import is_over_limit
from betimes.core.status import DONE, NEED_STEPS
from betimes.kernels import Ints, kernel


@kernel
def backfill_as_slurm(state: NodesState, rules: NodesRules) -> int:
    """Start what may start now; jobs are planned as far as this takes.

    Returns DONE, `find_nodes.BAD_SCORE`, or the room that it needs: decisions so far stand, and the same call follows.
    """
    return _plan(state, rules, False)


@kernel
def plan_as_slurm(state: NodesState, rules: NodesRules) -> int:
    """The same, with all jobs planned: `Need.reserved_s` is what `squeue --start` shows of those that wait."""
    return _plan(state, rules, True)


@kernel
def _plan(state: NodesState, rules: NodesRules, plans_all: bool) -> int:
    cluster, pool = state.cluster[0], state.pool[0]
    cluster.steps = 0
    count = all_waiting(state, state.chosen)
    status = _start_in_order(state, rules, state.chosen[:count])
    if status != DONE:
        return status
    wanted = _candidates(state, rules, state.chosen[:count], plans_all)
    if wanted == 0:
        return DONE
    for number in range(len(state.nodes)):
        sketch = state.sketch[number]
        sketch.gpu, sketch.cpu, sketch.memory = (
            state.nodes[number].gpu,
            state.nodes[number].cpu,
            state.nodes[number].memory,
        )
        sketch.labels = state.nodes[number].labels
    state.steps[0].at_s = pool.now
    state.steps[0].follows = -1
    cluster.steps = 1
    for at in range(_words(state)):
        state.claimed[at] = 0
    for at in range(len(state.closings)):
        closing = state.closings[at]
        if closing.to_s > pool.now:
            if cluster.steps + 2 > len(state.steps):
                return NEED_STEPS
            state.plan[0].node = closing.node
            _claim(state, 1, closing.from_s, closing.to_s)
    running, planned = _running(state), 0
    for k in range(count):
        if not plans_all:
            wanted = _still_wanted(state, rules, k, wanted)
        if k >= wanted:
            break
        slot = state.chosen[k]
        need = state.needs[slot]
        if need.holder >= 0 or is_over_limit(state, slot):
            continue
        if planned == rules.depth > 0:
            break
        planned += 1
        status = room_for_a_decision(state)
        if status != DONE:
            return status
        if cluster.steps + 2 > len(state.steps):
            return NEED_STEPS
        begin_s, places = _earliest(state, rules, slot, running)
        if places < 0:
            pool.offender = slot
            return places
        if plans_all:
            need.reserved_s = begin_s if places > 0 else math.inf
        if places == 0:
            continue
        if begin_s == pool.now:
            remove(state, slot)
            start(state, slot, places)
            running = _insert(state, running, slot)
            continue
        from_s, to_s = _rounded(begin_s, rules), _rounded(begin_s + lasts(state, slot), rules)
        _claim(state, places, from_s, to_s)
    return DONE


@kernel
def _start_in_order(state: NodesState, rules: NodesRules, waiting: Ints) -> int:
    """The main scheduler's pass. A partition is the nodes that suit a job: those of one that cannot start are left."""
    for number in range(len(state.nodes)):
        state.sketch[number] = state.nodes[number]
    left = len(state.nodes)
    for k in range(len(waiting)):
        slot = waiting[k]
        need = state.needs[slot]
        if is_over_limit(state, slot):
            continue
        status = room_for_a_decision(state)
        if status != DONE:
            return status
        see_for(state, state.sketch, slot)
        places = find_room(state, rules, state.sketch, slot, -1)
        if places < 0:
            state.pool[0].offender = slot
            return places
        if places > 0:
            remove(state, slot)
            start(state, slot, places)
            for at in range(places):
                state.sketch[state.plan[at].node] = state.nodes[state.plan[at].node]
            continue
        for number in range(len(state.nodes)):
            if suits(state.sketch[number], need):
                state.sketch[number].up = 0
                left -= 1
        if left <= 0:
            break
    return DONE


@kernel
def _candidates(state: NodesState, rules: NodesRules, waiting: Ints, plans_all: bool) -> int:
    """How many of the waiting jobs have to be planned: up to the last that has room now, claims aside."""
    if plans_all:
        return len(waiting)
    tried, wanted = 0, 0
    for k in range(len(waiting)):
        slot = waiting[k]
        if state.needs[slot].holder >= 0 or is_over_limit(state, slot):
            continue
        if tried == rules.depth > 0:
            break
        tried += 1
        if may_fit(state, slot):
            wanted = k + 1
        else:
            state.needs[slot].freed_seen = state.cluster[0].freed
    return wanted


@kernel
def _still_wanted(state: NodesState, rules: NodesRules, first: int, wanted: int) -> int:
    """How many jobs have to be planned now that some are: up to the last that could start beside these plans."""
    for k in range(wanted - 1, first - 1, -1):
        slot = state.chosen[k]
        need = state.needs[slot]
        if need.holder < 0 and need.freed_seen != state.cluster[0].freed:
            _unclaimed(state, 0, _in_the_way_s(state.pool[0].now + lasts(state, slot), rules))
            together = 0
            for number in range(len(state.nodes)):
                node = state.nodes[number]
                if suits(node, need) and _is_open(state, number):
                    together += max(0, tasks_within(state, node, number, need))
                    if together >= need.tasks:
                        return k + 1
    return first


@kernel
def _in_the_way_s(ends_s: float, rules: NodesRules) -> float:
    """Plans that begin before this instant are in the way of a job that ends at `ends_s`; rounded ones at it, too."""
    return np.nextafter(ends_s, math.inf) if rules.resolution_s > 0.0 else ends_s


@kernel
def _earliest(state: NodesState, rules: NodesRules, slot: int, running: int) -> tuple[float, int]:
    """When the job is planned, and its number of places, state.plan[:places]; 0: it is not within the horizon."""
    need, now, lasts_s = state.needs[slot], state.pool[0].now, lasts(state, slot)
    start_s, number = now, 0
    never_before_s = _ends_needed(state, need, running, 0.0, True)
    if never_before_s == math.inf:
        return math.inf, 0
    while start_s <= now + rules.horizon_s:
        following = state.steps[number].follows
        later_s = state.steps[following].at_s if following >= 0 else math.inf
        if later_s >= never_before_s:
            _unclaimed(state, number, _in_the_way_s(start_s + lasts_s, rules))
            begin_s = max(start_s, _ends_needed(state, need, running, rules.precision_s, False))
            if begin_s == start_s:
                return begin_s, find_room(state, rules, state.sketch, slot, -1)
            if begin_s < later_s:  # other plans may be in the way from then on
                start_s = begin_s
                continue
        if following < 0:
            break
        start_s, number = later_s, following
    return math.inf, 0


@kernel
def _ends_needed(state: NodesState, need: Need, running: int, precision_s: float, on_all: bool) -> float:
    """From when on the job's tasks fit on the nodes without claims (`_unclaimed`), as running jobs end; state.sketch is
    how these nodes are then. on_all: on all nodes that it suits, no matter what others are to have.

    precision_s: the ends are seen in intervals, the first of this length from the first end on, each up to twice as far
    from it as the one before; 0: one by one.
    """
    now, together = state.pool[0].now, 0
    for number in range(len(state.nodes)):
        node, sketch = state.nodes[number], state.sketch[number]
        is_open = suits(node, need) and (on_all or _is_open(state, number))
        sketch.up = int(is_open)
        if is_open:
            sketch.free_gpu = max(0, node.free_gpu)
            sketch.free_cpu = max(0, node.free_cpu)
            sketch.free_memory = max(0, node.free_memory)
            together += tasks_within(state, sketch, number, need)
    if together >= need.tasks:
        return now
    if not on_all and _most_together(state, need) < need.tasks:
        return math.inf
    last_s, until_s, length_s = -math.inf, -math.inf, precision_s
    first_s = math.inf
    for at in range(running - 1, -1, -1):
        end = state.ends[at]
        place = state.needs[end.slot].placed
        is_first = True
        while place >= 0:
            placement = state.placements[place]
            place = placement.follows
            sketch = state.sketch[placement.node]
            if sketch.up == 0:
                continue
            if is_first:
                is_first = False
                if end.at_s > until_s:
                    if together >= need.tasks:
                        return last_s
                    if precision_s > 0.0:
                        if first_s == math.inf:
                            first_s = math.ceil(end.at_s / precision_s) * precision_s
                        while end.at_s > first_s + length_s:
                            length_s *= 2.0
                        until_s = first_s + length_s
                    else:
                        until_s = end.at_s
                last_s = end.at_s
            together -= tasks_within(state, sketch, placement.node, need)
            give_on(state, sketch, placement.node, state.needs[end.slot], placement.tasks)
            together += tasks_within(state, sketch, placement.node, need)
    return last_s if together >= need.tasks else math.inf


@kernel
def _most_together(state: NodesState, need: Need) -> int:
    """The job's tasks that fit on the nodes of state.sketch once nothing runs there."""
    together = 0
    for number in range(len(state.nodes)):
        if state.sketch[number].up > 0:
            node, whole = state.nodes[number], state.beside[number]
            whole.free_gpu, whole.free_cpu, whole.free_memory = node.gpu, node.cpu, node.memory
            together += tasks_within(state, whole, number, need)
            if together >= need.tasks:
                break
    return together


@kernel
def _running(state: NodesState) -> int:
    """Let state.ends be the jobs that hold nodes, the last to end first; returns their number."""
    length, soon_s = 0, np.nextafter(state.pool[0].now, math.inf)
    for at in range(state.pool[0].holders):
        slot = state.holders[at]
        length = push_end(
            state.ends, length, max(believed_end(state, slot), soon_s), state.jobs[slot].seq, slot
        )
    running = length
    while length > 0:
        length = pop_end(state.ends, length)
    return running


@kernel
def _insert(state: NodesState, running: int, slot: int) -> int:
    """Add a job that has just started to state.ends; returns their number."""
    at_s = max(believed_end(state, slot), np.nextafter(state.pool[0].now, math.inf))
    at = running
    while at > 0 and state.ends[at - 1].at_s < at_s:
        before = state.ends[at - 1]
        put_end(state.ends, at, before.at_s, before.rank, before.slot)
        at -= 1
    put_end(state.ends, at, at_s, state.jobs[slot].seq, slot)
    return running + 1


# --- what jobs that wait are to have: a list of stretches of time, each with the nodes that are claimed in it ---


@kernel
def _words(state: NodesState) -> int:
    return len(state.nodes) // WORD + 1


@kernel
def _is_open(state: NodesState, number: int) -> bool:
    """Whether a node is without claims in the stretches that `_unclaimed` has looked at."""
    words = _words(state)
    return state.claimed[len(state.steps) * words + number // WORD] >> (number % WORD) & 1 == 0


@kernel
def _unclaimed(state: NodesState, number: int, ends_s: float) -> None:
    """Look at the stretches from one on that begin before `ends_s`."""
    words = _words(state)
    last = len(state.steps) * words
    for word in range(words):
        state.claimed[last + word] = state.claimed[number * words + word]
    number = state.steps[number].follows
    while number >= 0 and state.steps[number].at_s < ends_s:
        for word in range(words):
            state.claimed[last + word] |= state.claimed[number * words + word]
        number = state.steps[number].follows


@kernel
def _claim(state: NodesState, places: int, from_s: float, to_s: float) -> None:
    """Keep the nodes state.plan[:places] from all that are planned later."""
    words, number = _words(state), 0
    _cut(state, from_s)
    _cut(state, to_s)
    while number >= 0 and state.steps[number].at_s < to_s:
        if state.steps[number].at_s >= from_s:
            for at in range(places):
                node = state.plan[at].node
                state.claimed[number * words + node // WORD] |= 1 << (node % WORD)
        number = state.steps[number].follows


@kernel
def _cut(state: NodesState, at_s: float) -> None:
    """Let a stretch begin at this instant, if it is after the present one."""
    words, number = _words(state), 0
    if at_s <= state.steps[0].at_s or at_s == math.inf:
        return
    following = state.steps[0].follows
    while following >= 0 and state.steps[following].at_s <= at_s:
        number = following
        following = state.steps[number].follows
    if state.steps[number].at_s == at_s:
        return
    fresh = state.cluster[0].steps
    state.cluster[0].steps += 1
    state.steps[fresh].at_s = at_s
    state.steps[fresh].follows = following
    state.steps[number].follows = fresh
    for word in range(words):
        state.claimed[fresh * words + word] = state.claimed[number * words + word]


@kernel
def _rounded(at_s: float, rules: NodesRules) -> float:
    """Down to a multiple of the resolution."""
    if rules.resolution_s == 0.0:
        return at_s
    return math.floor(at_s / rules.resolution_s) * rules.resolution_s
