"""Machines that run a workload at different speeds: what counts is what its work costs (Eva, section 4.2).

Hand-worked: a machine of either type holds two tasks, for 1 USD or for 3 USD an hour. A task of `quick` runs
four times as fast on the dear one: 3/4 USD for an hour of its work there, 1 USD on the other. A task of `slow` runs
twice as fast there: 3/2 USD, 1 USD on the other.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from betimes import Workload
from betimes.cluster import Cluster, Interference, NodeGroup, Offer
from betimes.errors import ClusterError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import summarise
from betimes.outcome.result import Result
from betimes.policies.packing.catalogue import Catalogue, Demand
from betimes.policies.packing.plan import Bin, Plan, Planner, check
from betimes.policies.packing.planners.boxes import NoPacking
from betimes.policies.packing.planners.consolidation import Consolidation
from betimes.policies.packing.planners.eva import Eva, Rules, savings_usd_per_h
from betimes.policies.packing.planners.reconfiguration import full_reconfiguration
from betimes.policies.packing.problem import Machine, Problem, Round, Task
from betimes.policies.packing.reservation_price import ReservationPrices
from betimes.policies.packing.rounds import within
from betimes.policies.packing.throughput import ThroughputTable
from betimes.policies.packing.valuation import Valuation

CHEAP = Offer(type="cheap", cpu=2, memory_gib=8, usd_per_h=1.0)
DEAR = Offer(type="dear", cpu=2, memory_gib=8, usd_per_h=3.0, speeds=(("quick", 4.0), ("slow", 2.0)))
CATALOGUE = Catalogue.of((CHEAP, DEAR))
PACKING = ("no-packing", "stratus", "synergy", "owl", "consolidation", "eva", "eva:rules=paper")


def problem(*kinds: str, cores: float = 1.0) -> Problem:
    return Problem(CATALOGUE, tuple(task(at, kind, cores=cores) for at, kind in enumerate(kinds)))


def task(
    number: int, kind: str, machine: int | None = None, *, cores: float = 1.0, left_s: float = 1000.0
) -> Task:
    return Task(number, number, kind, Demand.of((0.0, cores, 1.0)), machine, remaining_s=left_s)


def running(*tasks: Task) -> Problem:
    """Machine 1 is cheap, machine 2 dear."""
    return Problem(CATALOGUE, tasks, (Machine(1, "cheap"), Machine(2, "dear")))


def bins(planner: Planner, tasks: Problem) -> set[tuple[str, tuple[int, ...], int | None]]:
    plan = planner.plan(Round(0.0, tasks))
    check(plan, tasks)
    return {(each.type, tuple(sorted(each.tasks)), each.machine) for each in plan.bins}


def undisturbed(tasks: Problem) -> Valuation:
    return Valuation(tasks, ThroughputTable(1.0))


def test_the_reservation_price_is_that_of_an_hour_of_work() -> None:
    prices, tasks = ReservationPrices(CATALOGUE), problem("quick", "slow", "other").tasks
    found = [prices.of(task) for task in tasks]
    assert [(each.usd_per_h, CATALOGUE.types[each.type].name) for each in found] == [
        (0.75, "dear"),
        (1.0, "cheap"),
        (1.0, "cheap"),
    ]


def test_what_tasks_are_worth_depends_on_the_machine() -> None:
    worth = undisturbed(problem("quick", "slow"))
    assert worth.value([0], 0) == 0.75
    assert worth.value([0], 1) == 3.0
    assert worth.value([0, 1], 0) == 1.75
    assert worth.value([0, 1], 1) == 3.0 + 2.0


def test_tasks_that_slow_each_other_lose_work_at_the_speed_of_the_machine() -> None:
    worth = Valuation(problem("quick", "slow"), ThroughputTable(0.5))
    assert worth.value([0, 1], 1) == pytest.approx(1.5 + 1.0)


def test_two_for_whom_the_dear_machine_pays_together_share_one() -> None:
    tasks = problem("slow", "slow")  # together they do 4 hours of work an hour there, for 3 USD
    assert full_reconfiguration(undisturbed(tasks)) == (Bin("dear", (0, 1)),)
    alone = problem("slow")
    assert full_reconfiguration(undisturbed(alone)) == (Bin("cheap", (0,)),)


def test_a_set_goes_onto_a_cheaper_type_only_where_its_work_costs_no_more() -> None:
    for kind, type_ in (("quick", "dear"), ("slow", "cheap"), ("other", "cheap")):
        # For an hour of work of each: 3/4 or 1 USD; 3/2 or 1 USD; 3 or 1 USD.
        found = full_reconfiguration(undisturbed(problem(kind, kind)), down_sizing="new")
        assert found == (Bin(type_, (0, 1)),)


def test_a_plan_saves_what_its_work_would_cost_less_its_machines() -> None:
    tasks = problem("quick", "slow")
    plan = Eva(Rules(), default_pair=1.0).plan(Round(0.0, tasks))
    assert savings_usd_per_h(plan, undisturbed(tasks)) == pytest.approx(5.0 - 3.0)
    apart = Plan((Bin("dear", (0,)), Bin("cheap", (1,))))
    assert savings_usd_per_h(apart, undisturbed(tasks)) == pytest.approx(0.0)


@pytest.mark.parametrize("planner", [NoPacking(), Consolidation()])
def test_every_planner_opens_the_machine_on_which_the_work_costs_least(planner: Planner) -> None:
    assert bins(planner, problem("quick", cores=2.0)) == {("dear", (0,), None)}
    assert bins(planner, problem("slow", cores=2.0)) == {("cheap", (0,), None)}


def test_consolidation_replaces_a_machine_where_the_same_work_costs_less() -> None:
    """A quick task does 3/4 USD of work on the cheap one for 1 USD, 3 on the dear one for 3; a slow one 1 and 2."""
    assert bins(Consolidation(), running(task(0, "quick", 1, cores=2.0))) == {("dear", (0,), None)}
    assert bins(Consolidation(), running(task(0, "quick", 2, cores=2.0))) == {("dear", (0,), 2)}
    assert bins(Consolidation(), running(task(0, "slow", 2, cores=2.0))) == {("cheap", (0,), None)}
    assert bins(Consolidation(), running(task(0, "slow", 1, cores=2.0))) == {("cheap", (0,), 1)}


def test_consolidation_keeps_a_machine_whose_work_would_cost_more_elsewhere() -> None:
    """The cheap one has room for both. Without the dear one, for 3 USD, quick tasks do 3/2 USD of work in place of 6,
    slow ones 2 in place of 4.
    """
    stays = replace(task(0, "other", 1, cores=0.5), pinned=True)
    quick = running(stays, task(1, "quick", 2, cores=0.75), task(2, "quick", 2, cores=0.75))
    assert bins(Consolidation(), quick) == {("cheap", (0,), 1), ("dear", (1, 2), 2)}
    slow = running(stays, task(1, "slow", 2, cores=0.75), task(2, "slow", 2, cores=0.75))
    assert bins(Consolidation(), slow) == {("cheap", (0, 1, 2), 1)}


def test_the_next_choice_is_where_the_work_costs_least() -> None:
    middle = Offer(type="middle", cpu=2, memory_gib=8, usd_per_h=2.0)
    catalogue = Catalogue.of((CHEAP, middle, DEAR))
    for kind, type_ in (("quick", "dear"), ("slow", "dear"), ("other", "middle")):
        # 3/4, 3/2 or 3 USD an hour of work on the dear one, 2 on the other.
        waiting = Problem(catalogue, (task(0, kind),))
        plan = within(Plan((Bin("cheap", (0,)),)), waiting, {"cheap": 0, "middle": 1, "dear": 1})
        assert plan.bins == (Bin(type_, (0,)),)


def simulated(policy: str, *kinds: str, cpu: float = 2.0, cluster: Cluster | None = None) -> Result:
    jobs = Workload.from_columns(
        submit_s=[0.0] * len(kinds),
        work_s=8 * 3600.0,
        cpu=cpu,
        memory_gib=1.0,
        extra={"workload_variant": list(kinds)},
    )
    undisturbed = Interference(("quick", "slow", "other"), ((1.0,) * 3,) * 3)
    both = Cluster("two", (), offers=(CHEAP, DEAR), interference=undisturbed)
    return simulate_nodes(jobs, policy, cluster=cluster or both)


@pytest.mark.parametrize("policy", PACKING)
def test_each_job_runs_where_its_work_costs_least_and_as_fast_as_it_does_there(policy: str) -> None:
    found = simulated(policy, "quick", "slow[3]", "other")
    assert found.jobs.finish_s.tolist() == [2 * 3600.0, 8 * 3600.0, 8 * 3600.0]
    assert found.leases is not None
    assert sorted(found.leases.instance_type.tolist()) == ["cheap", "cheap", "dear"]
    # Each is given back at the round after its job has ended, 300 s later.
    assert summarise(found)["cost_usd"] == pytest.approx(2 * 3.0 + 8 + 8 + (3 + 1 + 1) / 12)


def test_two_share_the_dear_machine_and_both_run_at_its_speed() -> None:
    found = simulated("eva:t=1", "quick", "quick", cpu=1.0)
    assert found.jobs.finish_s.tolist() == [2 * 3600.0] * 2
    assert summarise(found)["cost_usd"] == pytest.approx(3 * (2 + 1 / 12))


def test_owned_machines_run_at_the_speed_of_the_trace() -> None:
    cluster = Cluster("mixed", (NodeGroup("own", 1, 0, 2, 8),), offers=(DEAR,))
    found = simulated("eva", "slow", "slow", cluster=cluster)
    assert found.jobs.finish_s.tolist() == [8 * 3600.0, 4 * 3600.0]


def test_speeds_are_for_policies_that_pack() -> None:
    cluster = Cluster("mixed", (NodeGroup("own", 1, 0, 2, 8),), offers=(DEAR,))
    with pytest.raises(ClusterError, match=r"offer dear, field speeds: .* choose a policy that packs"):
        simulated("njw", "slow", cluster=cluster)
