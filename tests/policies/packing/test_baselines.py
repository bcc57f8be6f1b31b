"""No-Packing, Synergy, Owl, Stratus and consolidation (spec 2.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.errors import ClusterError, PolicyError
from betimes.policies.packing.catalogue import Demand
from betimes.policies.packing.plan import Plan, changes, check
from betimes.policies.packing.planners.baselines import NoPacking, Owl, Stratus, Synergy
from betimes.policies.packing.planners.consolidation import Consolidation
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from tests.policies.packing.cases import TABLE_3, ec2, problem, problems, published_tasks, shape, table

ALL = ("t1", "t2", "t3", "t4")


def lasting(tasks: Problem, *remaining_s: float) -> Problem:
    lasts = zip(tasks.tasks, remaining_s, strict=True)
    return Problem(tasks.catalogue, tuple(replace(t, remaining_s=s) for t, s in lasts), tasks.machines)


def planned(planner: NoPacking | Synergy | Owl | Stratus | Consolidation, tasks: Problem) -> Plan:
    plan = planner.plan(Round(0.0, tasks))
    check(plan, tasks)
    return plan


PLANNERS = [
    NoPacking(),
    Synergy(),
    Owl(table(0.95, {("k0", "k1"): 0.5, ("k2", "k2"): 1.0})),
    Owl(table(0.95), refill=True),
    Stratus(),
    Stratus(grouping="prefixes"),
    Consolidation(),
]


@given(problems(), st.sampled_from(PLANNERS), st.lists(st.floats(1, 1e6), min_size=30, max_size=30))
@settings(deadline=None)
def test_every_plan_is_sound(tasks: Problem, planner: NoPacking, lasts: list[float]) -> None:
    planned(planner, lasting(tasks, *lasts[: len(tasks.tasks)]))


@pytest.mark.parametrize("planner", [NoPacking(), Synergy(), Owl(table(0.95)), Stratus(), Consolidation()])
def test_a_task_that_fits_no_type_is_refused(planner: NoPacking) -> None:
    tasks = Problem(TABLE_3, (Task(0, 0, "k", Demand.of((9, 1, 1)), remaining_s=60.0),))
    with pytest.raises(ClusterError, match="fits no instance type"):
        planner.plan(Round(0.0, tasks))


def test_no_packing() -> None:
    tasks = problem(ALL, {"t2": 1, "t4": 1}, [(1, "it1"), (2, "it2")])
    plan = planned(NoPacking(), tasks)
    assert shape(plan, tasks) == {("it1", ("t2", "t4"), 1), ("it1", ("t1",), None), ("it3", ("t3",), None)}
    assert changes(plan, tasks).released == (2,)
    assert planned(NoPacking(), problem(ALL)).usd_per_h(TABLE_3) == pytest.approx(16.2)
    assert planned(NoPacking(), published_tasks(200, 0)).usd_per_h(ec2()) == pytest.approx(
        1013.8824, abs=1e-6
    )


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


def test_consolidation_packs_first_fit_and_takes_the_cheapest_type() -> None:
    tasks = problem(ALL)
    plan = planned(Consolidation(), tasks)
    assert shape(plan, tasks) == {("it1", ("t1", "t2", "t4"), None), ("it3", ("t3",), None)}
    assert plan.keep_running


def test_consolidation_gives_back_what_the_others_can_hold() -> None:
    tasks = problem(ALL, {"t1": 1, "t4": 1, "t2": 2, "t3": 3}, [(1, "it1"), (2, "it2"), (3, "it3")])
    plan = planned(Consolidation(), tasks)
    assert [move.task for move in changes(plan, tasks).moves] == [1]
    assert changes(plan, tasks).released == (2,)


def test_consolidation_replaces_a_machine_by_a_cheaper_one() -> None:
    tasks = problem(("t2",), {"t2": 1}, [(1, "it1")])
    plan = planned(Consolidation(), tasks)
    assert shape(plan, tasks) == {("it2", ("t2",), None)}
    pinned = problem(("t2",), {"t2": 1}, [(1, "it1")], pinned=("t2",))
    assert changes(planned(Consolidation(), pinned), pinned).moves == ()


def test_consolidation_replaces_several_by_one() -> None:
    """Two it3 at 0.8 with a small task each: no other has room, but one it4 at 0.4 holds both."""
    tiny = Demand.of((0, 2, 4))
    tasks = Problem(
        TABLE_3, (Task(0, 0, "x", tiny, 1), Task(1, 1, "y", tiny, 2)), (Machine(1, "it3"), Machine(2, "it3"))
    )
    plan = planned(Consolidation(), tasks)
    assert shape(plan, tasks) == {("it4", ("x", "y"), None)}


def test_consolidation_changes_nothing_that_is_as_cheap_as_it_can_make_it() -> None:
    tasks = problem(ALL, {"t1": 1, "t2": 1, "t4": 1, "t3": 3}, [(1, "it1"), (3, "it3")])
    assert changes(planned(Consolidation(), tasks), tasks).moves == ()
