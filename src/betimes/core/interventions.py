"""What can happen to a job of a live pool from outside, besides finishing: it loses its units, or more is known."""

from __future__ import annotations

from betimes.core.columns import State
from betimes.core.kernel import lean_kernel
from betimes.core.transitions import find_next, regrant


@lean_kernel
def lose(state: State, slot: int) -> None:
    """The job has lost its units, and nobody has decided so: it waits again."""
    pool = state.pool[0]
    pool.used -= state.jobs[slot].units
    regrant(state, slot, 0.0, pool.now)
    for at in range(pool.holders):
        if state.holders[at] == slot:
            pool.holders -= 1
            state.holders[at] = state.holders[pool.holders]
            break
    find_next(state)


@lean_kernel
def believe(state: State, slot: int, left_s: float) -> None:
    """From now on so much work is believed to be left, seconds on one unit."""
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
