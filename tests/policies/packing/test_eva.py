"""Eva's planner, round by round, under each of its rules."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.cluster import read_cluster
from betimes.errors import ClusterError, InputError, PolicyError
from betimes.policies import parse_nodes_policy
from betimes.policies.packing.catalogue import Catalogue, Demand, InstanceType
from betimes.policies.packing.plan import Plan, changes, check
from betimes.policies.packing.planners.eva import RULES, Eva, Rules
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from tests.policies.packing.cases import TABLE_3, problem, problems, shape, table

ALL = ("t1", "t2", "t3", "t4")
RUNNING = problem(ALL, {"t1": 1, "t4": 1, "t2": 2, "t3": 3}, [(1, "it1"), (2, "it2"), (3, "it3")])


def slow_to_move(tasks: Problem, migration_s: float) -> Problem:
    return Problem(
        tasks.catalogue, tuple(replace(task, migration_s=migration_s) for task in tasks.tasks), tasks.machines
    )


def applied(plan: Plan, tasks: Problem) -> Problem:
    """The problem of the next round if the plan is carried out at once."""
    number = 1 + max((machine.id for machine in tasks.machines), default=0)
    machines, where = [], {}
    for each in plan.bins:
        machine, number = (number, number + 1) if each.machine is None else (each.machine, number)
        machines.append(Machine(machine, each.type))
        where.update(dict.fromkeys(each.tasks, machine))
    moved = tuple(replace(task, machine=where[task.id], pinned=False) for task in tasks.tasks)
    return Problem(tasks.catalogue, moved, tuple(sorted(machines, key=lambda each: each.id)))


@pytest.mark.parametrize("rules", list(RULES))
def test_full_is_chosen_when_it_pays(rules: str) -> None:
    """Full saves 3.4 - 0.4 USD an hour; the move of t2 costs its pause at 3 USD an hour."""
    eva = Eva(rules, known=table(1.0))
    eva.plan(Round(0.0, RUNNING))  # nothing has lasted yet, so nothing is known to pay
    assert eva.weighed is not None
    assert not eva.weighed.full
    waits = eva.plan(Round(3300.0, slow_to_move(RUNNING, 600.0)))
    assert waits.reason == (
        "full" if rules == "released" else "partial"
    )  # nothing has happened: no event, no Full
    eva = Eva(rules, known=table(1.0))
    eva.plan(Round(0.0, RUNNING))
    plan = eva.plan(Round(3600.0, slow_to_move(RUNNING, 600.0), finished={99: 3500.0}))
    assert eva.weighed is not None
    assert eva.weighed.full
    assert (eva.weighed.full_usd_per_h, eva.weighed.partial_usd_per_h) == (
        pytest.approx(3.4),
        pytest.approx(0.4),
    )
    assert (eva.weighed.full_usd, eva.weighed.partial_usd) == (pytest.approx(0.5), pytest.approx(0.0))
    assert plan.reason == "full"
    assert [move.task for move in changes(plan, RUNNING).moves] == [1]
    assert plan.keep_running is (rules == "improved")


@pytest.mark.parametrize("rules", list(RULES))
def test_a_copy_weighs_anew_and_plans_the_same(rules: str) -> None:
    eva = Eva(rules)
    eva.plan(Round(0.0, RUNNING, reports={1: 0.9, 4: 0.7}))
    copied = deepcopy(eva)
    then = Round(3600.0, slow_to_move(RUNNING, 600.0), finished={99: 3500.0}, reports={1: 0.8, 4: 0.7})
    assert copied.__dict__["_packing"] is None
    assert copied.plan(then) == eva.plan(then)
    assert copied.weighed == eva.weighed


@pytest.mark.parametrize("rules", list(RULES))
def test_partial_is_chosen_when_moving_costs_more(rules: str) -> None:
    eva = Eva(rules, known=table(1.0))
    eva.plan(Round(0.0, RUNNING))
    plan = eva.plan(Round(3600.0, slow_to_move(RUNNING, 3700.0), finished={99: 3500.0}))
    assert plan.reason == "partial"
    assert changes(plan, RUNNING).moves == ()


def test_one_of_both_always() -> None:
    for only, moves in (("full", 1), ("partial", 0)):
        plan = Eva(RULES["paper"].with_(only=only), known=table(1.0)).plan(Round(0.0, RUNNING))
        assert (plan.reason, len(changes(plan, RUNNING).moves)) == (only, moves)


def test_only_the_released_rules_lose_money_beside_a_running_task() -> None:
    tasks = problem(("t1", "n"), {"t1": 1}, [(1, "it1")])
    known = table(1.0, {("t1", "n"): 0.5, ("n", "t1"): 0.5})
    apart = {("it1", ("t1",), 1), ("it2", ("n",), None)}
    together = {("it1", ("n", "t1"), 1)}
    for rules, expected in (("paper", apart), ("released", together), ("improved", apart)):
        assert shape(Eva(rules, known=known).plan(Round(0.0, tasks)), tasks) == expected


def test_the_table_is_learnt_from_reports() -> None:
    tasks = problem(("t1", "n"), {"t1": 1, "n": 1}, [(1, "it1")])
    eva = Eva("improved")
    eva.plan(Round(0.0, tasks))
    plan = eva.plan(Round(300.0, tasks, reports={0: 0.5, 1: 0.5}))
    assert eva.table.of("t1", ["n"]) == pytest.approx(0.5, abs=5e-3)
    assert shape(plan, tasks) == {("it1", ("t1",), 1), ("it2", ("n",), None)}


def test_down_sizing_uses_a_machine_that_runs_by_the_improved_rules_only() -> None:
    """gpu.big holds what is worth it, but the cheaper gpu.small, of which one boots empty, holds it too."""
    catalogue = Catalogue(
        (
            InstanceType("big", "f", (4000, 16000, 65536), 4.0),
            InstanceType("small", "g", (4000, 8000, 65536), 3.0),
            InstanceType("one", "h", (1000, 4000, 16384), 2.0),
        )
    )
    tasks = Problem(
        catalogue,
        tuple(Task(n, n, "k", Demand.of((1, 2, 4))) for n in range(3)),
        (Machine(9, "small"),),
    )
    by_rules = {
        rules: Eva(RULES[rules].with_(only="full"), known=table(1.0)).plan(Round(0.0, tasks))
        for rules in RULES
    }
    assert shape(by_rules["paper"], tasks) == {("big", ("k", "k", "k"), None)}
    assert shape(by_rules["released"], tasks) == {("small", ("k", "k", "k"), None)}
    assert shape(by_rules["improved"], tasks) == {("small", ("k", "k", "k"), 9)}
    reused = Eva(RULES["released"].with_(only="full", down_sizing="reuse"), known=table(1.0))
    assert shape(reused.plan(Round(0.0, tasks)), tasks) == {("small", ("k", "k", "k"), 9)}


def test_jobs_of_several_tasks_are_priced_as_a_whole() -> None:
    tasks = slow_to_move(problem(("a", "b", "t1"), jobs={"a": 5, "b": 5}), 360.0)
    eva = Eva("paper", known=table(0.9))
    eva.plan(Round(0.0, tasks))
    assert eva.weighed is not None
    # Job 5 alone costs 6 USD an hour on two it2, t1 12; both pause for 360 s, and a new it1 is up at once.
    assert eva.weighed.partial_usd == pytest.approx((6 + 12) * 0.1)


@given(
    problems(),
    st.sampled_from(list(RULES.values())),
    st.fixed_dictionaries(
        {},
        optional={
            "fill_running": st.sampled_from(["never", "always", "cost-test"]),
            "down_sizing": st.sampled_from(["never", "new", "reuse"]),
            "table": st.sampled_from(["mean", "lower-bound", "fitted"]),
            "penalty": st.sampled_from(["none", "job", "own"]),
            "penalty_everywhere": st.booleans(),
            "honest_events": st.booleans(),
            "poisson": st.booleans(),
            "matching": st.booleans(),
            "keep_running": st.booleans(),
            "rounded": st.booleans(),
            "least_saving_usd_per_h": st.sampled_from([0.0, 1.0, 100.0]),
            "only": st.sampled_from(["both", "full", "partial"]),
        },
    ),
    st.lists(st.sampled_from([0.0, 0.4, 0.8, 0.9, 1.0]), min_size=30, max_size=30),
)
@settings(deadline=None)
def test_every_rule_plans_soundly_round_after_round(
    tasks: Problem, rules: Rules, switches: dict[str, Any], reports: list[float]
) -> None:
    eva = Eva(rules.with_(**switches))
    for number in range(4):
        shown = {task.id: reports[(task.id + number) % 30] for task in tasks.tasks}
        plan = eva.plan(Round(300.0 * number, tasks, reports=shown))
        check(plan, tasks)
        tasks = applied(plan, tasks)


@given(problems())
@settings(deadline=None)
def test_a_plan_that_is_carried_out_is_kept(drawn: Problem) -> None:
    """Without news, and with tasks that disturb each other as believed, nothing moves again."""
    loose = Problem(drawn.catalogue, tuple(replace(t, machine=None, pinned=False) for t in drawn.tasks))
    eva = Eva("improved")
    tasks = applied(eva.plan(Round(0.0, loose)), loose)
    again = eva.plan(Round(300.0, tasks))
    assert changes(again, tasks).moves == ()


def test_a_plan_that_saves_less_than_is_asked_for_moves_nothing() -> None:
    """Full saves 3 USD an hour more than what stands; a new task is placed all the same."""
    late = replace(RUNNING, tasks=(*RUNNING.tasks, replace(RUNNING.task[3], id=9, job=9, machine=None)))
    for least, reason, moves in ((2.9, "full", True), (3.1, "partial", False)):
        eva = Eva(Rules(least_saving_usd_per_h=least), known=table(1.0))
        eva.plan(Round(0.0, RUNNING))
        plan = eva.plan(Round(36000.0, late, finished={99: 35000.0}))
        assert plan.reason == reason
        assert any(move.from_machine is not None for move in changes(plan, late).moves) == moves
        check(plan, late)
    with pytest.raises(PolicyError, match="least_saving: expected USD an hour from 0, found -1"):
        Rules(least_saving_usd_per_h=-1.0)


def test_rules_that_are_not_there_are_refused() -> None:
    with pytest.raises(
        PolicyError, match="eva: there are no rules 'fast'; there are paper, released, improved"
    ):
        Eva("fast")
    with pytest.raises(PolicyError, match="eva has no switch speed; it has fill_running, down_sizing"):
        Rules().with_(speed=3)
    with pytest.raises(
        PolicyError, match="eva, switch down_sizing: expected never or new or reuse, found 'yes'"
    ):
        Rules().with_(down_sizing="yes")


SMALL = Demand.of((0, 1, 1))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: Problem(TABLE_3, (Task(0, 0, "k", SMALL), Task(0, 1, "k", SMALL))),
            "two tasks have the same id",
        ),
        (
            lambda: Problem(TABLE_3, (), (Machine(1, "it1"), Machine(1, "it1"))),
            "two machines have the same id",
        ),
        (
            lambda: Problem(TABLE_3, (Task(0, 0, "k", SMALL, 5),)),
            "task 0 stands on machine 5, which is not in the",
        ),
        (
            lambda: Problem(TABLE_3, (Task(0, 0, "k", SMALL, pinned=True),)),
            "task 0 is pinned, but stands on no",
        ),
        (
            lambda: Problem(TABLE_3, (), (Machine(1, "m5"),)),
            "no instance type m5 in the catalogue; it has it1, it2",
        ),
        (lambda: Demand.of((1, -1, 0)), "a demand: expected GPUs, cores, GiB, each a number from 0"),
        (lambda: Demand.of((1, 1)), "a demand: expected GPUs, cores, GiB"),
        (lambda: Demand.of((0, 0, 0)), "a demand of nothing"),
        (lambda: Demand.of({}), "a demand names no family"),
    ],
)
def test_impossible_problems_are_refused(made: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        made()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: InstanceType("x", "x", (0, 0, 0), 1.0), "type x: expected some GPU, cores or memory"),
        (lambda: InstanceType("x", "x", (0, 1, 0), 0.0), "type x, field usd_per_h: expected a price above 0"),
        (lambda: InstanceType("x", "x", (0, 1, 0), float("nan")), "type x, field usd_per_h"),
        (lambda: Catalogue(()), "at least one instance type"),
        (lambda: Catalogue((TABLE_3.types[0],) * 2), "instance type it1 stands twice in the catalogue"),
    ],
)
def test_impossible_catalogues_are_refused(made: Any, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        made()


def test_a_task_that_fits_no_type_is_named() -> None:
    tasks = Problem(TABLE_3, (Task(3, 7, "k", Demand.of({"any": (5, 1, 1), "other": (0, 1, 1)})),))
    with pytest.raises(
        ClusterError, match=r"task 3 of job 7 fits no instance type.*5 GPUs, 1 cores, 1 GiB on any"
    ):
        Eva().plan(Round(0.0, tasks))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("eva", RULES["improved"]),
        (
            "eva:rules=paper,keep_old=true,fill=cost-test",
            RULES["paper"].with_(keep_running=True, fill_running="cost-test"),
        ),
        (
            "eva:rules=released,honest_events=true,table=lower-bound",
            RULES["released"].with_(honest_events=True, table="lower-bound"),
        ),
        ("eva:matching=false,only=partial", RULES["improved"].with_(matching=False, only="partial")),
    ],
)
def test_switches_follow_the_policys_name(given: str, expected: Rules) -> None:
    chosen = parse_nodes_policy(given)
    assert chosen.policy.planner is not None
    rounds: Any = chosen.policy.planner(chosen.values, read_cluster("ec2-2023-vcpu"))
    assert rounds.planner.rules == expected
    assert rounds.every_round == (not expected.honest_events)


def test_a_switch_refuses_what_it_does_not_have() -> None:
    with pytest.raises(PolicyError, match="fill: 'sometimes' is none of never, always, cost-test"):
        parse_nodes_policy("eva:fill=sometimes")
