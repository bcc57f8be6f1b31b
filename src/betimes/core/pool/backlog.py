"""The units that the work of a pool's jobs asks for."""

from __future__ import annotations

import math

from betimes.core.pool.columns import State
from betimes.core.work import believed_left
from betimes.kernels import kernel


@kernel
def units_for_work(state: State, within_s: float) -> float:
    """The fewest units on which all work that is believed to be left is done within `within_s`.

    Each unit is taken to work as fast as one alone. No more than the jobs can use together, and no fewer than the
    widest of them needs to run at all.
    """
    left_s, most, least = 0.0, 0.0, 0.0
    for number in range(len(state.groups)):
        for place in range(state.groups[number].head, state.groups[number].tail):
            slot = state.order[number, place]
            left_s += max(0.0, believed_left(state, slot, state.pool[0].now))
            most += float(state.jobs[slot].max_units)
            least = max(least, float(state.jobs[slot].min_units))
    return max(least, min(most, math.ceil(left_s / within_s)))
