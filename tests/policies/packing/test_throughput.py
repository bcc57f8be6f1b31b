"""The co-location throughput table: look-ups, updates and who is held to blame (spec 6.4, 6.5)."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.errors import InputError
from betimes.policies.packing.throughput import ThroughputTable, normalised
from tests.policies.packing.cases import problem


def made(meaning: Any, *entries: tuple[str, list[str], float]) -> ThroughputTable:
    table = ThroughputTable(0.95, meaning)
    for kind, others, value in entries:
        table.observe(kind, others, value)
    return table


@pytest.mark.parametrize("meaning", ["mean", "lower-bound"])
def test_what_is_not_recorded_is_the_product_of_pairs(meaning: str) -> None:
    table = made(meaning, ("a", ["b"], 0.9))
    assert table.of("a", []) == 1.0
    assert table.of("a", ["c", "b"]) == pytest.approx(0.855)
    assert table.of("b", ["a", "c"]) == pytest.approx(0.9025)
    assert table.of("a", ["b", "b"]) == pytest.approx(0.81)
    table.observe("a", ["c", "b"], 0.8)
    assert table.of("a", ["b", "c"]) == 0.8
    assert list(table.combinations()) == [("a", ("b", "c"), 0.8)]


def test_a_second_observation_is_averaged_or_taken() -> None:
    assert made("mean", ("a", ["b", "c"], 0.8), ("a", ["b", "c"], 0.9)).of("a", ["b", "c"]) == pytest.approx(
        0.85
    )
    assert made("lower-bound", ("a", ["b", "c"], 0.8), ("a", ["b", "c"], 0.9)).of("a", ["b", "c"]) == 0.9


def test_only_means_keep_what_a_task_shows_alone() -> None:
    assert made("mean", ("a", [], 0.8)).of("a", []) == 0.8
    assert made("lower-bound", ("a", [], 0.8)).of("a", []) == 1.0


def test_pairs_are_fitted_to_the_combinations_that_they_are_seen_in() -> None:
    table = made("fitted", ("a", ["b", "c"], 0.81))
    assert table.pair("a", "b") == table.pair("a", "c") == pytest.approx(0.9, abs=2e-3)
    table.observe("a", ["b", "b"], 0.95**2)
    assert table.pair("a", "b") == pytest.approx(0.95, abs=2e-3)
    assert table.pair("a", "c") == pytest.approx(0.81 / 0.95, abs=5e-3)
    assert (table.pair("b", "a"), table.pair("a", "d")) == (0.95, 0.95)
    assert list(table.combinations()) == []


def test_what_its_pairs_do_not_explain_is_recorded() -> None:
    table = made("fitted", ("a", ["b"], 0.9), ("a", ["c"], 0.9), ("a", ["b", "c"], 0.5))
    assert table.of("a", ["b", "c"]) == pytest.approx(0.5, abs=5e-3)
    assert table.pair("a", "b") < 0.9
    table.observe("a", ["b"], 0.9)
    assert table.of("a", ["b"]) == pytest.approx(0.9, abs=5e-3)


@given(st.lists(st.floats(0.75, 1.0), min_size=3, max_size=3))
@settings(max_examples=20)
def test_products_are_learnt_from_any_combinations(pairs: list[float]) -> None:
    true, draw = dict(zip("bcd", pairs, strict=True)), random.Random(1)
    table = ThroughputTable(0.95, "fitted")
    for _ in range(60):
        others = [draw.choice("bcd") for _ in range(draw.randint(1, 4))]
        table.observe("a", others, math.prod(true[other] for other in others))
    for other in "bcd":
        assert table.of("a", [other]) == pytest.approx(true[other], abs=0.05)


def test_a_job_blames_the_combination_whose_pairs_are_not_known() -> None:
    table = made("fitted", ("b", ["y"], 0.98), ("b", ["z"], 0.98))
    table.observe_job([("a", ["x"]), ("b", ["y", "z"])], 0.8)
    assert table.pair("a", "x") == pytest.approx(0.8, abs=5e-3)
    assert table.of("b", ["y", "z"]) == pytest.approx(0.98**2, abs=1e-3)


A, B = ("a", ["x"]), ("b", ["y", "z"])
CASES = [
    # recorded before, observed, the entry that is updated, its value by meaning
    ([], 0.8, B, {"mean": 0.8, "lower-bound": 0.8}),
    ([(*B, 0.8)], 0.85, B, {"mean": 0.825, "lower-bound": 0.85}),
    ([(*B, 0.9)], 0.8, A, {"mean": 0.8, "lower-bound": 0.8}),
    ([(*B, 0.9), (*A, 0.95)], 0.8, B, {"mean": 0.85, "lower-bound": 0.8}),
    ([(*A, 0.7)], 0.8, A, {"mean": 0.75, "lower-bound": 0.8}),
]


@pytest.mark.parametrize("meaning", ["mean", "lower-bound"])
@pytest.mark.parametrize(("recorded", "observed", "entry", "values"), CASES)
def test_one_entry_is_held_to_blame(
    meaning: str, recorded: Any, observed: float, entry: Any, values: dict[str, float]
) -> None:
    table = made(meaning, *recorded)
    before = {key: table.recorded(*key) for key in ((A[0], tuple(A[1])), (B[0], tuple(B[1])))}
    table.observe_job([A, B], observed)
    assert table.recorded(*entry) == pytest.approx(values[meaning])
    other = A if entry is B else B
    assert table.recorded(*other) == before[other[0], tuple(other[1])]


def test_a_task_alone_is_never_to_blame_by_the_paper() -> None:
    table = ThroughputTable()
    table.observe_job([("a", []), ("b", [])], 0.5)
    assert table.of("a", []) == table.of("b", []) == 1.0
    table.observe_job([("a", []), ("b", ["c"])], 0.5)
    assert table.of("b", ["c"]) == 0.5


def test_a_round_counts_machines_on_which_every_task_reports() -> None:
    names = ("t1", "a", "b", "t3", "n")
    tasks = problem(
        names, {"t1": 1, "a": 1, "b": 2, "t3": 3, "n": 4}, [(1, "it1"), (2, "it2"), (3, "it3"), (4, "it2")]
    )
    table = ThroughputTable()
    table.observe_round(tasks, {0: 0.9, 2: 1.0})
    assert table.recorded("t1", ["a"]) is None
    table.observe_round(tasks, {0: 0.9, 1: 0.0})
    assert table.recorded("t1", ["a"]) is None
    table.observe_round(tasks, {0: 0.9, 1: 0.7})
    assert (table.recorded("t1", ["a"]), table.recorded("a", ["t1"])) == (0.9, 0.7)


def test_a_job_of_several_tasks_is_as_fast_as_its_slowest() -> None:
    tasks = problem(("t1", "a", "b"), {"t1": 1, "a": 1, "b": 2}, [(1, "it1"), (2, "it2")], {"a": 5, "b": 5})
    table = ThroughputTable()
    table.observe_round(tasks, {0: 0.9, 1: 0.7, 2: 0.6})
    assert table.recorded("a", ["t1"]) == 0.6
    assert table.recorded("b", []) is None
    table.observe_round(tasks, {0: 0.9, 1: 0.7})
    assert table.recorded("a", ["t1"]) == 0.6


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_throughput_outside_0_to_1_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="the throughput of a: expected a number from 0 to 1"):
        ThroughputTable().observe("a", ["b"], value)
    with pytest.raises(InputError, match="from 0 to 1"):
        ThroughputTable().observe_job([A, B], value)
    with pytest.raises(InputError, match="a pair that is not recorded"):
        ThroughputTable(value)


def test_throughputs_are_normalised_to_at_most_1() -> None:
    assert (normalised(1.0, 2.0), normalised(2.2, 2.0)) == (0.5, 1.0)
    with pytest.raises(InputError, match="above 0"):
        normalised(1.0, 0.0)


def test_with_ignored_nothing_slows_a_task_whatever_is_observed():
    table = ThroughputTable(0.95, "ignored")
    table.observe("a", ["b"], 0.5)
    table.observe_job([("a", ["b"]), ("a", [])], 0.5)
    assert table.of("a", ["b", "c"]) == 1.0
    assert not table.take_changed()
