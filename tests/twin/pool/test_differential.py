"""The compiled engine decides, promises and accounts as the slow object model does, on random jobs."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.twin.pool.comparing import differences
from tests.twin.pool.driving import Setup, run_engine
from tests.twin.pool.workloads import (
    POLICIES,
    SIZES,
    binary_jobs,
    fitting,
    hangs_on_nothing_small,
    mixed_jobs,
    oracle,
    same_in_floats,
)

FEW = settings(max_examples=3)
MANY = settings(max_examples=15)


def check_binary(setup: Setup) -> None:
    exact = oracle(setup, exact=True)
    assume(same_in_floats(setup, exact))
    assert differences(run_engine(setup), exact) == []


def check_mixed(setup: Setup) -> None:
    exact = oracle(setup, exact=True)
    assume(hangs_on_nothing_small(setup, exact))
    assert differences(run_engine(setup), exact) == []


def binary_setups(policy: str, most_jobs: int) -> st.SearchStrategy[Setup]:
    return st.builds(
        fitting,
        jobs=binary_jobs(most_jobs),
        units=st.integers(1, 7),
        policy=st.just(policy),
        restart_s=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
        sizes=st.sampled_from(SIZES),
    )


def mixed_setups(policy: str, fractional: bool, most_jobs: int) -> st.SearchStrategy[Setup]:
    return st.builds(
        fitting,
        jobs=mixed_jobs(most_jobs),
        units=st.integers(1, 9),
        policy=st.just(policy),
        fractional=st.just(fractional),
        restart_s=st.sampled_from([0.0, 0.0, 0.75]),
        sizes=st.sampled_from(SIZES),
    )


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@FEW
def test_ties_and_whole_units(policy: str, data: st.DataObject) -> None:
    check_binary(data.draw(binary_setups(policy, 8)))


@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@FEW
def test_any_times_and_curves(policy: str, fractional: bool, data: st.DataObject) -> None:
    check_mixed(data.draw(mixed_setups(policy, fractional, 8)))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@MANY
def test_ties_and_whole_units_at_length(policy: str, data: st.DataObject) -> None:
    check_binary(data.draw(binary_setups(policy, 20)))


@pytest.mark.slow
@pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data())
@MANY
def test_any_times_and_curves_at_length(policy: str, fractional: bool, data: st.DataObject) -> None:
    check_mixed(data.draw(mixed_setups(policy, fractional, 20)))
