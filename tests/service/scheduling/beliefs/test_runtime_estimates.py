"""What a job is believed to take before it runs."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.scheduling.beliefs.runtime_estimates import RuntimeEstimates


def test_estimate_then_last_two_then_default() -> None:
    times = RuntimeEstimates(1800.0)
    assert times.believed("ann", "train") == (1800.0, "default")
    assert times.believed("ann", "train", 60.0) == (60.0, "estimate")
    times.finished("ann", "train", 100.0)
    assert times.believed("ann", "train") == (100.0, "last-two")
    times.finished("ann", "train", 200.0)
    assert times.believed("ann", "train") == (150.0, "last-two")
    times.finished("ann", "train", 400.0)
    assert times.believed("ann", "train") == (300.0, "last-two")
    assert times.believed("ann", "train", 60.0) == (60.0, "estimate")
    assert times.believed("bob", "train") == times.believed("ann", "eval") == (1800.0, "default")


def test_no_job_takes_no_time() -> None:
    times = RuntimeEstimates()
    times.finished("ann", "true", 0.0)
    assert times.believed("ann", "true") == (0.01, "last-two")
    assert times.believed("ann", "other") == (3600.0, "default")


def test_the_longest_ago_is_forgotten() -> None:
    times = RuntimeEstimates(most=2)
    times.finished("ann", "a", 1.0)
    times.finished("ann", "b", 2.0)
    times.finished("ann", "a", 3.0)
    for _ in range(3):
        assert times.believed("ann", "b").basis == "last-two"  # asking keeps nothing alive
    times.finished("ann", "c", 4.0)
    assert len(times) == 2
    assert [times.believed("ann", name).basis for name in "abc"] == ["last-two", "default", "last-two"]


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan])
def test_wrong_run_times(wrong: float) -> None:
    with pytest.raises(ValueError, match="the run time of ann's a: expected 0 s or more"):
        RuntimeEstimates().finished("ann", "a", wrong)
    with pytest.raises(ValueError, match="expected a default above 0 s"):
        RuntimeEstimates(wrong)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.floats(0, 1e9)), max_size=30),
    st.integers(1, 7),
)
def test_there_and_back_through_json(runs: list[tuple[str, str, float]], most: int) -> None:
    times = RuntimeEstimates(most=most)
    for run in runs:
        times.finished(*run)
    again = RuntimeEstimates.from_json(json.loads(json.dumps(times.to_json())), most=most)
    assert again.to_json() == times.to_json()
    for user in "ab":
        for name in "xyz":
            assert again.believed(user, name) == times.believed(user, name)
    for each in (times, again):
        each.finished("c", "new", 1.0)
    assert again.to_json() == times.to_json()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=10))
def test_as_the_twin_remembers(runs_s: list[float]) -> None:
    times = RuntimeEstimates()
    for run_s in runs_s:
        times.finished("ann", "a", run_s)
    last_s, before_s = (runs_s[-1], runs_s[-2]) if len(runs_s) > 1 else (runs_s[0], runs_s[0])
    assert times.believed("ann", "a").seconds == max(0.01, (last_s + before_s) / 2.0)


def test_fewer_names_than_there_were() -> None:
    times = RuntimeEstimates()
    for name in "abc":
        times.finished("ann", name, 5.0)
    small = RuntimeEstimates.from_json(times.to_json(), default_s=7.0, most=1)
    assert small.believed("ann", "c") == (5.0, "last-two")
    assert small.believed("ann", "b") == (7.0, "default")
