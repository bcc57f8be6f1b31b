"""Which policies are simulated within a budget, and which one wins (spec/portfolio.md C.6, C9, C10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.foresight.portfolio.selection import Limit, Rotation, surely_better, winner


def first(_: int) -> int:
    return 0


def round_of(rotation: Rotation, scores: dict[int, float]) -> list[int]:
    """Those simulated, in order, where `scores` is what each would get."""
    simulated: list[int] = []

    def simulate(members: Sequence[int]) -> dict[int, tuple[float, float]]:
        simulated.extend(members)
        return {member: (scores[member], 1.0) for member in members}

    assert rotation.simulate(simulate) == {member: scores[member] for member in simulated}
    return simulated


def test_c9() -> None:
    rotation = Rotation([1, 2, 3, 4, 5, 6], 3, first)
    rounds = [
        ({1: 10.0, 2: 30.0, 3: 20.0}, [1, 2, 3], [2, 3], [4, 5, 6], [1], 2),
        ({2: 15.0, 4: 40.0, 3: 5.0}, [2, 4, 3], [4, 2], [5, 6], [1, 3], 4),
        ({4: 10.0, 5: 8.0, 2: 50.0}, [4, 5, 2], [2, 4], [6], [1, 3, 5], 2),
    ]
    for scores, simulated, smart, stale, poor, best in rounds:
        assert round_of(rotation, scores) == simulated
        assert (rotation.smart, rotation.stale, rotation.poor) == (smart, stale, poor)
        assert winner(scores) == best


@given(
    st.integers(1, 60),
    st.integers(2, 70),
    st.randoms(use_true_random=False),
)
def test_c10_sets_hold_every_policy_once_and_the_budget_is_used(
    members: int, budget: int, random: Random
) -> None:
    rotation = Rotation(list(range(members)), budget, random.randrange)
    count = min(budget, members)
    for _ in range(12):
        simulated = round_of(rotation, {member: random.random() for member in range(members)})
        assert len(simulated) == len(set(simulated)) == count
        assert sorted(rotation.smart + rotation.stale + rotation.poor) == list(range(members))
        assert len(rotation.smart) == math.ceil(Fraction(6, 10) * count)


def test_c10_a_budget_for_all_simulates_all() -> None:
    rotation = Rotation(list(range(60)), 60, first)
    for _ in range(5):
        assert sorted(round_of(rotation, {n: float(n * 7 % 60) for n in range(60)})) == list(range(60))


def test_smart_first_simulates_the_good_ones_and_shares_the_rest() -> None:
    rotation = Rotation(list(range(20)), 10, first)
    scores = {n: float(n) for n in range(20)}
    assert round_of(rotation, scores) == list(range(10))
    assert rotation.smart == [9, 8, 7, 6, 5, 4]
    # three are left after the good ones and the first never simulated: 9 are stale and 4 poor, so 27/13 and the rest
    assert round_of(rotation, scores) == [9, 10, 8, 7, 6, 5, 4, 11, 12, 3]


@given(
    st.integers(1, 40),
    st.one_of(st.integers(2, 45), st.floats(0.1, 50.0)),
    st.randoms(use_true_random=False),
)
def test_every_policy_is_simulated_again_within_as_many_selections_as_there_are_policies(
    members: int, budget: Limit, random: Random
) -> None:
    rotation = Rotation(list(range(members)), budget, random.randrange)
    worth = [random.random() for _ in range(members)]
    last = [0] * members

    def simulate(those: Sequence[int]) -> dict[int, tuple[float, float]]:
        for member in those:
            last[member] = selection
        return {member: (worth[member], 0.5 + worth[member]) for member in those}

    for selection in range(1, 3 * members + 1):
        assert len(rotation.simulate(simulate)) >= min(2, members)
        assert selection - min(last) <= members


def test_a_policy_that_fails_is_in_no_set_any_more() -> None:
    rotation = Rotation([0, 1, 2], None, first)
    scores = rotation.simulate(
        lambda members: {member: (None if member == 1 else float(member), 1.0) for member in members}
    )
    assert scores == {0: 0.0, 2: 2.0}
    assert sorted(rotation.smart + rotation.stale + rotation.poor) == [0, 2]


def test_by_the_clock_as_many_as_are_expected_to_fit_and_at_least_two() -> None:
    rotation = Rotation([0, 1, 2, 3], 1.0, first)
    seen: list[int] = []

    def simulate(members: Sequence[int]) -> dict[int, tuple[float, float]]:
        (member,) = members
        seen.append(member)
        return {member: (float(member), 0.6)}

    assert set(rotation.simulate(simulate)) == {0, 1}  # what one takes is not known before
    rotation.limit = 0.5
    seen.clear()
    for _ in range(3):
        assert len(rotation.simulate(simulate)) == 2


def test_ties() -> None:
    equal = {0: 5.0, 1: 5.0 * (1.0 - 1e-15), 2: 5.0, 3: 1.0}
    assert winner(equal) == 0
    assert winner(equal, preferred=[3, 2, 1, 0]) == 2


@pytest.mark.parametrize(
    ("scores", "than", "surely"),
    [
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], True),  # by 2, with an error of 0.58
        ([3.0, -1.0, 1.0], [0.0, 0.0, 0.0], False),  # by 1, with an error of 1.15
        ([13.0, 9.0, 21.0], [12.0, 7.0, 18.0], True),  # what differs is compared, scenario by scenario
        ([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], False),
        ([1.0, 1.0], [1.0, 1.0], False),
        ([5.0], [4.0], True),  # of one scenario no error is known
        ([4.0], [5.0], False),
    ],
)
def test_what_is_surely_better_is_so_by_two_standard_errors(
    scores: list[float], than: list[float], surely: bool
) -> None:
    assert surely_better(scores, than) == surely
