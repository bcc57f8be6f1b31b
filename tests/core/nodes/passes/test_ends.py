"""Begins and ends in a list and in a heap: the earliest first, ties by rank."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from betimes.core.nodes.columns import End
from betimes.core.nodes.passes.ends import make_heap, pop_end, put_end, take_first_end
from betimes.kernels import blank, entry

put, take, heapify, pop = entry(put_end), entry(take_first_end), entry(make_heap), entry(pop_end)


@given(st.lists(st.sampled_from((-1.5, 0.0, 2.0, 7.0)), min_size=1, max_size=40), st.integers(0, 40))
def test_a_list_and_then_a_heap_give_entries_in_order(at_s: list[float], from_list: int) -> None:
    ends, left, found = blank(End, len(at_s)), len(at_s), list[tuple[float, int]]()
    for at, one in enumerate(at_s):
        put(ends, at, one, at * 7 % len(at_s) if len(at_s) % 7 else at, at)
    while left > 0:
        if len(found) == from_list:
            heapify(ends, left)
        left = take(ends, left) if len(found) < from_list else pop(ends, left)
        end = ends[left]
        assert end.at_s == at_s[end.slot]
        found.append((end.at_s, end.rank))
    assert found == sorted(found)
    assert len({rank for _, rank in found}) == len(at_s)
