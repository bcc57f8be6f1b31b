"""The log of a pool's decisions: which jobs hold other units, or units elsewhere, and which have outrun their beliefs.

A driver that reads the log gives the state room for it (`State.log`) and empties it; without room nothing is logged.
A line with the units that a job has in all (node -1) comes before one for each node on which it has them. Decisions
within one instant count once: each logs all jobs whose places have changed since the instant began, and the last one
holds.
"""

from __future__ import annotations

from betimes.core.instruction import DOUBLE, PREEMPT, RESIZE, START
from betimes.core.pool.columns import State
from betimes.core.pool.resize_gate import width_before
from betimes.kernels import kernel


@kernel
def note_grants(state: State) -> None:
    """Log the outcome of a decision: for each job its units, and those on each node."""
    if len(state.log) == 0:
        return
    slot = state.pool[0].touched
    while slot >= 0:
        footprint = state.footprints[slot]
        at, units = footprint.placed, int(state.jobs[slot].units)
        what = START if width_before(state, slot) == 0.0 else RESIZE
        _note(state, what if units > 0 else PREEMPT, slot, -1, units)
        while at >= 0:
            placement = state.placements[at]
            _note(state, what, slot, placement.node, placement.tasks)
            at = placement.follows
        slot = footprint.follows


@kernel
def note_doubled(state: State, slot: int) -> None:
    """Log that a job has outrun its belief, and what is believed now."""
    if len(state.log) > 0:
        _note(state, DOUBLE, slot, -1, 0)
        state.log[state.pool[0].logged - 1].value = state.jobs[slot].size_s


@kernel
def has_room_for_an_event(state: State) -> bool:
    """Whether the log has room for all holders to outrun their beliefs, and for the decision that follows."""
    if len(state.log) == 0:
        return True
    pool = state.pool[0]
    return pool.logged + pool.holders + pool.active + len(state.placements) <= len(state.log)


@kernel
def _note(state: State, what: int, slot: int, node: int, units: int) -> None:
    pool = state.pool[0]
    line = state.log[pool.logged]
    pool.logged += 1
    line.what = what
    line.at_s = pool.now
    line.job = slot
    line.seq = state.jobs[slot].seq
    line.row = state.progress[slot].row
    line.node = node
    line.generation = 0
    line.tasks = units
    line.offer = -1
    line.value = 0.0
    line.other = -1
    line.verdict = 0
