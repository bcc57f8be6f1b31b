"""A job of the service as a row of `Arrival`, by which the core and its simulations know jobs that are submitted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from betimes.cluster.labels import Labels, Shapes, mask, suiting, suits
from betimes.cluster.resources import Amounts
from betimes.cluster.tasks import JobTasks, job_tasks
from betimes.service.engines.messages import JobRequest
from betimes.twin.nodes.event_loop import Arrival


@dataclass(frozen=True)
class JobRows:
    """What rows depend on besides the jobs.

    shapes: by which jobs are split into tasks. bits: of labels. largest: (3,) the most that any machine has of each.
    machines: what there is, and can be rented at once: capacity, labels, and how many such (infinity: any number).
    """

    shapes: Shapes
    bits: Mapping[tuple[str, str], int]
    largest: Sequence[int]
    machines: Sequence[tuple[Amounts, Labels, float]] = ()

    def split(self, wanted: JobRequest) -> JobTasks:
        """The tasks of a job on these shapes."""
        return job_tasks(
            wanted.unit, wanted.max_units, wanted.units_per_task, suiting(self.shapes, wanted.require)
        )

    def is_held(self, wanted: JobRequest, tasks: JobTasks) -> bool:
        """Whether `machines` hold the tasks of a job when nothing else is there."""
        if not 0 < tasks.units_each <= tasks.together:
            return False
        if any(label not in self.bits for label in wanted.require):
            return False
        room = 0.0
        for capacity, labels, count in self.machines:
            if suits(labels, wanted.require):
                pairs = zip(capacity, tasks.demand, strict=True)
                most = min((amount // need for amount, need in pairs if need > 0), default=tasks.count)
                room += count * most if most > 0 else 0.0
        return room >= tasks.count

    def fill(self, arrival: Arrival, wanted: JobRequest, tasks: JobTasks, submit_s: float) -> None:
        """Write a job that is submitted at this time into a row; it never ends by itself."""
        arrival.submit_s = submit_s
        arrival.run_s = math.inf
        arrival.units, arrival.tasks = tasks.units, tasks.count
        arrival.gpu, arrival.cpu, arrival.memory = tasks.demand
        arrival.labels = mask(wanted.require, self.bits)
        squares = 0.0
        for amount, largest in zip(tasks.demand, self.largest, strict=True):
            if largest > 0:
                part = tasks.count * amount / largest
                squares += part * part
        arrival.share = math.sqrt(squares)
        arrival.trial, arrival.priority, arrival.grace_s = int(wanted.trial), wanted.priority, wanted.grace_s
        arrival.believed_s = wanted.believed_s
        arrival.believed_per_work = 1.0
        arrival.user = -1
        arrival.longest_s = math.inf
        arrival.choice, arrival.speculated = wanted.choice, int(not wanted.may_restart)
