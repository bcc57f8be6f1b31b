"""Leases of nodes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.runtime.heartbeats import Heartbeats


def test_a_node_that_is_not_heard_of_is_lost_once() -> None:
    beats = Heartbeats(30.0)
    assert (beats.next_expiry_s(), beats.expired(1e9)) == (math.inf, [])
    beats.beat("a", 100.0)
    beats.beat("b", 110.0)
    beats.beat("a", 120.0)
    assert beats.next_expiry_s() == 140.0
    assert beats.expired(139.9) == []
    assert beats.expired(140.0) == ["b"]
    assert beats.expired(149.0) == []
    assert (beats.last_s("a"), beats.last_s("b")) == (120.0, None)
    assert beats.next_expiry_s() == 150.0
    beats.beat("b", 145.0)
    assert beats.expired(1000.0) == ["a", "b"]


def test_a_beat_at_the_last_instant_is_in_time() -> None:
    beats = Heartbeats(30.0)
    beats.beat("a", 0.0)
    beats.beat("a", 30.0)
    assert beats.expired(30.0) == []


def test_a_node_that_was_removed_is_not_lost() -> None:
    beats = Heartbeats(30.0)
    beats.beat("a", 0.0)
    beats.forget("a")
    beats.forget("a")
    assert (beats.expired(1e9), beats.next_expiry_s()) == ([], math.inf)


def test_a_clock_that_is_put_forward_loses_nobody() -> None:
    beats = Heartbeats(30.0)
    beats.beat("a", 100.0)
    beats.beat("b", 120.0)
    # At 125, the clock is put forward by an hour; "c" is heard of before anybody is told.
    beats.beat("c", 3725.0)
    beats.extend(3600.0, 3726.0)
    assert beats.expired(3729.0) == []
    assert beats.expired(3730.0) == ["a"]
    assert beats.expired(3750.0) == ["b"]
    assert beats.next_expiry_s() == 3756.0, "not an hour later"
    beats.beat("c", 3700.0)
    assert beats.last_s("c") == 3726.0


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_wrong_lengths(wrong: float) -> None:
    with pytest.raises(ValueError, match="expected a lease of more than 0 s"):
        Heartbeats(wrong)
    if wrong != 0:
        with pytest.raises(ValueError, match="expected leases to be extended by 0 s or more"):
            Heartbeats(1.0).extend(wrong, 0.0)


STEPS = st.lists(
    st.tuples(
        st.floats(0, 20), st.sampled_from(["beat", "beat", "forget", "look", "jump"]), st.sampled_from("abcd")
    ),
    max_size=60,
)


@given(STEPS, st.floats(1, 30))
def test_against_a_table(steps: list[tuple[float, str, str]], lease_s: float) -> None:
    beats, table, now_s = Heartbeats(lease_s), dict[str, float](), 0.0
    for passed_s, what, node in steps:
        now_s += passed_s
        if what == "beat":
            beats.beat(node, now_s)
            table[node] = now_s
        elif what == "forget":
            beats.forget(node)
            table.pop(node, None)
        elif what == "jump":
            beats.extend(passed_s, now_s)
            table = {each: min(heard_s + passed_s, now_s) for each, heard_s in table.items()}
        else:
            lost = beats.expired(now_s)
            assert set(lost) == {each for each, heard_s in table.items() if heard_s + lease_s <= now_s}
            heard = [table.pop(each) for each in lost]
            assert heard == sorted(heard)
        assert beats.next_expiry_s() == min(table.values(), default=math.inf) + lease_s
        assert all(beats.last_s(each) == table.get(each) for each in "abcd")
