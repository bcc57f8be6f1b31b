"""No-Packing and consolidation (spec 2.7)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.errors import ClusterError
from betimes.policies.packing.catalogue import Demand
from betimes.policies.packing.plan import Plan, changes, check
from betimes.policies.packing.planners.boxes import NoPacking
from betimes.policies.packing.planners.consolidation import Consolidation
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from tests.policies.packing.cases import TABLE_3, ec2, problem, problems, published_tasks, shape

ALL = ("t1", "t2", "t3", "t4")
PLANNERS = (NoPacking(), Consolidation())


def planned(planner: NoPacking | Consolidation, tasks: Problem) -> Plan:
    plan = planner.plan(Round(0.0, tasks))
    check(plan, tasks)
    return plan


@given(problems(), st.sampled_from(PLANNERS))
@settings(deadline=None)
def test_every_plan_is_sound(tasks: Problem, planner: NoPacking) -> None:
    planned(planner, tasks)


@pytest.mark.parametrize("planner", PLANNERS)
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
