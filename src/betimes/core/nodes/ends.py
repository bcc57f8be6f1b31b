"""A plain heap of begins and ends, with which a pass thinks ahead."""

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
