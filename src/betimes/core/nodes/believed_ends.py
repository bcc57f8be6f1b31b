"""The believed ends of jobs that hold resources: a heap, kept from the first reservation that asks for it.

A pass that looks for the first instant at which a job fits reads the few ends before it, not those of all running jobs.
A belief that runs out with the work moves all the time: while a job has one, each use of the heap makes it anew.
"""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesState, NodesView
from betimes.core.work import believed_left
from betimes.kernels import kernel


@kernel
def believed_end(state: NodesState | NodesView, slot: int) -> float:
    """When a job that holds resources is expected to give them up, s."""
    eviction, progress, now = state.evictions[slot], state.progress[slot], state.pool[0].now
    if eviction.vacate_at < math.inf:
        return eviction.vacate_at
    if progress.believed_per_work != 1.0:  # belief runs out with the work, however fast it shrinks
        return (
            now + max(0.0, progress.since + progress.stall - now) + max(0.0, believed_left(state, slot, now))
        )
    return progress.since + progress.stall + progress.believed_left / progress.rate


@kernel
def keep_ends(state: NodesState) -> int:
    """Let state.leavers be a heap of the believed ends of all holders; returns their number."""
    cluster, holders = state.cluster[0], state.pool[0].holders
    if cluster.leavers < 0:
        cluster.leavers = 0
        stands = True
        for at in range(holders):
            _enter(state, state.holders[at])
            stands = stands and state.progress[state.holders[at]].believed_per_work == 1.0
        if not stands:
            cluster.leavers = -1
    return holders


@kernel
def note_end(state: NodesState, slot: int) -> None:
    """Note a new believed end of a job that holds resources, or a job that holds them only now."""
    cluster, at = state.cluster[0], state.needs[slot].leaver
    if cluster.leavers < 0:
        return
    if state.progress[slot].believed_per_work != 1.0:
        cluster.leavers = -1
    elif at < 0:
        _enter(state, slot)
    else:
        _settle(state, at, believed_end(state, slot), state.jobs[slot].seq, slot)


@kernel
def forget_end(state: NodesState, slot: int) -> None:
    """Take out the end of a job that holds resources no more."""
    cluster, at = state.cluster[0], state.needs[slot].leaver
    state.needs[slot].leaver = -1
    if cluster.leavers < 0:
        return
    cluster.leavers -= 1
    last = state.leavers[cluster.leavers]
    if at < cluster.leavers:
        _settle(state, at, last.at_s, last.rank, last.slot)


@kernel
def _enter(state: NodesState, slot: int) -> None:
    cluster = state.cluster[0]
    cluster.leavers += 1
    _settle(state, cluster.leavers - 1, believed_end(state, slot), state.jobs[slot].seq, slot)


@kernel
def _settle(state: NodesState, at: int, at_s: float, rank: int, slot: int) -> None:
    """Put an entry where it belongs, on the way up or down from `at`, which is free."""
    leavers, length = state.leavers, state.cluster[0].leavers
    while at > 0:
        above = leavers[(at - 1) // 2]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        _write(state, at, above.at_s, above.rank, above.slot)
        at = (at - 1) // 2
    while 2 * at + 1 < length:
        child = 2 * at + 1
        if child + 1 < length:
            one, other = leavers[child], leavers[child + 1]
            child += int((other.at_s < one.at_s) | ((other.at_s == one.at_s) & (other.rank < one.rank)))
        below = leavers[child]
        if at_s < below.at_s or (at_s == below.at_s and rank < below.rank):
            break
        _write(state, at, below.at_s, below.rank, below.slot)
        at = child
    _write(state, at, at_s, rank, slot)


@kernel
def _write(state: NodesState, at: int, at_s: float, rank: int, slot: int) -> None:
    leaver = state.leavers[at]
    leaver.at_s = at_s
    leaver.rank = rank
    leaver.slot = slot
    state.needs[slot].leaver = at
