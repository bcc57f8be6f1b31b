"""Snapshots as rounds: what is reported of a machine is what its own tasks show next to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from betimes.cluster import read_cluster
from betimes.core.planning import (
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    MachineSnapshot,
    Migrate,
    Place,
    Snapshot,
)
from betimes.policies.packing.plan import Bin, Plan, Planner
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
