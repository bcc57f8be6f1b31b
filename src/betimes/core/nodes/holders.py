"""The jobs that hold nodes, listed in no order, and which placements a job holds or is owed."""

from __future__ import annotations

from betimes.core.nodes.believed_ends import forget_end
from betimes.core.nodes.columns import NodesState, Residence
from betimes.core.nodes.timers import clear_job_timer
from betimes.core.shares import count_bound, count_held
from betimes.kernels import kernel


@kernel
def add_holder(state: NodesState, slot: int) -> None:
    """The job holds nodes from now on. The caller sets its timer (`timers.set_job_timer`)."""
    pool = state.pool[0]
    state.needs[slot].holder = pool.holders
    state.holders[pool.holders] = slot
    pool.holders += 1
    count_held(state, slot, 0.0, float(state.jobs[slot].max_units))


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
    forget_end(state, slot)
    count_held(state, slot, float(state.jobs[slot].max_units), 0.0)


@kernel
def add_bound(state: NodesState, slot: int) -> None:
    """The job, which holds nothing, is bound to nodes on which it starts once they are up and have room."""
    state.cluster[0].nominated += 1
    count_bound(state, slot, 1)


@kernel
def drop_bound(state: NodesState, slot: int) -> None:
    """The job, which holds nothing, is not bound any more, or starts now."""
    state.cluster[0].nominated -= 1
    count_bound(state, slot, -1)


@kernel
def holds(state: NodesState, slot: int, number: int) -> bool:
    """Whether the job holds a placement, rather than being bound to it."""
    at = state.needs[slot].placed
    while at >= 0:
        if at == number:
            return True
        at = state.placements[at].follows
    return False


@kernel
def is_owed(placement: Residence) -> bool:
    """Whether a job that is bound waits for this placement: its machine is not up, or others have still to leave it."""
    return (
        placement.unready == 1
        or placement.owed_gpu > 0
        or placement.owed_cpu > 0
        or placement.owed_memory > 0
    )
