"""External events for a job of a pool: it ends, loses units, changes, or more is known.

The policy is asked afterwards (`Pool.pending`).
"""

from __future__ import annotations

import math

from betimes.core.pool.columns import State
from betimes.core.pool.placement import forget_before, leave_nodes
from betimes.core.pool.transitions import find_next, finish, regrant, sample_contention, stop_holding
from betimes.core.work import set_to_work, speed
from betimes.kernels import kernel


@kernel
def expect_finish(state: State, slot: int, at_s: float) -> None:
    """A job that holds units turns out to finish at `at_s`."""
    state.progress[slot].finish_at = at_s
    find_next(state)


@kernel
def withdraw(state: State, slot: int) -> None:
    """Remove a job."""
    finish(state, slot, state.pool[0].now)
    find_next(state)


@kernel
def hold(state: State, slot: int, units: float) -> None:
    """A job that has just been given its account has held `units` units since that was true."""
    pool, job = state.pool[0], state.jobs[slot]
    job.units = units
    state.holders[pool.holders] = slot
    pool.holders += 1
    pool.used += units
    set_to_work(state, slot, speed(state.speedup, job.curve, units), state.progress[slot].since)
    find_next(state)


@kernel
def lose(state: State, slot: int) -> None:
    """The job has lost its units without a decision: it waits again.

    No decision at this instant undoes that. If the job gets units now it starts anew, wherever there is room.
    """
    pool, progress = state.pool[0], state.progress[slot]
    pool.used -= state.jobs[slot].units
    regrant(state, slot, 0.0, pool.now)
    progress.units_before = 0.0
    progress.stall_before = 0.0
    if len(state.nodes) > 0:
        leave_nodes(state, slot)
    stop_holding(state, slot)
    find_next(state)


@kernel
def believe(state: State, slot: int, left_s: float) -> None:
    """Set the believed remaining work, seconds on one unit."""
    job, progress, now = state.jobs[slot], state.progress[slot], state.pool[0].now
    units = job.units
    if units > 0.0:
        regrant(state, slot, units, now)  # brings the account up to date
    job.size_s += left_s - progress.believed_left
    job.remaining_s = left_s
    progress.believed_left = left_s
    if units > 0.0:
        regrant(state, slot, units, now)  # foresees when the new belief is outrun
    find_next(state)


@kernel
def set_width(state: State, slot: int, max_units: int) -> None:
    """Set the most units that the job can use: one event.

    The policy must be asked before time moves on: until then the job may hold more.
    """
    job, pool = state.jobs[slot], state.pool[0]
    sample_contention(state)
    group = state.groups[job.group]
    group.demand += min(float(max_units), pool.units) - min(float(job.max_units), pool.units)
    job.max_units = max_units
    job.full_speed = state.speedup[job.curve, max_units]


@kernel
def settle_instant(state: State) -> None:
    """Settle this instant's decisions: nodes change, and no later decision starts from the state before them."""
    pool = state.pool[0]
    slot = pool.touched
    while slot >= 0:
        progress = state.progress[slot]
        if progress.since == pool.now:
            progress.units_before = state.jobs[slot].units
            progress.stall_before = progress.stall
            progress.resized_before_s = progress.resized_s
        slot = state.footprints[slot].follows
    forget_before(state)
    pool.instant = -math.inf


@kernel
def change_units(state: State, units: float) -> None:
    """Set the pool's number of units; jobs may hold more until the policy has been asked."""
    pool = state.pool[0]
    pool.units = units
    for number in range(len(state.groups)):
        group = state.groups[number]
        group.demand = 0.0
        for place in range(group.head, group.tail):
            group.demand += min(float(state.jobs[state.order[number, place]].max_units), units)
