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
from betimes.core.nodes.columns import Need, NodesState, Step
from betimes.core.nodes.demands import take_on, tasks_within
from betimes.core.nodes.passes.ends import pop_end, push_end, put_end
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
        step.closed = 0
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
            length = push_end(state.ends, length, begin_s + lasts(state, slot), seq, slot)
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
    """Take all of a node out of the plan while it takes no tasks; two closings at once leave it less than nothing.

    Where some jobs are exempt, the steps are marked instead.
    """
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
        if closing.bit == 0:
            take(steps[number], node, 1)
        else:
            steps[number].closed |= closing.bit
        number = following


@kernel
def claim(state: NodesState, slot: int, begin_s: float, sign: int) -> None:
    """Take the resources of the job's reservation out of the plan from `begin_s` on (1), or give them back (-1)."""
    need, steps, ends_s = state.needs[slot], state.steps, begin_s + lasts(state, slot)
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
def may_move_up(state: NodesState, slot: int, before_s: float) -> bool:
    """Whether the job may have room before `before_s` that it had not when it was last tried; False: it has none.

    Its reservation is in the plan, and since then nothing has taken room: it is enough to look for one task on nodes
    with more of it.
    """
    need, log, freed = state.needs[slot], state.vacated, state.cluster[0].freed
    if need.freed_seen < 0 or freed - need.freed_seen >= len(log):
        return True
    if len(state.closings) > 0 or len(state.interference) > 0 or len(state.demands) > 0:
        return True  # a run may be shorter than its reservation
    lasts_s, last = lasts(state, slot), -1
    for turn in range(need.freed_seen, freed):
        node = log[turn % len(log)]
        if node != last and suits(state.nodes[node], need):
            if (
                _earliest_on(state, need, lasts_s, node, before_s, _has_reserved(state, need, node))
                < before_s
            ):
                return True
        last = node
    return False


@kernel
def _has_reserved(state: NodesState, need: Need, node: int) -> bool:
    at = need.reservation
    while at >= 0:
        if state.placements[at].node == node:
            return True
        at = state.placements[at].follows
    return False


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
    ends_s = begin_s + lasts(state, slot)
    while number >= 0 and steps[number].at_s < ends_s:
        if min(steps[number].free_gpu, steps[number].free_cpu, steps[number].free_memory) < 0:
            return False
        if not _is_open(steps[number], need):
            return False
        number = steps[number].follows
    return True


@kernel
def earliest_s(state: NodesState, slot: int, before_s: float) -> float:
    """The first instant before `before_s` from which there is room for the job as long as it takes; else infinity."""
    need = state.needs[slot]
    if need.tasks > 1:
        return _earliest_of_gang(state, slot, before_s)
    return _earliest_of_one(state, slot, before_s, -1)


@kernel
def _earliest_of_one(state: NodesState, slot: int, before_s: float, own: int) -> float:
    """As `earliest_s`, for one task; on its `own` node there is room from `before_s` on."""
    need, lasts_s, best_s = state.needs[slot], lasts(state, slot), before_s
    for node in range(len(state.nodes)):
        if suits(state.nodes[node], need):
            best_s = min(best_s, _earliest_on(state, need, lasts_s, node, best_s, node == own))
    return best_s if best_s < before_s else math.inf


@kernel
def _earliest_on(
    state: NodesState, need: Need, lasts_s: float, node: int, before_s: float, is_own: bool
) -> float:
    """The first instant before `before_s` from which a task fits on the node, else infinity.

    On a node of the job's own reservation there is room from `before_s` on.
    """
    steps, number = state.steps, node
    while number >= 0 and steps[number].at_s < before_s:
        begin_s, within = steps[number].at_s, _tasks_at(state, number, node, need) > 0
        number = steps[number].follows
        if not within:
            continue
        ends_s = min(begin_s + lasts_s, before_s) if is_own else begin_s + lasts_s
        while number >= 0 and steps[number].at_s < ends_s and _tasks_at(state, number, node, need) > 0:
            number = steps[number].follows
        if number < 0 or steps[number].at_s >= ends_s:
            return begin_s
    return math.inf


@kernel
def is_kept(state: NodesState, slot: int, begin_s: float) -> bool:
    """Whether the nodes of its reservation have room for the job from `begin_s` on."""
    need, lasts_s = state.needs[slot], lasts(state, slot)
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
    steps, ends_s, need = state.steps, begin_s + lasts(state, slot), state.needs[slot]
    for at in range(len(state.nodes)):
        state.sketch[at] = state.nodes[at]
        node, number = state.sketch[at], _step_at(state, at, begin_s)
        node.free_gpu = steps[number].free_gpu
        node.free_cpu = steps[number].free_cpu
        node.free_memory = steps[number].free_memory
        is_open = _is_open(steps[number], need)
        number = steps[number].follows
        while number >= 0 and steps[number].at_s < ends_s:
            is_open = is_open and _is_open(steps[number], need)
            node.free_gpu = min(node.free_gpu, steps[number].free_gpu)
            node.free_cpu = min(node.free_cpu, steps[number].free_cpu)
            node.free_memory = min(node.free_memory, steps[number].free_memory)
            number = steps[number].follows
        node.free_gpu = max(0, node.free_gpu)
        node.free_cpu = max(0, node.free_cpu)
        node.free_memory = max(0, node.free_memory)
        node.up = min(node.up, int(is_open))  # the plan has the times at which it takes none


@kernel
def lasts(state: NodesState, slot: int) -> float:
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
        and one.closed == other.closed
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
def _earliest_of_gang(state: NodesState, slot: int, before_s: float) -> float:
    """As `earliest_s`, for tasks that start together, on one node or several.

    A sweep over the begins of the spans in which so many tasks fit on a node: those that last until the job would be
    done count.
    """
    need, lasts_s, count = state.needs[slot], lasts(state, slot), 0
    for node in range(len(state.nodes)):
        if suits(state.nodes[node], need):
            count = _find_spans(state, need, lasts_s, node, before_s, count)
    spans, opened, active, together = state.spans, state.open_spans, 0, 0
    while count > 0:
        count = pop_end(spans, count)
        span = spans[count]
        active = push_end(opened, active, state.span_ends_s[span.rank], span.rank, span.slot)
        together += span.slot
        while active > 0 and opened[0].at_s < span.at_s + lasts_s:
            active = pop_end(opened, active)
            together -= opened[active].slot
        if together >= need.tasks:
            return span.at_s
    return math.inf


@kernel
def _find_spans(state: NodesState, need: Need, lasts_s: float, node: int, before_s: float, count: int) -> int:
    """Add the spans of a node that begin before `before_s` and are long enough to the heap; returns its new length."""
    steps, opened, number = state.steps, state.open_spans, node
    height, held = 0, 0
    while number >= 0 and (held > 0 or steps[number].at_s < before_s):
        at_s, tasks = steps[number].at_s, _tasks_at(state, number, node, need)
        if at_s >= before_s + lasts_s:  # as good as for ever
            break
        while tasks < held:
            span = opened[height - 1]
            ended = min(span.slot, held - tasks)
            if at_s >= span.at_s + lasts_s:
                count = _add_span(state, count, span.at_s, at_s, ended)
            span.slot -= ended
            held -= ended
            height -= int(span.slot == 0)
        if tasks > held and at_s < before_s:
            put_end(opened, height, at_s, 0, tasks - held)
            height += 1
            held = tasks
        number = steps[number].follows
    for at in range(height):
        count = _add_span(state, count, opened[at].at_s, math.inf, opened[at].slot)
    return count


@kernel
def _add_span(state: NodesState, count: int, from_s: float, to_s: float, tasks: int) -> int:
    state.span_ends_s[count] = to_s
    return push_end(state.spans, count, from_s, count, tasks)


@kernel
def _is_open(step: Step, need: Need) -> bool:
    """Whether no closing keeps the job from a step that not all jobs are kept from."""
    return step.closed & ~need.exempt == 0


@kernel
def _tasks_at(state: NodesState, number: int, node: int, need: Need) -> int:
    """The number of the job's tasks that fit into a step of a node."""
    step = state.steps[number]
    return tasks_within(state, step, node, need) if _is_open(step, need) else 0


@kernel
def _least(state: NodesState, node: int, number: int, ends_s: float, need: Need) -> int:
    """The number of the job's tasks that fit from a step of a node on, until `ends_s`."""
    count = _tasks_at(state, number, node, need)
    number = state.steps[number].follows
    while count > 0 and number >= 0 and state.steps[number].at_s < ends_s:
        count = min(count, _tasks_at(state, number, node, need))
        number = state.steps[number].follows
    return count
