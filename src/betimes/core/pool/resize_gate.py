"""The gate on resizes: a width stands for a while, and changes only where that pays.

Everything is measured from the width in force before this instant: decisions within one instant count once. A
preemption and a start are no resizes, and always go through.
"""

from __future__ import annotations

from betimes.core.pool.columns import State
from betimes.core.work import attained, believed_left, speed
from betimes.kernels import kernel


@kernel
def width_before(state: State, slot: int) -> float:
    """Units that the job held before this instant."""
    progress = state.progress[slot]
    return state.jobs[slot].units if state.pool[0].now > progress.since else progress.units_before


@kernel
def opens_at(state: State, slot: int) -> float:
    """The time from which the job's width before this instant may change, s."""
    pool, progress = state.pool[0], state.progress[slot]
    began = progress.resized_s if pool.now > progress.since else progress.resized_before_s
    return began + pool.resize_interval_s


@kernel
def growth_pays(state: State, slot: int, units: float) -> bool:
    """Whether the job, by its believed size, would be done earlier on these units, restart included."""
    pool, job, progress = state.pool[0], state.jobs[slot], state.progress[slot]
    now, curve = pool.now, job.curve
    left = max(0.0, believed_left(state, slot, now))
    if now > progress.since:
        stall = max(0.0, progress.stall - (now - progress.since))
    else:
        stall = progress.stall_before
    restart = pool.restart_s if attained(state, slot, now) > 0.0 else 0.0
    before = width_before(state, slot)
    return restart + left / speed(state.speedup, curve, units) < stall + left / speed(
        state.speedup, curve, before
    )
