"""Synergy, Owl and Stratus (spec 2.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from betimes_papers.policies.packing import Owl, Stratus, Synergy
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.errors import ClusterError, PolicyError
from betimes.policies.packing.catalogue import Demand
from betimes.policies.packing.plan import Plan, changes, check
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from betimes.policies.packing.throughput import ThroughputTable
from tests.policies.packing.cases import TABLE_3, problem, problems, shape, table
from tests.policies.packing.test_heterogeneous import bins, running, task
from tests.policies.packing.test_heterogeneous import problem as of_kinds

ALL = ("t1", "t2", "t3", "t4")


def lasting(tasks: Problem, *remaining_s: float) -> Problem:
    lasts = zip(tasks.tasks, remaining_s, strict=True)
    return Problem(tasks.catalogue, tuple(replace(t, remaining_s=s) for t, s in lasts), tasks.machines)


def planned(planner: Synergy | Owl | Stratus, tasks: Problem) -> Plan:
    plan = planner.plan(Round(0.0, tasks))
    check(plan, tasks)
    return plan


PLANNERS = [
    Synergy(),
    Owl(table(0.95, {("k0", "k1"): 0.5, ("k2", "k2"): 1.0})),
    Owl(table(0.95), refill=True),
    Stratus(),
    Stratus(grouping="prefixes"),
]


@given(problems(), st.sampled_from(PLANNERS), st.lists(st.floats(1, 1e6), min_size=30, max_size=30))
@settings(deadline=None)
def test_every_plan_is_sound(tasks: Problem, planner: Synergy, lasts: list[float]) -> None:
    planned(planner, lasting(tasks, *lasts[: len(tasks.tasks)]))


@pytest.mark.parametrize("planner", [Synergy(), Owl(table(0.95)), Stratus()])
def test_a_task_that_fits_no_type_is_refused(planner: Synergy) -> None:
    tasks = Problem(TABLE_3, (Task(0, 0, "k", Demand.of((9, 1, 1)), remaining_s=60.0),))
    with pytest.raises(ClusterError, match="fits no instance type"):
        planner.plan(Round(0.0, tasks))


def test_synergy_fills_what_is_worth_its_price_and_never_moves() -> None:
    tasks = problem(ALL)
    plan = planned(Synergy(known=table(1.0)), tasks)
    assert shape(plan, tasks) == {("it1", ("t1", "t2", "t4"), None), ("it3", ("t3",), None)}
    apart = planned(Synergy(known=table(0.7)), tasks)
    assert len(apart.bins) == 4
    poor = problem(("t2", "t4"), {"t2": 1}, [(1, "it1")])
    assert shape(planned(Synergy(known=table(1.0)), poor), poor) == {
        ("it1", ("t2",), 1),
        ("it4", ("t4",), None),
    }


def test_synergy_prefers_worth_over_price_then_alignment() -> None:
    """t4 makes 3.4 of 3.0 on the small machine's price, 12.4 of 12 on the large one's."""
    roomy = Problem(
        TABLE_3,
        (
            Task(0, 0, "t1", Demand.of((2, 8, 24)), 1),
            Task(1, 1, "small", Demand.of((1, 1, 10)), 2),
            Task(2, 2, "tiny", Demand.of((0, 2, 4))),
        ),
        (Machine(1, "it1"), Machine(2, "it2")),
    )
    assert shape(planned(Synergy(known=table(1.0)), roomy), roomy) == {
        ("it1", ("t1",), 1),
        ("it2", ("small", "tiny"), 2),
    }


def test_owl_pairs_what_disturbs_least_and_never_three() -> None:
    tasks = problem(("t1", "a", "b"))
    plan = planned(
        Owl(table(1.0, {("t1", "a"): 0.9, ("a", "t1"): 0.9, ("t1", "b"): 0.95, ("b", "t1"): 0.95})), tasks
    )
    assert shape(plan, tasks) == {("it1", ("b", "t1"), None), ("it2", ("a",), None)}
    assert len(planned(Owl(table(0.8)), tasks).bins) == 3  # 15 * 0.8 = 12: no more than alone


def test_owl_opens_a_new_machine_for_a_pair_unless_it_may_refill() -> None:
    tasks = problem(("t1", "a"), {"t1": 1}, [(1, "it1")])
    assert shape(planned(Owl(table(1.0)), tasks), tasks) == {("it1", ("a", "t1"), None)}
    assert shape(planned(Owl(table(1.0), refill=True), tasks), tasks) == {("it1", ("a", "t1"), 1)}


def test_owl_leaves_pairs_and_puts_a_task_alone_on_its_own_type() -> None:
    tasks = problem(
        ("t1", "a", "t4", "b"), {"t1": 1, "a": 1, "t4": 2, "b": 3}, [(1, "it1"), (2, "it3"), (3, "it2")]
    )
    assert shape(planned(Owl(table(0.5)), tasks), tasks) == {
        ("it1", ("a", "t1"), 1),
        ("it4", ("t4",), None),
        ("it2", ("b",), 3),
    }


def test_stratus_prefers_its_own_bin_of_run_time_then_longer_then_shorter() -> None:
    names = ("t1", "t2", "t3", "n")
    on = {"t1": 1, "t2": 2, "t3": 3}
    machines = [(1, "it1"), (2, "it1"), (3, "it3")]
    tasks = problem(names, on, machines)

    def host(t1_s: float, t2_s: float, n_s: float) -> int | None:
        # t2 uses less than half of its machine: two it2-sized neighbours keep it from being cleared.
        fixed = Problem(
            tasks.catalogue,
            tuple(replace(task, pinned=task.machine is not None) for task in tasks.tasks),
            tasks.machines,
        )
        plan = planned(Stratus(), lasting(fixed, t1_s, t2_s, 100.0, n_s))
        return next(each.machine for each in plan.bins if 3 in each.tasks)

    assert host(1100, 1500, 1200) == 1  # same bin, [1024, 2048): the nearest end
    assert host(1100, 1500, 1400) == 2
    assert host(600, 5000, 1200) == 2  # none in its bin: the longer
    assert host(600, 700, 1200) == 2  # only shorter: the most that is free


def test_stratus_counts_what_is_left_of_a_run() -> None:
    tasks = problem(("t1", "n"), {"t1": 1}, [(1, "it1")])
    with pytest.raises(PolicyError, match="the run time that task 0 has left is not known"):
        Stratus().plan(Round(0.0, tasks))
    with pytest.raises(PolicyError, match="expected grouping consecutive or prefixes, found 'x'"):
        Stratus(grouping="x")  # type: ignore[arg-type]


def test_stratus_clears_machines_without_gpus_too() -> None:
    """One of two tasks on an it3 has ended: 1 of 8 cores is used, which is less than half."""
    tiny = Demand.of((0, 1, 2))
    tasks = Problem(
        TABLE_3,
        (
            Task(0, 0, "x", tiny, 1, remaining_s=500.0),
            Task(1, 1, "y", Demand.of((0, 3, 12)), 2, remaining_s=600.0),
        ),
        (Machine(1, "it3"), Machine(2, "it4")),
    )
    plan = planned(Stratus(), tasks)
    assert shape(plan, tasks) == {("it4", ("x", "y"), 2)}
    pinned = Problem(TABLE_3, (replace(tasks.tasks[0], pinned=True), tasks.tasks[1]), tasks.machines)
    assert changes(planned(Stratus(), pinned), pinned).moves == ()


def test_stratus_does_not_clear_a_task_alone_on_its_cheapest_type() -> None:
    tiny = Demand.of((0, 1, 2))
    tasks = Problem(TABLE_3, (Task(0, 0, "x", tiny, 1, remaining_s=500.0),), (Machine(1, "it4"),))
    assert changes(planned(Stratus(), tasks), tasks).moves == ()


def test_stratus_groups_new_tasks_longest_first() -> None:
    tiny = Demand.of((0, 1, 2))
    tasks = Problem(
        TABLE_3,
        tuple(
            Task(n, n, "x", tiny, remaining_s=s) for n, s in enumerate((900.0, 100.0, 800.0, 700.0, 600.0))
        ),
    )
    plan = planned(Stratus(), tasks)
    assert [each.tasks for each in plan.bins] == [(0,), (2, 3), (4, 1)]
    prefixes = planned(Stratus(grouping="prefixes"), tasks)
    assert [set(each.tasks) for each in prefixes.bins] == [
        {0, 2, 3, 4},
        {1},
    ]  # one bin of run time, then the next


def test_stratus_scores_gpus_by_the_cheapest_type_that_has_some() -> None:
    tasks = lasting(problem(("t2",)), 100.0)
    assert shape(planned(Stratus(), tasks), tasks) == {("it2", ("t2",), None)}


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_opens_the_machine_on_which_the_work_costs_least(planner: Synergy) -> None:
    assert bins(planner, of_kinds("quick", cores=2.0)) == {("dear", (0,), None)}
    assert bins(planner, of_kinds("slow", cores=2.0)) == {("cheap", (0,), None)}


def test_synergy_weighs_the_work_that_a_machine_does() -> None:
    """Beside one that is worth its price: on the cheap one 1 + 1 or 1 + 3/4 for 1 USD, on the dear one 3 + 2 or 3 + 3
    for 3 USD.
    """
    there = (task(0, "other", 1), task(1, "quick", 2))
    synergy = Synergy(known=ThroughputTable(1.0))
    assert bins(synergy, running(*there, task(2, "slow"))) == {("cheap", (0, 2), 1), ("dear", (1,), 2)}
    assert bins(synergy, running(*there, task(2, "quick"))) == {("cheap", (0,), 1), ("dear", (1, 2), 2)}


def test_owl_pairs_tasks_where_the_work_of_both_costs_least() -> None:
    """For a dollar of the cheap and of the dear one: 3/2 and 6/3; 2 and 4/3; 7/4 and 5/3."""
    for kinds, type_ in (
        (("quick", "quick"), "dear"),
        (("slow", "slow"), "cheap"),
        (("quick", "slow"), "cheap"),
    ):
        assert bins(Owl(ThroughputTable(1.0)), of_kinds(*kinds)) == {(type_, (0, 1), None)}


def test_stratus_joins_tasks_that_end_together_on_that_machine() -> None:
    """On the dear one both end after 1,300 s; on the cheap one after 5,000 and 5,200 s."""
    there = (task(0, "other", 1, left_s=5000.0), task(1, "slow", 2, left_s=2600.0))
    assert bins(Stratus(), running(*there, task(2, "quick", left_s=5200.0))) == {
        ("cheap", (0,), 1),
        ("dear", (1, 2), 2),
    }
