"""The jobs that hold nodes, listed in no order."""

from __future__ import annotations

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.timers import clear_job_timer
from betimes.kernels import kernel


@kernel
def add_holder(state: NodesState, slot: int) -> None:
    """The job holds nodes from now on. What is due next for it has to be noted (`timers.set_job_timer`)."""
    pool = state.pool[0]
    state.needs[slot].holder = pool.holders
    state.holders[pool.holders] = slot
    pool.holders += 1


@kernel
def drop_holder(state: NodesState, slot: int) -> None:
    """The job holds nothing any more, and nothing is due for it."""
    pool, need = state.pool[0], state.needs[slot]
    holder = need.holder
    need.holder = -1
    pool.holders -= 1
    last = pool.holders
    if holder < last:  # the last of the list takes its place
        moved = state.holders[last]
        state.holders[holder] = moved
        state.needs[moved].holder = holder
    clear_job_timer(state, slot)
