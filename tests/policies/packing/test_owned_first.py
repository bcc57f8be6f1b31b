"""A cluster with machines of its own: under every policy that packs they are filled before any is rented."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.planning import (
    Bind,
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    MachineSnapshot,
    Migrate,
    Place,
    Release,
    Rent,
    Snapshot,
)
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome.result import Result
from betimes.policies.packing.planners.eva import Eva
from betimes.policies.packing.rounds import Rounds, owned_first

POLICIES = ("no-packing", "eva", "eva:rules=paper", "stratus", "synergy", "consolidation")
OFFERS = (
    Offer(type="small", cpu=2, memory_gib=8, usd_per_h=0.1),
    Offer(type="large", cpu=4, memory_gib=16, usd_per_h=0.2),
)


def simulated(policy: str, *cores: float, own: int = 1, work_s: float = 3600.0) -> Result:
    """Jobs of so many cores, submitted at once, on machines with 4 cores of which we own so many."""
    jobs = Workload.from_columns(submit_s=[0.0] * len(cores), work_s=work_s, cpu=cores, memory_gib=1.0)
    cluster = Cluster("mixed", (NodeGroup("own", own, 0, 4, 16),), offers=OFFERS)
    return simulate_nodes(jobs, policy, cluster=cluster)


def rented(result: Result) -> Counter[str]:
    """How many machines of each type."""
    return Counter() if result.leases is None else Counter(result.leases.instance_type.tolist())


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_rented_for_what_owned_machines_hold(policy: str) -> None:
    found = simulated(policy, 2.0, 1.0, 1.0)
    assert not rented(found)
    assert found.jobs.finish_s.tolist() == [3600.0] * 3


@pytest.mark.parametrize("policy", POLICIES)
def test_the_job_that_would_be_dearest_to_rent_for_goes_first(policy: str) -> None:
    found = simulated(policy, 2.0, 4.0, 2.0)
    assert rented(found) == {"small": 2} or rented(found) == {"large": 1}
    assert found.jobs.start_s.tolist() == [0.0] * 3


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_only_an_owned_machine_holds_waits_for_it(policy: str) -> None:
    jobs = Workload.from_columns(
        submit_s=[0.0, 10.0, 20.0], work_s=3600.0, cpu=[8.0, 8.0, 2.0], memory_gib=1.0
    )
    cluster = Cluster("mixed", (NodeGroup("own", 1, 0, 8, 16),), offers=OFFERS)
    found = simulate_nodes(jobs, policy, cluster=cluster)
    assert rented(found) == {"small": 1}
    # No round sees what ends at its own instant; an improved one need not.
    second_s = 3900.0 if policy == "eva:rules=paper" else 3600.0
    assert found.jobs.start_s.tolist() == [0.0, second_s, 300.0]


# --- the rule by itself ---------------------------------------------------------------------------------------------


def job(number: int, tasks: int = 1, *on: int, cores: int = 2, bound: tuple[int, ...] = ()) -> JobSnapshot:
    phase = JobPhase.RUNS if on else JobPhase.BOUND if bound else JobPhase.WAITS
    return JobSnapshot(
        number,
        number,
        number,
        0.0,
        phase,
        tasks,
        (0, 1000 * cores, 1024),
        "some",
        tuple(Place(each) for each in on),
        tuple(Place(each) for each in bound),
        3600.0,
        1.0,
        True,
        0.0,
        0.0,
        0.0,
    )


def machine(
    number: int, free: int, *, offer: int = -1, cores: int = 4, is_open: bool = True
) -> MachineSnapshot:
    has, left = (0, 1000 * cores, 16384), (0, 1000 * free, 16384)
    return MachineSnapshot(number, 0, offer, MachinePhase.UP, is_open, has, left, 0.0, 0.0, math.inf)


def settled(
    machines: tuple[MachineSnapshot, ...], *jobs: JobSnapshot, usd_per_h: float = 1.0
) -> tuple[list[Decision], list[int]]:
    """The decisions, and the jobs that are left for the planner."""
    decisions, rest = owned_first(
        Snapshot(0.0, jobs, machines, (9,), ()), lambda _: usd_per_h, lambda *_: True
    )
    assert rest.machines == machines
    return decisions, [each.job for each in rest.jobs]


def test_a_job_goes_as_a_whole_onto_the_fullest_machine_or_onto_several() -> None:
    machines = (machine(0, 4), machine(1, 2), machine(2, 4, offer=0))
    assert settled(machines, job(7)) == ([Bind(7, (Place(1),))], [])
    assert settled(machines, job(7, 3)) == ([Bind(7, (Place(0, 2), Place(1, 1)))], [])
    assert settled(machines, job(7, 4)) == ([], [7])


def test_one_that_is_on_owned_machines_stays_there_and_its_room_is_not_given_twice() -> None:
    on, coming = job(1, 1, 0), job(2, 1, bound=(1,))
    assert settled((machine(0, 2), machine(1, 2)), on, coming, job(3), job(4)) == (
        [Bind(3, (Place(0),))],
        [4],
    )


def test_a_machine_that_takes_no_jobs_is_left_alone() -> None:
    assert settled((machine(0, 4, is_open=False),), job(1)) == ([], [1])
    # One that fits nowhere else waits until it takes jobs again; one that fits nowhere at all is the planner's.
    assert settled((machine(0, 4, is_open=False),), job(1), job(2, cores=5), usd_per_h=math.inf) == ([], [2])


def test_a_planner_moves_no_job_away_from_an_owned_machine() -> None:
    cluster = Cluster("mixed", (NodeGroup("own", 1, 0, 4, 16),), offers=OFFERS)
    rounds = Rounds(Eva(), cluster, 300.0)
    snapshot = Snapshot(
        0.0, (job(1, 1, 0), job(2, 1, 1)), (machine(0, 2), machine(1, 0, offer=0, cores=2)), (9, 9), ()
    )
    decided = rounds.plan(snapshot)
    assert not any(isinstance(each, Migrate | Rent | Release | Bind) for each in decided)
