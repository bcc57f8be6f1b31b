"""A job of the service as a row of `Arrival`, by which the core and its simulations know jobs that are submitted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from betimes.cluster.labels import Shapes, mask, suiting
from betimes.cluster.tasks import JobTasks, job_tasks
from betimes.service.engines.messages import JobRequest
from betimes.twin.nodes.event_loop import Arrival


@dataclass(frozen=True)
class JobRows:
    """What rows depend on besides the jobs.

    shapes: by which jobs are split into tasks. bits: of labels. largest: (3,) the most that any machine has of each.
    """

    shapes: Shapes
    bits: Mapping[tuple[str, str], int]
    largest: Sequence[int]

    def split(self, wanted: JobRequest) -> JobTasks:
        """The tasks of a job on these shapes."""
        return job_tasks(
            wanted.unit, wanted.max_units, wanted.units_per_task, suiting(self.shapes, wanted.require)
        )

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
