"""What is due: a heap of one entry for each job that holds resources, from which any can be taken out.

At one instant jobs finish first, then beliefs are outrun, then victims vacate (FitGpp's specification, B.2);
within a kind the earlier submission goes first.
"""

from __future__ import annotations

from betimes.core.columns import Records
from betimes.core.kernel import inlined_kernel
from betimes.core.nodes.columns import Due, NodesState

FINISH, OUTRUN, VACATE = 0, 1, 2
KIND = 1 << 56  # more than there will ever be submissions


@inlined_kernel
def kind_of(due: Due) -> int:
    """FINISH, OUTRUN or VACATE."""
    return due.rank // KIND


@inlined_kernel
def earlier(a: Due, b: Due) -> bool:
    """Whether `a` happens before `b`."""
    return a.at_s < b.at_s or (a.at_s == b.at_s and a.rank < b.rank)


@inlined_kernel
def settle_due(state: NodesState, slot: int) -> None:
    """Note what is due next for a job that holds resources."""
    need, progress, cluster = state.needs[slot], state.progress[slot], state.cluster[0]
    if need.vacate_at < progress.finish_at:
        at_s, kind = need.vacate_at, VACATE
    elif progress.outrun_at < progress.finish_at:
        at_s, kind = progress.outrun_at, OUTRUN
    else:
        at_s, kind = progress.finish_at, FINISH
    if need.due < 0:
        need.due = cluster.dues
        cluster.dues += 1
    due = state.dues[need.due]
    due.at_s = at_s
    due.rank = kind * KIND + state.jobs[slot].seq
    due.slot = slot
    _restore(state, need.due)


@inlined_kernel
def drop_due(state: NodesState, slot: int) -> None:
    """Nothing is due for this job any more."""
    cluster, at = state.cluster[0], state.needs[slot].due
    state.needs[slot].due = -1
    cluster.dues -= 1
    if at < cluster.dues:
        state.dues[at] = state.dues[cluster.dues]
        state.needs[state.dues[at].slot].due = at
        _restore(state, at)


@inlined_kernel
def _restore(state: NodesState, at: int) -> None:
    """Let the entry at `at` rise or sink to where it belongs."""
    dues, length = state.dues, state.cluster[0].dues
    at_s, rank, slot = dues[at].at_s, dues[at].rank, dues[at].slot
    while at > 0:
        parent = (at - 1) // 2
        above = dues[parent]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        dues[at] = above
        state.needs[above.slot].due = at
        at = parent
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        if child + 1 < length and earlier(dues[child + 1], dues[child]):
            child += 1
        below = dues[child]
        if at_s < below.at_s or (at_s == below.at_s and rank < below.rank):
            break
        dues[at] = below
        state.needs[below.slot].due = at
        at = child
    due = dues[at]
    due.at_s = at_s
    due.rank = rank
    due.slot = slot
    state.needs[slot].due = at


@inlined_kernel
def push_end(ends: Records[Due], length: int, at_s: float, rank: int, slot: int) -> int:
    """Add to a plain heap of `length` entries; returns its new length."""
    at = length
    while at > 0:
        parent = (at - 1) // 2
        above = ends[parent]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        ends[at] = above
        at = parent
    end = ends[at]
    end.at_s = at_s
    end.rank = rank
    end.slot = slot
    return length + 1


@inlined_kernel
def pop_end(ends: Records[Due], length: int) -> int:
    """Take the earliest out of a plain heap, which ends[length - 1] then holds; returns its new length."""
    length -= 1
    at_s, rank, slot = ends[0].at_s, ends[0].rank, ends[0].slot
    last_s, last_rank, last_slot = ends[length].at_s, ends[length].rank, ends[length].slot
    at = 0
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        if child + 1 < length and earlier(ends[child + 1], ends[child]):
            child += 1
        below = ends[child]
        if last_s < below.at_s or (last_s == below.at_s and last_rank <= below.rank):
            break
        ends[at] = below
        at = child
    moved = ends[at]
    moved.at_s = last_s
    moved.rank = last_rank
    moved.slot = last_slot
    end = ends[length]
    end.at_s = at_s
    end.rank = rank
    end.slot = slot
    return length
