"""Snapshots as rounds: what is reported of a machine is what its own tasks show next to each other."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import pytest

from betimes.cluster import Cluster, Offer, read_cluster
from betimes.core.planning import (
    Bind,
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    MachineSnapshot,
    Migrate,
    Place,
    Rent,
    Snapshot,
    new,
)
from betimes.policies.packing.plan import Bin, Plan, Planner
from betimes.policies.packing.planners.boxes import NoPacking
from betimes.policies.packing.planners.consolidation import Consolidation
from betimes.policies.packing.planners.eva import Eva, Rules
from betimes.policies.packing.problem import Round
from betimes.policies.packing.rounds import Rounds

PERIOD_S = 300.0


class Seen:
    """Takes down the round, and leaves every task where it is."""

    def plan(self, round_: Round) -> Plan:
        self.round = round_
        problem = round_.problem
        residents = problem.residents
        return Plan(tuple(Bin(m.type, residents[m.id], m.id) for m in problem.machines if residents[m.id]))


def job(
    number: int, *on: int, phase: JobPhase = JobPhase.RUNS, bound: int | None = None, speed: float = 0.8
) -> JobSnapshot:
    places = tuple(Place(each) for each in on)
    going = () if bound is None else (Place(bound),)
    demand = (1000, 4000, 24 * 1024)
    return JobSnapshot(
        number,
        number,
        number,
        0.0,
        phase,
        len(on),
        demand,
        "resnet18[0]",
        places,
        going,
        9e3,
        speed,
        True,
        11.0,
        80.0,
        2.0,
    )


def asked(planner: Planner, *jobs: JobSnapshot) -> Sequence[Decision]:
    """What a planner decides about jobs on three machines that are up."""
    cluster = read_cluster("ec2-2023-vcpu")
    offer = [each.type for each in cluster.offers].index("p3.8xlarge")
    amounts = (4000, 32000, 244 * 1024)
    machines = tuple(
        MachineSnapshot(number, 0, offer, MachinePhase.UP, True, amounts, amounts, 0.0, 0.0, math.inf)
        for number in (0, 1, 2)
    )
    snapshot = Snapshot(PERIOD_S, jobs, machines, (9,) * len(cluster.offers), ())
    return Rounds(planner, cluster, PERIOD_S).plan(snapshot)


def reported(*jobs: JobSnapshot) -> dict[int, float]:
    """The reports of the round, by job."""
    planner = Seen()
    asked(planner, *jobs)
    problem = planner.round.problem
    return {problem.task[task].job: speed for task, speed in planner.round.reports.items()}


def test_tasks_that_work_report_their_speed() -> None:
    assert reported(job(0, 0), job(1, 0, speed=0.7)) == {0: 0.8, 1: 0.7}
    assert reported(job(0, 0), job(1, 0, speed=0.0)) == {0: 0.8}


@pytest.mark.parametrize(
    "moving",
    [job(1, 1, bound=0), job(1, 1, phase=JobPhase.LEAVES, bound=0, speed=0.0)],
    ids=["stays until the new machine is up", "leaves"],
)
def test_a_task_on_its_way_reports_nothing_nor_do_those_that_it_still_disturbs(moving: JobSnapshot) -> None:
    """Its plan has it on machine 0 already; it works on machine 1, next to job 3."""
    stays = job(0, 0)
    assert reported(stays, moving, job(3, 1)) == {0: 0.8}


class Moves:
    """Moves the tasks of the first job: each to the machine with this number, or to a new one (None)."""

    def __init__(self, *to: int | None) -> None:
        self.to = to

    def plan(self, round_: Round) -> Plan:
        problem = round_.problem
        where: dict[int | None, list[int]] = {}
        for number, task in enumerate(problem.tasks):
            target = self.to[number] if number < len(self.to) else task.machine
            where.setdefault(target, []).append(task.id)
        bins = tuple(Bin("p3.8xlarge", tuple(tasks), machine) for machine, tasks in where.items())
        return Plan(bins, keep_running=True)


@pytest.mark.parametrize(("to", "keeps"), [((None, None), True), ((0, None), False), ((2, None), False)])
def test_a_job_waits_where_it_is_only_for_machines_that_boot(to: tuple[int | None, ...], keeps: bool) -> None:
    """Two jobs that wait for each other's room would wait for ever, and so would one for what it holds itself."""
    decisions = asked(Moves(*to), job(0, 0, 1), job(1, 2))
    assert [each.keep for each in decisions if isinstance(each, Migrate)] == [keeps]


C2 = Offer(type="c2", cpu=2, memory_gib=8, usd_per_h=0.1, capacity=1)
C4 = Offer(type="c4", cpu=4, memory_gib=16, usd_per_h=0.18)
PLANNERS: dict[str, Callable[[], Planner]] = {
    "eva": Eva,
    "paper": lambda: Eva("paper", default_pair=1.0),
    "exact": lambda: Eva(Rules(planner="exact"), default_pair=1.0),
    "no-packing": NoPacking,
    "consolidation": Consolidation,
}


@pytest.mark.parametrize("name", PLANNERS)
def test_the_next_choice_is_planned_where_there_are_no_more_of_the_first(name: str) -> None:
    """The only c2 there is has a job already; the other job gets a c4, beside it or alone."""
    cluster = Cluster("few", (), offers=(C2, C4))
    small = (0, 2000, 4096)
    on = job(0, 0)._replace(demand=small, kind="k")
    waits = job(1, phase=JobPhase.WAITS, speed=0.0)._replace(demand=small, kind="k", tasks=1, launched=False)
    machine = MachineSnapshot(
        0, 0, 0, MachinePhase.UP, True, (0, 2000, 8192), (0, 0, 4096), 0.0, 0.0, math.inf
    )
    for rentable, types in (((0, 9), {"c4"}), ((9, 9), {"c2", "c4"})):
        snapshot = Snapshot(PERIOD_S, (on, waits), (machine,), rentable, ())
        decisions = Rounds(PLANNERS[name](), cluster, PERIOD_S).plan(snapshot)
        rented = {cluster.offers[each.offer].type for each in decisions if isinstance(each, Rent)}
        assert rented, "the job that waits needs a machine"
        assert rented <= types


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "exact"])
def test_a_task_waits_for_the_only_type_that_holds_it_and_others_are_planned(name: str) -> None:
    cluster = Cluster("few", (), offers=(C2, C4))
    large, small = (
        job(number, phase=JobPhase.WAITS, speed=0.0)._replace(
            demand=(0, cores, 4096), kind="k", tasks=1, launched=False
        )
        for number, cores in ((0, 3000), (1, 2000))
    )
    decisions = Rounds(PLANNERS[name](), cluster, PERIOD_S).plan(
        Snapshot(0.0, (large, small), (), (9, 0), ())
    )
    assert decisions == [Rent(0), Bind(1, (Place(new(0)),))]


def test_a_job_is_profiled_alone_until_its_throughput_is_known_or_the_time_is_over() -> None:
    """The planner does not see it, nor its machine; then it does."""
    cluster = Cluster("two", (), offers=(C2, C4))
    small, machine_0 = (0, 2000, 4096), (0, 4000, 16384)
    new_job = job(0, phase=JobPhase.WAITS, speed=0.0)._replace(demand=small, tasks=1, profiled_s=math.inf)
    planner = Seen()
    rounds = Rounds(planner, cluster, PERIOD_S, profile_s=600.0)
    assert rounds.every_round, "that the time is over is no event"
    decisions = rounds.plan(Snapshot(0.0, (new_job,), (), (9, 9), ()))
    assert decisions == [Rent(0), Bind(0, (Place(new(0)),))]
    assert rounds.profiled_until_s == {0: math.inf}
    runs = job(0, 0)._replace(demand=small, profiled_s=math.inf)
    machine = MachineSnapshot(0, 0, 1, MachinePhase.UP, True, machine_0, (0, 2000, 12288), 0.0, 0.0, math.inf)
    timed_out = copy.deepcopy(rounds)
    for now_s, profiled_s, came_s in ((300.0, math.inf, None), (600.0, 650.0, None), (900.0, 650.0, 650.0)):
        one = runs._replace(profiled_s=profiled_s)
        assert rounds.plan(Snapshot(now_s, (one,), (machine,), (9, 9), ())) == []
        assert came(rounds) == came_s, "its arrival, for the planner"
        assert rounds.profiled_until_s == ({0: 900.0} if came_s is None else {})
    for now_s, came_s in ((300.0, None), (1000.0, 900.0), (1300.0, 900.0)):
        assert timed_out.plan(Snapshot(now_s, (runs,), (machine,), (9, 9), ())) == []
        assert came(timed_out) == came_s


def came(rounds: Rounds) -> float | None:
    """When the only job came, as the planner sees it; None: it does not, nor the job's machine."""
    seen = rounds.planner
    assert isinstance(seen, Seen)
    problem = seen.round.problem
    assert len(problem.tasks) == len(problem.machines)
    return problem.tasks[0].arrival_s if problem.tasks else None
