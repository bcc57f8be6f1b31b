"""Types that are not to be had: what a plan does without them. Types of Table 3 of Eva."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Cluster, Offer
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.policies.packing.plan import Bin, Plan, check
from betimes.policies.packing.rounds import available, within
from betimes.workload import Workload
from tests.policies.packing.cases import TABLE_3, problem

ALL = {"it1": 9, "it2": 9, "it3": 9, "it4": 9}


def test_types_that_cannot_be_had_are_left_out_unless_some_are_there() -> None:
    assert available(TABLE_3, ALL, ()) is TABLE_3
    few = available(TABLE_3, {**ALL, "it1": 0, "it3": 0}, ["it3"])
    assert few is not None
    assert [each.name for each in few.types] == ["it2", "it3", "it4"]
    assert available(TABLE_3, dict.fromkeys(ALL, 0), ()) is None


def test_the_next_choice_is_the_cheapest_that_holds_the_tasks() -> None:
    found = problem(["t3", "t3"])  # six cores each: it4 holds none
    plan = Plan((Bin("it3", (0,)), Bin("it3", (1,))))
    assert within(plan, found, ALL) is plan
    assert within(plan, found, {**ALL, "it3": 1}).bins == (Bin("it3", (0,)), Bin("it1", (1,)))


def test_a_machine_that_would_be_given_back_comes_before_a_new_one() -> None:
    found = problem(["t4"], on={"t4": 7}, machines=[(7, "it1")])
    plan = Plan((Bin("it4", (0,)),))
    assert within(plan, found, {**ALL, "it4": 0}).bins == (Bin("it1", (0,), 7),)


def test_where_there_is_nothing_jobs_wait() -> None:
    found = problem(["t3", "t4"])
    plan = Plan((Bin("it3", (0,)), Bin("it4", (1,))))
    assert within(plan, found, {"it1": 0, "it2": 0, "it3": 0, "it4": 1}).bins == (Bin("it4", (1,)),)


def test_where_some_would_have_to_move_nothing_moves() -> None:
    """Two machines are to become one of a type that is not there; what waits gets a machine of its own."""
    found = problem(["a", "b", "t4"], on={"a": 1, "b": 2}, machines=[(1, "it2"), (2, "it2")])
    plan = Plan((Bin("it1", (0, 1, 2)),))
    left = {"it1": 0, "it2": 0, "it3": 1, "it4": 0}
    assert within(plan, found, left).bins == (Bin("it2", (0,), 1), Bin("it2", (1,), 2), Bin("it3", (2,)))


@given(st.data())
def test_no_more_is_rented_than_is_left(data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.sampled_from(["t1", "t2", "t3", "t4"]), min_size=1, max_size=6, unique=True)
    )
    on = {name: at for at, name in enumerate(names) if data.draw(st.booleans())}
    found = problem(names, on=on, machines=[(at, "it1") for at in on.values()])
    left = {name: data.draw(st.integers(0, 2)) for name in ALL}
    plan = Plan(tuple(Bin("it1", (at,)) for at in range(len(names))))
    came = within(plan, found, left)
    new = [each.type for each in came.bins if each.machine is None]
    assert all(new.count(name) <= left[name] for name in ALL)
    placed = {task for each in came.bins for task in each.tasks}
    rest = replace(found, tasks=tuple(task for task in found.tasks if task.id in placed))
    check(came, rest)
    assert placed >= set(on.values()), "a task that runs keeps a machine"


def test_jobs_spill_over_to_the_next_type_and_stay_there() -> None:
    """One cheap machine is to be had: the other jobs run on dearer ones, and do not move back and forth."""
    cheap = Offer(type="cheap", cpu=2, memory_gib=8, usd_per_h=0.1, capacity=1, boot_s=60.0)
    dear = replace(cheap, type="dear", usd_per_h=0.15, capacity=10)
    jobs = Workload.from_columns(submit_s=[0.0] * 3, work_s=[9000.0, 20_000.0, 20_000.0], cpu=[2.0] * 3)
    for policy in ("eva", "no-packing", "synergy", "stratus", "consolidation"):
        result = simulate_nodes(jobs, policy, cluster=Cluster("few", (), offers=(cheap, dear)))
        assert result.leases is not None
        assert sorted(result.leases.instance_type[:3].tolist()) == ["cheap", "dear", "dear"], policy
        assert result.jobs.start_s.max() <= 360.0, policy
        assert len(result.leases) <= 5, policy
