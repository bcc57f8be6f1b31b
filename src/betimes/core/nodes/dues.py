"""What is due: a heap of one entry for each job that holds resources, from which any can be taken out.

At one instant jobs finish first, then beliefs are outrun, then victims vacate (FitGpp's specification, B.2);
within a kind the earlier submission goes first.
"""

from __future__ import annotations

from betimes.core.nodes.columns import Due, End, NodesState
from betimes.kernels import Records, kernel

FINISH, OUTRUN, VACATE = 0, 1, 2
KIND = 1 << 56  # more than there will ever be submissions


@kernel
def kind_of(due: Due) -> int:
    """FINISH, OUTRUN or VACATE."""
    return due.rank // KIND


@kernel
def earlier(a: Due | End, b: Due | End) -> bool:
    """Whether `a` happens before `b`, without a branch: of two things in a heap nobody can guess which does."""
    return (a.at_s < b.at_s) | ((a.at_s == b.at_s) & (a.rank < b.rank))


@kernel
def _first_child(heap: Records[Due] | Records[End], at: int, length: int) -> int:
    """Of the children of `at`, of which it has one at least, the one that happens first."""
    child = 2 * at + 1
    if child + 1 < length:
        child += int(earlier(heap[child + 1], heap[child]))
    return child


@kernel
def first_due(state: NodesState) -> int:
    """The slot of the job to which something happens first; some job must hold resources."""
    return state.holders[state.dues[0].holder]


@kernel
def add_holder(state: NodesState, slot: int) -> None:
    """The job holds resources from now on. What is due next for it has to be settled (`settle_due`)."""
    pool = state.pool[0]
    holder = pool.holders
    pool.holders += 1
    state.holders[holder] = slot
    state.needs[slot].holder = holder
    state.dues[holder].holder = holder
    state.due_of[holder] = holder


@kernel
def settle_due(state: NodesState, slot: int) -> None:
    """Note what is due next for a job that holds resources."""
    need, progress = state.needs[slot], state.progress[slot]
    if need.vacate_at < progress.finish_at:
        at_s, kind = need.vacate_at, VACATE
    elif progress.outrun_at < progress.finish_at:
        at_s, kind = progress.outrun_at, OUTRUN
    else:
        at_s, kind = progress.finish_at, FINISH
    at = state.due_of[need.holder]
    due = state.dues[at]
    due.at_s = at_s
    due.rank = kind * KIND + state.jobs[slot].seq
    _restore(state, at)


@kernel
def drop_holder(state: NodesState, slot: int) -> None:
    """The job holds nothing any more, and nothing is due for it."""
    pool, need = state.pool[0], state.needs[slot]
    holder, at = need.holder, state.due_of[need.holder]
    need.holder = -1
    pool.holders -= 1
    last = pool.holders
    if at < last:
        _move_due(state, last, at)
        _restore(state, at)
    if holder < last:  # the last of the list takes its place
        moved = state.holders[last]
        state.holders[holder] = moved
        state.needs[moved].holder = holder
        state.due_of[holder] = state.due_of[last]
        state.dues[state.due_of[last]].holder = holder


@kernel
def _restore(state: NodesState, at: int) -> None:
    """Let the entry at `at` rise or sink to where it belongs.

    What sinks mostly came from the bottom: it goes there at once, and rises again if need be.
    """
    dues, length = state.dues, state.pool[0].holders
    at_s, rank, holder = dues[at].at_s, dues[at].rank, dues[at].holder
    if at == 0 or not earlier(dues[at], dues[(at - 1) // 2]):
        while 2 * at + 1 < length:
            child = _first_child(dues, at, length)
            _move_due(state, child, at)
            at = child
    while at > 0:
        parent = (at - 1) // 2
        above = dues[parent]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        _move_due(state, parent, at)
        at = parent
    due = dues[at]
    due.at_s = at_s
    due.rank = rank
    due.holder = holder
    state.due_of[holder] = at


@kernel
def _move_due(state: NodesState, at: int, to: int) -> None:
    """Field by field, as everywhere where entries move: records are copied byte by byte."""
    due, moved = state.dues[to], state.dues[at]
    due.at_s = moved.at_s
    due.rank = moved.rank
    due.holder = moved.holder
    state.due_of[due.holder] = to


@kernel
def push_end(ends: Records[End], length: int, at_s: float, rank: int, slot: int) -> int:
    """Add to a plain heap of `length` entries; returns its new length."""
    _rise(ends, length, at_s, rank, slot)
    return length + 1


@kernel
def pop_end(ends: Records[End], length: int) -> int:
    """Take the earliest out of a plain heap, which ends[length - 1] then holds; returns its new length."""
    length -= 1
    last, first = ends[length], ends[0]
    last_s, last_rank, last_slot = last.at_s, last.rank, last.slot
    _write_end(ends, length, first.at_s, first.rank, first.slot)
    at = 0
    while 2 * at + 1 < length:
        child = _first_child(ends, at, length)
        moved = ends[child]
        _write_end(ends, at, moved.at_s, moved.rank, moved.slot)
        at = child
    if length > 0:
        _rise(ends, at, last_s, last_rank, last_slot)
    return length


@kernel
def _rise(ends: Records[End], at: int, at_s: float, rank: int, slot: int) -> None:
    """Put an entry where it belongs on the way up from `at`, which is free."""
    while at > 0:
        parent = (at - 1) // 2
        above = ends[parent]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        _write_end(ends, at, above.at_s, above.rank, above.slot)
        at = parent
    _write_end(ends, at, at_s, rank, slot)


@kernel
def _write_end(ends: Records[End], at: int, at_s: float, rank: int, slot: int) -> None:
    end = ends[at]
    end.at_s = at_s
    end.rank = rank
    end.slot = slot
