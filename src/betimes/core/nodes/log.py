"""The log of decisions: starts, stops, bindings, promises, rents and releases, in order.

A reservation that is taken back is a RESERVE of no node, from infinity on.

A driver that reads the log gives the state room for it (`State.log`) and empties it; without room nothing is logged.
"""

from __future__ import annotations

from betimes.core.nodes.columns import NodesState
from betimes.core.status import DONE, NEED_LOG, NEED_PLACEMENTS
from betimes.kernels import kernel


@kernel
def note(state: NodesState, what: int, slot: int, node: int, tasks: int, value: float, other: int) -> None:
    """Log a decision about a job (-1: none) and a node (-1: none)."""
    cluster = state.cluster[0]
    if len(state.log) == 0:
        return
    line = state.log[cluster.logged]
    cluster.logged += 1
    line.what = what
    line.at_s = state.pool[0].now
    line.job = slot
    line.seq = state.jobs[slot].seq if slot >= 0 else -1
    line.row = state.progress[slot].row if slot >= 0 else -1
    line.node = node
    line.generation = state.machines[node].generation if node >= 0 else 0
    line.tasks = tasks
    line.offer = -1
    if node >= 0:
        line.offer = state.machines[node].offer
    elif slot >= 0 and len(state.rentings) > 0:
        line.offer = state.rentings[slot].offer
    line.count = state.needs[slot].rented if slot >= 0 else 0
    line.value = value
    line.other = other
    line.owed_gpu = line.owed_cpu = line.owed_memory = 0
    line.verdict = 0


@kernel
def note_places(state: NodesState, what: int, slot: int, first: int, value: float) -> None:
    """Log a decision about a job for each of its placements, from `first` on."""
    if len(state.log) == 0:
        return
    at = first
    while at >= 0:
        placement = state.placements[at]
        note(state, what, slot, placement.node, placement.tasks, value, -1)
        line = state.log[state.cluster[0].logged - 1]
        line.owed_gpu = placement.owed_gpu
        line.owed_cpu = placement.owed_cpu
        line.owed_memory = placement.owed_memory
        at = placement.follows


@kernel
def room_for_a_decision(state: NodesState) -> int:
    """DONE: there is room for one more start, nomination or promise, and for the stops of all running jobs.

    NEED_PLACEMENTS: not for its placements; NEED_LOG: not for its lines of the log.
    """
    cluster = state.cluster[0]
    if cluster.unused < len(state.nodes):
        return NEED_PLACEMENTS
    lines = 2 * len(state.nodes) + state.pool[0].holders + 2
    return NEED_LOG if 0 < len(state.log) < cluster.logged + lines else DONE
