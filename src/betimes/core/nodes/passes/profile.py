"""The plan of reservations: each node's free resources over time, as jobs are believed to start and end.

Each node has a separate list of steps, so that a reservation costs the steps of its nodes, and a search looks only at
the instants at which something happens on a node. A duration is added to an instant and never taken as the difference
of two: a job that begins when another ends must find exactly the same instant.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.core.closings import Closing
from betimes.core.nodes.believed_ends import believed_end
from betimes.core.nodes.columns import Need, NodesState
from betimes.core.nodes.demands import take_on, tasks_within
from betimes.core.nodes.passes.ends import pop_end, push_end
from betimes.core.nodes.transitions import restart_s
from betimes.core.placements import suits, take
from betimes.core.work import believed_left
from betimes.kernels import Ints, kernel


@kernel
def make_plan(state: NodesState, waiting: Ints) -> bool:
    """Plan for what runs and for the reservations of those that wait; False: there is too little room for steps."""
    cluster, now, nodes = state.cluster[0], state.pool[0].now, len(state.nodes)
    if len(state.steps) < nodes:
        return False
    for number in range(nodes):
        node, step = state.nodes[number], state.steps[number]
        step.at_s = now
        step.free_gpu = node.free_gpu
        step.free_cpu = node.free_cpu
        step.free_memory = node.free_memory
        step.follows = -1
        state.cursor[number] = number
    cluster.steps = nodes
    cluster.idle = -1
    # A job that holds nodes now holds them a while, however small, whatever is believed.
    soon_s, length = np.nextafter(now, math.inf), 0
    for at in range(state.pool[0].holders):
        slot = state.holders[at]
        length = push_end(
            state.ends, length, max(believed_end(state, slot), soon_s), state.jobs[slot].seq, slot
        )
    for k in range(len(waiting)):
        slot = waiting[k]
        need, seq = state.needs[slot], state.jobs[slot].seq
        if need.reservation >= 0:
            begin_s = max(need.reserved_s, now)
            length = push_end(state.ends, length, begin_s, seq, -1 - slot)
            length = push_end(state.ends, length, begin_s + _lasts_s(state, slot), seq, slot)
    while length > 0:
        length = pop_end(state.ends, length)
        if state.ends[length].at_s < math.inf and not _append(
            state, state.ends[length].slot, state.ends[length].at_s
        ):
            cluster.steps = 0
            return False
    for at in range(len(state.closings)):
        if cluster.steps + 2 > len(state.steps):
            cluster.steps = 0
            return False
        _close(state, state.closings[at])
    return True


@kernel
def _close(state: NodesState, closing: Closing) -> None:
    """Take all of a node out of the plan while it takes no tasks; two closings at once leave it less than nothing."""
    if closing.to_s <= state.pool[0].now:
        return
    steps, node = state.steps, state.nodes[closing.node]
    number = _step_at(state, closing.node, closing.from_s)
    if steps[number].at_s < closing.from_s:
        number = _split(state, number, closing.from_s)
    while number >= 0 and steps[number].at_s < closing.to_s:
        following = steps[number].follows
        if following < 0 or steps[following].at_s > closing.to_s:
            following = _split(state, number, closing.to_s)
        take(steps[number], node, 1)
        number = following


@kernel
def claim(state: NodesState, slot: int, begin_s: float, sign: int) -> None:
    """Take the resources of the job's reservation out of the plan from `begin_s` on (1), or give them back (-1)."""
    need, steps, ends_s = state.needs[slot], state.steps, begin_s + _lasts_s(state, slot)
    at = need.reservation
    while at >= 0:
        placement = state.placements[at]
        before, first = -1, placement.node
        following = steps[first].follows
        while following >= 0 and steps[following].at_s <= begin_s:
            before, first = first, following
            following = steps[first].follows
        if steps[first].at_s < begin_s:
            before, first = first, _split(state, first, begin_s)
        last, number = first, first
        while number >= 0 and steps[number].at_s < ends_s:
            following = steps[number].follows
            if ends_s < math.inf and (following < 0 or steps[following].at_s > ends_s):
                following = _split(state, number, ends_s)
            take_on(state, steps[number], placement.node, need, sign * placement.tasks)
            last, number = number, following
        if number >= 0 and number != last:
            _join(state, last, number)
        if before >= 0:
            _join(state, before, first)
        at = placement.follows


@kernel
def must_stay(state: NodesState, slot: int, begin_s: float) -> bool:
    """Whether the job keeps its reservation at `begin_s`, for there is no room before; False: it has to be tried.

    True only for a job of one task, with its reservation in the plan: most jobs stay, and leave the plan unchanged.
    """
    need = state.needs[slot]
    own = state.placements[need.reservation].node
    if need.tasks > 1 or not suits(state.nodes[own], need):
        return False
    if _earliest_of_one(state, slot, begin_s, own) < math.inf:
        return False
    steps, number = state.steps, _step_at(state, own, begin_s)
    ends_s = begin_s + _lasts_s(state, slot)
    while number >= 0 and steps[number].at_s < ends_s:
        if min(steps[number].free_gpu, steps[number].free_cpu, steps[number].free_memory) < 0:
            return False
        number = steps[number].follows
    return True


@kernel
def earliest_s(state: NodesState, slot: int, before_s: float) -> float:
    """The first instant before `before_s` from which there is room for the job as long as it takes; else infinity."""
    need = state.needs[slot]
    if need.tasks > 1:
        return _earliest_of_gang(state, need, _lasts_s(state, slot), before_s)
    return _earliest_of_one(state, slot, before_s, -1)


@kernel
def _earliest_of_one(state: NodesState, slot: int, before_s: float, own: int) -> float:
    """As `earliest_s`, for one task; on its `own` node there is room from `before_s` on."""
    need, lasts_s = state.needs[slot], _lasts_s(state, slot)
    steps, best_s = state.steps, before_s
    for node in range(len(state.nodes)):
        number = node if suits(state.nodes[node], need) else -1
        while number >= 0 and steps[number].at_s < best_s:
            begin_s, within = steps[number].at_s, tasks_within(state, steps[number], node, need) > 0
            number = steps[number].follows
            if not within:
                continue
            ends_s = min(begin_s + lasts_s, before_s) if node == own else begin_s + lasts_s
            while (
                number >= 0
                and steps[number].at_s < ends_s
                and tasks_within(state, steps[number], node, need) > 0
            ):
                number = steps[number].follows
            if number < 0 or steps[number].at_s >= ends_s:
                best_s = begin_s
    return best_s if best_s < before_s else math.inf


@kernel
def is_kept(state: NodesState, slot: int, begin_s: float) -> bool:
    """Whether the nodes of its reservation have room for the job from `begin_s` on."""
    need, lasts_s = state.needs[slot], _lasts_s(state, slot)
    at = need.reservation
    while at >= 0:
        placement = state.placements[at]
        if not suits(state.nodes[placement.node], need):
            return False
        number = _step_at(state, placement.node, begin_s)
        if _least(state, placement.node, number, begin_s + lasts_s, need) < placement.tasks:
            return False
        at = placement.follows
    return True


@kernel
def sketch_from(state: NodesState, slot: int, begin_s: float) -> None:
    """Let state.sketch be each node's room for the job from `begin_s` on, for as long as it takes.

    Where an overrun has upset the plan the room is negative, and counts as 0: it hinders only jobs that need some.
    """
    steps, ends_s = state.steps, begin_s + _lasts_s(state, slot)
    for at in range(len(state.nodes)):
        state.sketch[at] = state.nodes[at]
        node, number = state.sketch[at], _step_at(state, at, begin_s)
        node.free_gpu = steps[number].free_gpu
        node.free_cpu = steps[number].free_cpu
        node.free_memory = steps[number].free_memory
        number = steps[number].follows
        while number >= 0 and steps[number].at_s < ends_s:
            node.free_gpu = min(node.free_gpu, steps[number].free_gpu)
            node.free_cpu = min(node.free_cpu, steps[number].free_cpu)
            node.free_memory = min(node.free_memory, steps[number].free_memory)
            number = steps[number].follows
        node.free_gpu = max(0, node.free_gpu)
        node.free_cpu = max(0, node.free_cpu)
        node.free_memory = max(0, node.free_memory)
        node.up = min(node.up, 1)  # the plan has the times at which it takes none


@kernel
def _lasts_s(state: NodesState, slot: int) -> float:
    """How long a waiting job is believed to hold its nodes once it starts; where nodes close, at most."""
    lasts_s = restart_s(state, slot) + believed_left(state, slot, state.pool[0].now)
    return max(lasts_s, state.needs[slot].lasts_s) if len(state.closings) > 0 else lasts_s


@kernel
def _append(state: NodesState, slot: int, at_s: float) -> bool:
    """Begin the last step of each of the job's nodes with its change there; False: there is no room for steps.

    A slot below 0 stands for the begin of the reservation of -1 - slot, another for the end of the job's holdings.
    """
    cluster, sign = state.cluster[0], -1
    if slot < 0:
        slot, sign = -1 - slot, 1
    need = state.needs[slot]
    at = need.placed if need.holder >= 0 else need.reservation
    while at >= 0:
        placement = state.placements[at]
        last = state.cursor[placement.node]
        if state.steps[last].at_s < at_s:
            if cluster.steps == len(state.steps):
                return False
            last = _split(state, last, at_s)
            state.cursor[placement.node] = last
        take_on(state, state.steps[last], placement.node, need, sign * placement.tasks)
        at = placement.follows
    return True


@kernel
def _split(state: NodesState, before: int, at_s: float) -> int:
    """Insert a step at `at_s` with the content of the one before; returns its number."""
    cluster, number = state.cluster[0], state.cluster[0].idle
    if number >= 0:
        cluster.idle = state.steps[number].follows
    else:
        number = cluster.steps
        cluster.steps += 1
    state.steps[number] = state.steps[before]
    state.steps[number].at_s = at_s
    state.steps[before].follows = number
    return number


@kernel
def _join(state: NodesState, number: int, following: int) -> None:
    """Drop the following step if nothing changes with it: jobs one after another need only one."""
    one, other = state.steps[number], state.steps[following]
    if (
        one.free_gpu == other.free_gpu
        and one.free_cpu == other.free_cpu
        and one.free_memory == other.free_memory
    ):
        one.follows = other.follows
        other.follows = state.cluster[0].idle
        state.cluster[0].idle = following


@kernel
def _step_at(state: NodesState, node: int, at_s: float) -> int:
    """The last step of a node that begins no later than `at_s`."""
    number = node
    following = state.steps[number].follows
    while following >= 0 and state.steps[following].at_s <= at_s:
        number = following
        following = state.steps[number].follows
    return number


@kernel
def _earliest_of_gang(state: NodesState, need: Need, lasts_s: float, before_s: float) -> float:
    """As `earliest_s`, for tasks that start together, on one node or several."""
    steps, begin_s = state.steps, state.pool[0].now
    for node in range(len(state.nodes)):
        state.cursor[node] = node
    while begin_s < before_s:
        together, next_s = 0, math.inf
        for node in range(len(state.nodes)):
            if suits(state.nodes[node], need):
                number = state.cursor[node]
                following = steps[number].follows
                if following >= 0 and steps[following].at_s <= begin_s:
                    number = following
                    state.cursor[node] = number
                    following = steps[number].follows
                together += tasks_within(state, steps[number], node, need)
                if following >= 0:
                    next_s = min(next_s, steps[following].at_s)
        if together >= need.tasks:
            together = 0
            for node in range(len(state.nodes)):
                if suits(state.nodes[node], need):
                    together += _least(state, node, state.cursor[node], begin_s + lasts_s, need)
            if together >= need.tasks:
                return begin_s
        begin_s = next_s
    return math.inf


@kernel
def _least(state: NodesState, node: int, number: int, ends_s: float, need: Need) -> int:
    """The number of the job's tasks that fit from a step of a node on, until `ends_s`."""
    count = tasks_within(state, state.steps[number], node, need)
    number = state.steps[number].follows
    while count > 0 and number >= 0 and state.steps[number].at_s < ends_s:
        count = min(count, tasks_within(state, state.steps[number], node, need))
        number = state.steps[number].follows
    return count
