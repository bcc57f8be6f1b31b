"""A job of the service as a row of `Arrival`, the form of submitted jobs in the core and its simulations."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from betimes.cluster.interference import workload_of
from betimes.cluster.labels import mask, suits
from betimes.cluster.resources import NOWHERE, unit_charge
from betimes.cluster.shapes import Shape, Shapes, suiting
from betimes.cluster.tasks import JobTasks, job_tasks, norm_of
from betimes.core.nodes.demands import DemandRows, Needed
from betimes.service.engines.messages import Asked, JobRequest
from betimes.twin.nodes.event_loop import Arrival


def needed_on(tasks: JobTasks, families: Collection[str]) -> Needed:
    """Demands of a job's tasks on these families, and their speeds."""
    speeds = {name: speed for (name, _), speed in zip(tasks.by_family, tasks.speeds, strict=False)}
    return tuple(
        (tasks.demand_on(family) or (NOWHERE, NOWHERE, NOWHERE), speeds.get(family, 1.0))
        for family in families
    )


@dataclass(frozen=True)
class JobRows:
    """Makes rows of jobs.

    shapes: by which jobs are split into tasks. bits: of labels. families: their numbers; demands: of tasks on each of
    them. largest: (3,) the most that any machine has of each. workloads: their rows of `State.hardware`. users: their
    rows, where they share. machines: present ones, and those that can be rented at once, with the number of each
    (infinity: any number).
    """

    shapes: Shapes
    bits: Mapping[tuple[str, str], int]
    families: Mapping[str, int]
    demands: DemandRows
    largest: Sequence[int]
    workloads: Mapping[str, int]
    users: Mapping[str, int] = field(default_factory=dict[str, int])
    machines: Sequence[tuple[Shape, float]] = ()

    def split(self, asked: Asked) -> JobTasks:
        """The tasks of a job on these shapes."""
        return job_tasks(asked.unit, asked.units, asked.units_per_task, suiting(self.shapes, asked.require))

    def is_held(self, asked: Asked, tasks: JobTasks) -> bool:
        """Whether empty `machines` hold the tasks of a job, and its demand has a row."""
        if not 0 < tasks.units_each <= tasks.together:
            return False
        if any(label not in self.bits for label in asked.require):
            return False
        if not self.demands.knows(needed_on(tasks, self.families), tasks.demand):
            return False
        room = 0.0
        for machine, count in self.machines:
            demand = tasks.demand_on(machine.family)
            if demand is not None and suits(machine.labels, asked.require):
                pairs = zip(machine.amounts, demand, strict=True)
                most = min((amount // need for amount, need in pairs if need > 0), default=tasks.count)
                room += count * most if most > 0 else 0.0
        return room >= tasks.count

    def fill(self, arrival: Arrival, request: JobRequest, tasks: JobTasks, submit_s: float) -> None:
        """Write a job submitted at this time into a row; it never ends by itself."""
        row: Any = arrival  # by item: setting an attribute of a record takes several times as long
        row["submit_s"] = submit_s
        row["run_s"] = math.inf
        row["units"] = tasks.units
        self.fill_tasks(arrival, tasks)
        row["labels"] = mask(request.require, self.bits)
        row["workload"] = self.workloads.get(workload_of(request.workload), -1)
        row["trial"], row["priority"], row["grace_s"] = int(request.trial), request.priority, request.grace_s
        row["runtime_estimate_s"] = request.runtime_estimate_s
        row["believed_per_work"] = 1.0
        row["user"] = self.users.get(request.user, -1)
        row["charge"], row["unit_memory"] = unit_charge(request.unit.most), float(request.unit.most[2])
        row["longest_s"], row["limit_s"] = math.inf, request.limit_s
        row["choice"], row["speculated"] = request.choice, int(not request.may_restart)

    def fill_tasks(self, arrival: Arrival, tasks: JobTasks) -> None:
        """Write the fields that depend on a job's tasks, whose demand has a row."""
        row: Any = arrival
        row["tasks"] = tasks.count
        row["gpu"], row["cpu"], row["memory"] = tasks.demand
        row["demands"] = self.demands.first_of(needed_on(tasks, self.families), tasks.demand) or 0
        row["share"] = self.share(tasks)

    def share(self, tasks: JobTasks) -> float:
        """`Need.share` of a job: the smallest of all families."""
        needed = {amounts for amounts, _ in needed_on(tasks, self.families)}
        return float(min(norm_of(tasks.count, amounts, self.largest) for amounts in needed))
