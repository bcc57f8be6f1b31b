"""Full and Partial Reconfiguration: the worked cases of the paper, the published figures, and a slow transcription."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.policies.packing.plan import Plan, changes, check
from betimes.policies.packing.planners.eva import savings_usd_per_h
from betimes.policies.packing.planners.reconfiguration import full_reconfiguration, partial_reconfiguration
from betimes.policies.packing.problem import Problem
from betimes.policies.packing.throughput import ThroughputTable
from betimes.policies.packing.valuation import Valuation, valued
from tests.policies.packing.cases import (
    TABLE_3,
    ec2,
    problem,
    problems,
    published_tasks,
    shape,
    table,
    tables,
)
from tests.reference import packing_direct


def full(tasks: Problem, known: ThroughputTable, penalty: Any = "job", **switches: Any) -> Plan:
    plan = Plan(full_reconfiguration(Valuation(tasks, known, penalty), **switches))
    check(plan, tasks)
    return plan


def partial(tasks: Problem, known: ThroughputTable, penalty: Any = "job", **switches: Any) -> Plan:
    plan = Plan(partial_reconfiguration(Valuation(tasks, known, penalty), **switches))
    check(plan, tasks)
    return plan


ALL = ("t1", "t2", "t3", "t4")


def test_full_without_interference() -> None:
    tasks = problem(ALL)
    plan = full(tasks, table(1.0))
    assert shape(plan, tasks) == {("it1", ("t1", "t2", "t4"), None), ("it3", ("t3",), None)}
    assert plan.usd_per_h(TABLE_3) == pytest.approx(12.8)


@pytest.mark.parametrize("default", [0.95, 0.8])
def test_full_stops_where_another_task_costs_more_than_it_brings(default: float) -> None:
    tasks = problem(ALL)
    plan = full(tasks, table(default))
    assert shape(plan, tasks) == {("it1", ("t1", "t2"), None), ("it3", ("t3",), None), ("it4", ("t4",), None)}
    assert plan.usd_per_h(TABLE_3) == pytest.approx(13.2)


def test_full_separates_what_does_not_pay_together() -> None:
    plan = full(problem(ALL), table(0.7))
    assert sorted(each.type for each in plan.bins) == ["it1", "it2", "it3", "it4"]
    assert plan.usd_per_h(TABLE_3) == pytest.approx(16.2)


@pytest.mark.parametrize(("t1", "t2", "cost"), [(0.8, 0.9, 12.0), (0.7, 0.8, 15.0)])
def test_recorded_pairs_decide(t1: float, t2: float, cost: float) -> None:
    known = table(1.0, {("t1", "t2"): t1, ("t2", "t1"): t2})
    tasks = problem(("t1", "t2"))
    assert Valuation(tasks, known).value([0, 1], 0) == pytest.approx(12 * t1 + 3 * t2)
    assert full(tasks, known).usd_per_h(TABLE_3) == pytest.approx(cost)


@pytest.mark.parametrize("penalty", ["job", "own"])
def test_a_task_counts_less_where_it_slows_its_siblings(penalty: str) -> None:
    names, job = ("t1", "a", "b"), {"a": 7, "b": 7}
    apart = problem(names)
    plan = full(apart, table(0.8), penalty)
    assert shape(plan, apart) == {("it1", ("a", "t1"), None), ("it2", ("b",), None)}
    assert plan.usd_per_h(TABLE_3) == pytest.approx(15.0)
    one_job = problem(names, jobs=job)
    assert Valuation(one_job, table(0.8), penalty).value([0, 1], 0) == pytest.approx(9.6 + 1.8)  # type: ignore[arg-type]
    plan = full(one_job, table(0.8), penalty)
    assert shape(plan, one_job) == {("it1", ("t1",), None), ("it2", ("a",), None), ("it2", ("b",), None)}
    assert plan.usd_per_h(TABLE_3) == pytest.approx(18.0)
    for tasks in (apart, one_job):
        assert shape(full(tasks, table(0.9), penalty), tasks) == {("it1", ("a", "b", "t1"), None)}


def test_a_dear_machine_is_given_up_when_its_dear_task_is_gone() -> None:
    tasks = problem(("t2", "t3", "t4"), {"t2": 1, "t4": 1, "t3": 2}, [(1, "it1"), (2, "it3")])
    for plan in (full(tasks, table(1.0)), partial(tasks, table(1.0))):
        assert shape(plan, tasks) == {("it3", ("t3",), 2), ("it2", ("t2",), None), ("it4", ("t4",), None)}
        assert plan.usd_per_h(TABLE_3) == pytest.approx(4.2)
        assert savings_usd_per_h(plan, Valuation(tasks, table(1.0))) == pytest.approx(0.0)
        assert changes(plan, tasks).released == (1,)


def test_full_moves_onto_a_machine_that_runs_and_partial_changes_nothing() -> None:
    tasks = problem(ALL, {"t1": 1, "t4": 1, "t2": 2, "t3": 3}, [(1, "it1"), (2, "it2"), (3, "it3")])
    value = Valuation(tasks, table(1.0))
    plan = partial(tasks, table(1.0))
    assert changes(plan, tasks).moves == () == changes(plan, tasks).released
    assert plan.usd_per_h(TABLE_3) == pytest.approx(15.8)
    assert savings_usd_per_h(plan, value) == pytest.approx(0.4)
    plan = full(tasks, table(1.0))
    changed = changes(plan, tasks)
    assert [(move.task, move.from_machine, plan.bins[move.to_bin].machine) for move in changed.moves] == [
        (1, 2, 1)
    ]
    assert (changed.rented, changed.released, changed.jobs) == ((), (2,), frozenset({1}))
    assert savings_usd_per_h(plan, value) == pytest.approx(3.4)


def test_only_the_released_rules_put_a_task_where_it_does_harm() -> None:
    tasks = problem(("t1", "n"), {"t1": 1}, [(1, "it1")])
    known = table(1.0, {("t1", "n"): 0.5, ("n", "t1"): 0.5})
    value = Valuation(tasks, known)
    apart = {("it1", ("t1",), 1), ("it2", ("n",), None)}
    assert shape(full(tasks, known), tasks) == apart
    released = partial(tasks, known, fill_running="always")
    assert shape(released, tasks) == {("it1", ("n", "t1"), 1)}
    assert savings_usd_per_h(released, value) == pytest.approx(-4.5)
    for rule in ("never", "cost-test"):
        plan = partial(tasks, known, fill_running=rule)
        assert shape(plan, tasks) == apart
        assert savings_usd_per_h(plan, value) == pytest.approx(0.0)


def test_the_cost_test_fills_what_runs_where_it_pays() -> None:
    tasks = problem(("t1", "n"), {"t1": 1}, [(1, "it1")])
    assert shape(partial(tasks, table(0.9), fill_running="cost-test"), tasks) == {("it1", ("n", "t1"), 1)}
    assert shape(partial(tasks, table(0.9), fill_running="never"), tasks) == {
        ("it1", ("t1",), 1),
        ("it2", ("n",), None),
    }


@pytest.mark.parametrize(("seed", "cost"), [(0, 691.866), (1, 688.398), (2, 674.1708)])
def test_the_published_benchmark_to_the_cent(seed: int, cost: float) -> None:
    tasks = published_tasks(200, seed)
    assert full(tasks, table(1.0), "own", down_sizing="new").usd_per_h(ec2()) == pytest.approx(cost, abs=1e-9)


def test_the_published_benchmark_with_interference() -> None:
    plan = full(published_tasks(200, 0), table(0.95), "own", down_sizing="new")
    assert (plan.usd_per_h(ec2()), len(plan.bins)) == (pytest.approx(702.576, abs=1e-9), 134)


SWITCHES = st.fixed_dictionaries(
    {
        "fill_running": st.sampled_from(["never", "always", "cost-test"]),
        "down_sizing": st.sampled_from(["never", "new", "reuse"]),
        "refill": st.booleans(),
    }
)
PENALTIES = st.sampled_from(["none", "job", "own"])


@given(problems(), tables(), PENALTIES, PENALTIES, SWITCHES)
@settings(deadline=None)
def test_plans_are_those_of_the_slow_transcription(
    tasks: Problem, known: ThroughputTable, penalty: Any, beside: Any, switches: dict[str, Any]
) -> None:
    packing, other = Valuation(tasks, known, penalty), Valuation(tasks, known, beside)
    for quick, slow in (
        (full_reconfiguration, packing_direct.full),
        (partial_reconfiguration, packing_direct.partial),
    ):
        bins = quick(packing, beside=other, **switches)
        check(Plan(bins), tasks)
        assert list(bins) == slow(tasks, known, penalty=penalty, beside=beside, **switches)


@given(problems(), tables())
@settings(deadline=None)
def test_full_never_costs_more_than_a_machine_for_each_task(tasks: Problem, known: ThroughputTable) -> None:
    """Every set is worth its machine, and nothing is worth more than its reservation price."""
    waiting = Problem(tasks.catalogue, tuple(type(t)(t.id, t.job, t.kind, t.demand) for t in tasks.tasks))
    value = Valuation(waiting, known, "job")
    apart = sum(value.groups[value.group_of[task.id]].price for task in waiting.tasks)
    assert full(waiting, known, down_sizing="reuse").usd_per_h(TABLE_3) <= apart + 1e-6


@settings(max_examples=25, deadline=None)
@given(known=tables(), rounds=st.lists(problems(), min_size=2, max_size=4), data=st.data())
def test_what_is_kept_from_round_to_round_plans_as_if_nothing_were(
    known: ThroughputTable, rounds: list[Problem], data: st.DataObject
) -> None:
    kinds = st.sampled_from(["k0", "k1", "k2", "k3"])
    kept: Valuation | None = None
    for tasks in rounds:
        for _ in range(data.draw(st.integers(0, 3))):
            others = data.draw(st.lists(kinds, max_size=3))
            known.observe(data.draw(kinds), others, data.draw(st.sampled_from([0.3, 0.7, 0.9, 1.0])))
        kept = valued(kept, tasks, known, "job", known.take_changed())
        fresh = Valuation(tasks, known)
        switches: dict[str, Any] = {"fill_running": "cost-test", "down_sizing": "reuse"}
        assert full_reconfiguration(kept, **switches) == full_reconfiguration(fresh, **switches)
        assert partial_reconfiguration(kept, **switches) == partial_reconfiguration(fresh, **switches)
        residents = [on for on in tasks.residents.values() if on]
        assert [kept.value(on, 0) for on in residents] == pytest.approx(
            [fresh.value(on, 0) for on in residents]
        )
