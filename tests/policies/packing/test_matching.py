"""Planned bins become machines that run: as few moves as any assignment and exchange of equal tasks allows."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given, settings

from betimes.policies.packing.catalogue import Demand
from betimes.policies.packing.matching import match
from betimes.policies.packing.plan import Plan, changes, check
from betimes.policies.packing.planners.reconfiguration import full_reconfiguration
from betimes.policies.packing.problem import Machine, Problem, Task
from betimes.policies.packing.throughput import ThroughputTable
from betimes.policies.packing.valuation import Valuation
from tests.policies.packing.cases import T2, TABLE_3, problems


def fewest(plan: Plan, tasks: Problem, value: Valuation) -> int:
    """The most tasks that can stay, by trying every assignment of machines to bins of their type."""
    wanted = [Counter(value.group_of[t] for t in each.tasks) for each in plan.bins]
    machines: list[Machine | None] = [*tasks.machines, *([None] * len(plan.bins))]
    best = 0
    for chosen in itertools.permutations(machines, len(plan.bins)):
        stay = 0
        for each, counts, machine in zip(plan.bins, wanted, chosen, strict=True):
            if machine is None or machine.type != each.type:
                continue
            here = Counter(value.group_of[t] for t in tasks.residents[machine.id])
            stay += (counts & here).total()
        best = max(best, stay)
    return best


@given(problems())
@settings(deadline=None, max_examples=25)
def test_no_assignment_moves_fewer(drawn: Problem) -> None:
    six = tuple(Task(t.id, t.job, t.kind, t.demand, t.machine) for t in drawn.tasks)[:6]
    tasks = Problem(drawn.catalogue, six, drawn.machines)
    value = Valuation(tasks, ThroughputTable(0.95))
    plan = Plan(full_reconfiguration(value, refill=False))
    matched = Plan(match(plan.bins, tasks.machines, value))
    check(matched, tasks)
    assert matched.usd_per_h(TABLE_3) == plan.usd_per_h(TABLE_3)
    stays = sum(t.machine is not None for t in tasks.tasks) - sum(
        move.from_machine is not None for move in changes(matched, tasks).moves
    )
    if len(plan.bins) <= 4:
        assert stays == fewest(plan, tasks, value)


def test_as_many_machines_as_possible_are_used_again() -> None:
    demand = Demand.of(T2)
    tasks = Problem(
        TABLE_3,
        (Task(0, 0, "k", demand, 1), Task(1, 1, "k", demand), Task(2, 2, "k", demand)),
        (Machine(1, "it2"), Machine(2, "it2", running=False), Machine(3, "it3")),
    )
    value = Valuation(tasks, ThroughputTable(0.5))
    plan = Plan(match(full_reconfiguration(value, refill=False), tasks.machines, value))
    check(plan, tasks)
    changed = changes(plan, tasks)
    assert (len(changed.rented), changed.released) == (1, (3,))
    assert [move.task for move in changed.moves] == [1, 2]


def test_equal_tasks_are_exchanged_so_that_they_stay() -> None:
    """Algorithm 1 takes the first of equal tasks, wherever it stands; the plan must not shuffle them."""
    demand = Demand.of(T2)
    tasks = Problem(
        TABLE_3,
        tuple(Task(n, n, "k", demand, 1 + (n + 1) % 2) for n in range(8)),
        (Machine(1, "it1"), Machine(2, "it1")),
    )
    value = Valuation(tasks, ThroughputTable(1.0))
    plan = Plan(match(full_reconfiguration(value, refill=False), tasks.machines, value))
    assert changes(plan, tasks).moves == ()
