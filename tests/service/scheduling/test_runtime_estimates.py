"""What a job is believed to take before it runs."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.scheduling.beliefs import RuntimeEstimates
from betimes.service.spec.job_spec import JobSpec


def job(name: str, **asked: Any) -> JobSpec:
    return JobSpec(command=["true"], name=name, **asked)


def finished(times: RuntimeEstimates, user: str, spec: JobSpec, run_s: float) -> None:
    times.finished(user, spec.history_key, spec.title, run_s)


def test_estimate_then_last_two_then_default() -> None:
    times, train = RuntimeEstimates(1800.0), job("train")
    told = job("train", estimate_s=60.0)
    assert times.believed("ann", train) == (1800.0, "default")
    assert times.believed("ann", told) == (60.0, "estimate")
    finished(times, "ann", train, 100.0)
    assert times.believed("ann", train) == (100.0, "last-two")
    finished(times, "ann", train, 200.0)
    assert times.believed("ann", train) == (150.0, "last-two")
    finished(times, "ann", train, 400.0)
    assert times.believed("ann", train) == (300.0, "last-two")
    assert times.believed("ann", told) == (60.0, "estimate")
    assert times.believed("bob", train) == times.believed("ann", job("eval")) == (1800.0, "default")


@pytest.mark.parametrize(
    ("asked", "before_s", "believed"),
    [
        ({}, None, (600.0, "limit")),  # nothing else is known
        ({}, 200.0, (200.0, "last-two")),
        ({}, 900.0, (600.0, "limit")),
        ({"estimate_s": 60.0}, 900.0, (60.0, "estimate")),
        ({"estimate_s": 7200.0}, 200.0, (600.0, "limit")),
        ({"steps": 100, "step_s": 60.0}, None, (600.0, "limit")),
    ],
)
def test_no_job_is_believed_to_take_longer_than_its_time_limit(
    asked: dict[str, Any], before_s: float | None, believed: tuple[float, str]
) -> None:
    times = RuntimeEstimates(60.0)
    if before_s is not None:
        finished(times, "ann", job("train"), before_s)
    assert times.believed("ann", job("train", time_limit_s=600.0, **asked)) == believed


def test_an_estimate_above_the_limit_is_worth_a_note() -> None:
    times = RuntimeEstimates()
    (note,) = times.notes("ann", job("train", estimate_s=7200.0, time_limit_s=600.0))
    assert "estimate of 2 h is above the time limit of 10 min" in note
    assert times.notes("ann", job("train", estimate_s=600.0, time_limit_s=600.0)) == []


def run_of(*command: str, **asked: Any) -> JobSpec:
    return JobSpec(command=[*command], **asked)


@pytest.mark.parametrize(
    "other",
    [
        run_of("python", "train.py", workdir="/a"),
        run_of("python", "-c", "print(1)", workdir="/b"),
        run_of("/usr/bin/python", "-c", "print(1)", workdir="/a"),
        run_of("python", "-c", "print(1)", upload="0" * 64),
        run_of("python", "-c", "print(1)", workdir="/a", name="count"),
    ],
)
def test_the_same_program_with_another_command_or_in_another_directory_has_another_history(
    other: JobSpec,
) -> None:
    times, once = RuntimeEstimates(), run_of("python", "-c", "print(1)", workdir="/a")
    for _ in range(2):
        finished(times, "ann", once, 4.0)
    assert times.believed("ann", once) == (4.0, "last-two")
    assert times.notes("ann", once) == []
    assert times.believed("ann", other) == (3600.0, "default")
    expected = [] if other.name else ["2 other jobs called python"]
    assert [note[:26] for note in times.notes("ann", other)] == expected
    assert times.notes("bob", other) == []
    assert times.notes("ann", other.model_copy(update={"estimate_s": 60.0})) == []


def test_no_job_takes_no_time() -> None:
    times = RuntimeEstimates()
    finished(times, "ann", job("true"), 0.0)
    assert times.believed("ann", job("true")) == (0.01, "last-two")
    assert times.believed("ann", job("other")) == (3600.0, "default")


def test_the_longest_ago_is_forgotten() -> None:
    times = RuntimeEstimates(most=2)
    finished(times, "ann", job("a"), 1.0)
    finished(times, "ann", job("b"), 2.0)
    finished(times, "ann", job("a"), 3.0)
    for _ in range(3):
        assert times.believed("ann", job("b")).basis == "last-two"  # asking keeps nothing alive
    finished(times, "ann", job("c"), 4.0)
    assert len(times) == 2
    assert [times.believed("ann", job(name)).basis for name in "abc"] == ["last-two", "default", "last-two"]


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan])
def test_wrong_run_times(wrong: float) -> None:
    with pytest.raises(ValueError, match="the run time of ann's a: expected 0 s or more"):
        finished(RuntimeEstimates(), "ann", job("a"), wrong)
    with pytest.raises(ValueError, match="expected a default above 0 s"):
        RuntimeEstimates(wrong)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.floats(0, 1e9)), max_size=30),
    st.integers(1, 7),
)
def test_there_and_back_through_json(runs: list[tuple[str, str, float]], most: int) -> None:
    times = RuntimeEstimates(most=most)
    for user, name, run_s in runs:
        finished(times, user, job(name), run_s)
    again = RuntimeEstimates.from_json(json.loads(json.dumps(times.to_json())), most=most)
    assert again.to_json() == times.to_json()
    for user in "ab":
        for name in "xyz":
            assert again.believed(user, job(name)) == times.believed(user, job(name))
    for each in (times, again):
        finished(each, "c", job("new"), 1.0)
    assert again.to_json() == times.to_json()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=10))
def test_as_the_twin_remembers(runs_s: list[float]) -> None:
    times = RuntimeEstimates()
    for run_s in runs_s:
        finished(times, "ann", job("a"), run_s)
    last_s, before_s = (runs_s[-1], runs_s[-2]) if len(runs_s) > 1 else (runs_s[0], runs_s[0])
    assert times.believed("ann", job("a")).seconds == max(0.01, (last_s + before_s) / 2.0)


def test_fewer_names_than_there_were() -> None:
    times = RuntimeEstimates()
    for name in "abc":
        finished(times, "ann", job(name), 5.0)
    small = RuntimeEstimates.from_json(times.to_json(), default_s=7.0, most=1)
    assert small.believed("ann", job("c")) == (5.0, "last-two")
    assert small.believed("ann", job("b")) == (7.0, "default")


def test_names_of_a_snapshot_of_before() -> None:
    times = RuntimeEstimates.from_json([["ann", "train", [30.0, 50.0]]])
    assert times.believed("ann", job("train")) == (40.0, "last-two")
