"""A plain heap of begins and ends, with which a pass looks ahead."""

from __future__ import annotations

from betimes.core.nodes.columns import End
from betimes.kernels import Records, kernel


@kernel
def push_end(ends: Records[End], length: int, at_s: float, rank: int, slot: int) -> int:
    """Add to a heap of `length` entries; returns its new length."""
    _rise(ends, length, at_s, rank, slot)
    return length + 1


@kernel
def pop_end(ends: Records[End], length: int) -> int:
    """Take the earliest out of a heap, which ends[length - 1] then holds; returns its new length."""
    length -= 1
    last, first = ends[length], ends[0]
    last_s, last_rank, last_slot = last.at_s, last.rank, last.slot
    _write(ends, length, first.at_s, first.rank, first.slot)
    at = 0
    while 2 * at + 1 < length:
        child = 2 * at + 1
        if child + 1 < length:
            child += int(_is_earlier(ends[child + 1], ends[child]))
        moved = ends[child]
        _write(ends, at, moved.at_s, moved.rank, moved.slot)
        at = child
    if length > 0:
        _rise(ends, at, last_s, last_rank, last_slot)
    return length


@kernel
def put_end(ends: Records[End], at: int, at_s: float, rank: int, slot: int) -> None:
    """Write an entry at a place of a list that is no heap."""
    _write(ends, at, at_s, rank, slot)


@kernel
def take_first_end(ends: Records[End], length: int) -> int:
    """Take the earliest out of a list in no order, which ends[length - 1] then holds; returns its new length."""
    length -= 1
    first, last = 0, ends[length]
    first_s = ends[0].at_s
    for at in range(1, length + 1):
        if ends[at].at_s > first_s:  # mostly
            continue
        if ends[at].at_s < first_s or ends[at].rank < ends[first].rank:
            first, first_s = at, ends[at].at_s
    at_s, rank, slot = ends[first].at_s, ends[first].rank, ends[first].slot
    _write(ends, first, last.at_s, last.rank, last.slot)
    _write(ends, length, at_s, rank, slot)
    return length


@kernel
def make_heap(ends: Records[End], length: int) -> None:
    """Make a heap of a list in no order."""
    for at in range(1, length):
        end = ends[at]
        _rise(ends, at, end.at_s, end.rank, end.slot)


@kernel
def _is_earlier(a: End, b: End) -> bool:
    """Whether `a` happens before `b`, without a branch: which of two does is not predictable."""
    return (a.at_s < b.at_s) | ((a.at_s == b.at_s) & (a.rank < b.rank))


@kernel
def _rise(ends: Records[End], at: int, at_s: float, rank: int, slot: int) -> None:
    """Put an entry where it belongs on the way up from `at`, which is free."""
    while at > 0:
        parent = (at - 1) // 2
        above = ends[parent]
        if above.at_s < at_s or (above.at_s == at_s and above.rank < rank):
            break
        _write(ends, at, above.at_s, above.rank, above.slot)
        at = parent
    _write(ends, at, at_s, rank, slot)


@kernel
def _write(ends: Records[End], at: int, at_s: float, rank: int, slot: int) -> None:
    end = ends[at]
    end.at_s = at_s
    end.rank = rank
    end.slot = slot
