"""The input of a planner: tasks, machines and instance types at one moment, and events since the round before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from betimes.errors import InputError
from betimes.policies.packing.catalogue import Catalogue, Demand


@dataclass(frozen=True)
class Task:
    """A task of a job. Tasks of one `kind` interfere alike; interference is learnt by kind.

    `machine` is the task's place in the last plan. A pinned task stays there: its job is starting, or partly finished.
    `remaining_s` is its remaining run time at speed 1, for planners that know it (Stratus). `migration_s` is the time
    of a move as known so far: fetch, build and upload as observed, and the job's start-up. `lasts_s` is the most
    that a run of its job takes.
    """

    id: int
    job: int
    kind: str
    demand: Demand
    machine: int | None = None
    pinned: bool = False
    arrival_s: float = 0.0
    remaining_s: float = math.nan
    migration_s: float = 0.0
    lasts_s: float = 0.0


@dataclass(frozen=True)
class Machine:
    """A rented machine; one that is not `running` is booting. It takes new tasks that last `open_s` at most."""

    id: int
    type: str
    running: bool = True
    open_s: float = math.inf


@dataclass(frozen=True)
class Problem:
    """Tasks in the order of their arrival, machines in the order of their renting, types to rent.

    Raises InputError for an id that stands twice, a machine that is not there, a pinned task without one; ClusterError
    for a type that is not in the catalogue, and for a task that fits no type.
    """

    catalogue: Catalogue
    tasks: tuple[Task, ...]
    machines: tuple[Machine, ...] = ()

    def __post_init__(self) -> None:
        if len(self.task) != len(self.tasks):
            raise InputError("two tasks have the same id: each task of a round needs its own")
        if len(self.machine) != len(self.machines):
            raise InputError("two machines have the same id: each machine of a round needs its own")
        for machine in self.machines:
            self.catalogue.named(machine.type)
        for task in self.tasks:
            if task.machine is not None and task.machine not in self.machine:
                raise InputError(
                    f"task {task.id} stands on machine {task.machine}, which is not in the round"
                )
            if task.pinned and task.machine is None:
                raise InputError(f"task {task.id} is pinned, but stands on no machine")

    @cached_property
    def task(self) -> dict[int, Task]:
        """Tasks by their id."""
        return {task.id: task for task in self.tasks}

    @cached_property
    def machine(self) -> dict[int, Machine]:
        """Machines by their id."""
        return {machine.id: machine for machine in self.machines}

    @cached_property
    def residents(self) -> dict[int, tuple[int, ...]]:
        """The tasks on each machine, in the order of their arrival, by the machine's id."""
        lists: dict[int, list[int]] = {machine.id: [] for machine in self.machines}
        for task in self.tasks:
            if task.machine is not None:
                lists[task.machine].append(task.id)
        return {machine: tuple(tasks) for machine, tasks in lists.items()}

    @cached_property
    def pinned(self) -> frozenset[int]:
        """The machines on which a task is pinned."""
        return frozenset(task.machine for task in self.tasks if task.pinned and task.machine is not None)

    @cached_property
    def jobs(self) -> dict[int, tuple[int, ...]]:
        """The tasks of each job, in the order of their arrival, by the job's id."""
        lists: dict[int, list[int]] = {}
        for task in self.tasks:
            lists.setdefault(task.job, []).append(task.id)
        return {job: tuple(tasks) for job, tasks in lists.items()}


@dataclass(frozen=True)
class Round:
    """A round of planning at `now_s`.

    `finished` has the end of each job that ended since the round before. `reports` has the normalised throughput that
    tasks reported since then, by task: 1 is that of the task alone; tasks without a report are left out.
    """

    now_s: float
    problem: Problem
    finished: Mapping[int, float] = field(default_factory=dict[int, float])
    reports: Mapping[int, float] = field(default_factory=dict[int, float])
