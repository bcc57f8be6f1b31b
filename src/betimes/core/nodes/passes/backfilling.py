"""EASY backfilling: the first job that does not fit is promised a start; others may go ahead if they do not delay it.

Running jobs are taken to end when they are believed to. Source: Lifka, The ANL/IBM SP scheduling system, 1995.
"""

from __future__ import annotations

import math

from betimes.core.nodes.believed_ends import believed_end, keep_ends
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.demands import take_on, task_fits
from betimes.core.nodes.passes.ends import pop_end, push_end
from betimes.core.nodes.passes.find_nodes import find_room, has_room
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.transitions import give_all
from betimes.kernels import kernel


@kernel
def reserve(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Find the first instant at which the job fits, cluster.shadow_s, and the rest of the present room: state.beside.

    Returns the number of nodes that the job will use; the status of `find_nodes.find_room` if there is none.
    """
    cluster, need, nodes = state.cluster[0], state.needs[slot], state.sketch
    holders, length = keep_ends(state), 0
    if holders > 0:
        length = _await(state, length, 0)
    for number in range(len(nodes)):
        nodes[number] = state.nodes[number]
        state.beside[number] = state.nodes[number]
    shadow_s, fitting, lasts_s = math.inf, False, need.lasts_s
    while length > 0 and not fitting:
        shadow_s = state.ends[0].at_s
        need.lasts_s = lasts_s + max(0.0, shadow_s - state.pool[0].now)  # nodes close from now on
        while length > 0 and state.ends[0].at_s == shadow_s:
            length = pop_end(state.ends, length)
            place = state.ends[length].slot
            leaver = state.leavers[place].slot
            for child in range(2 * place + 1, min(2 * place + 3, holders)):
                length = _await(state, length, child)
            give_all(state, nodes, leaver)
            fitting = fitting or _fits_where(state, leaver, slot)
        if fitting and need.tasks > 1:
            fitting = has_room(state, nodes, need)
    cluster.reserved = slot
    cluster.outlasts = 0
    cluster.shadow_s = shadow_s if fitting else math.inf
    count = find_room(state, rules, nodes, slot, -1) if fitting else 0
    need.lasts_s = lasts_s
    for k in range(count):
        number, tasks = state.plan[k].node, state.plan[k].tasks
        take_on(state, nodes[number], number, need, tasks)
        node, left = state.beside[number], nodes[number]
        node.free_gpu = min(node.free_gpu, left.free_gpu)
        node.free_cpu = min(node.free_cpu, left.free_cpu)
        node.free_memory = min(node.free_memory, left.free_memory)
    return count


@kernel
def _await(state: NodesState, length: int, place: int) -> int:
    """Add the leaver at `place` of their heap to those that may be next, state.ends; returns how many these are.

    They are the next of all once those above them in the heap have gone.
    """
    leaver = state.leavers[place]
    return push_end(state.ends, length, leaver.at_s, leaver.rank, place)


@kernel
def _fits_where(state: NodesState, leaver: int, slot: int) -> bool:
    """Whether a task of the job fits on a node that `leaver` has left, on the sketch."""
    at = state.needs[leaver].placed
    while at >= 0:
        placement = state.placements[at]
        if task_fits(state, state.sketch, placement.node, state.needs[slot]):
            return True
        at = placement.follows
    return False


@kernel
def note_start(state: NodesState, slot: int, count: int) -> None:
    """A job has started beside the reservation: the room left there shrinks."""
    need, lasts = state.needs[slot], believed_end(state, slot) > state.cluster[0].shadow_s
    for k in range(count):
        number, tasks = state.plan[k].node, state.plan[k].tasks
        left, node = state.sketch[number], state.nodes[number]
        if lasts:
            take_on(state, left, number, need, tasks)
            state.cluster[0].outlasts = 1
        beside = state.beside[number]
        beside.free_gpu = min(node.free_gpu, left.free_gpu)
        beside.free_cpu = min(node.free_cpu, left.free_cpu)
        beside.free_memory = min(node.free_memory, left.free_memory)
