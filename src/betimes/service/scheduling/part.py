"""A part of the scheduler: what all of them are asked about a job, and in a turn."""

from __future__ import annotations

import math
from typing import Any

from betimes.service.scheduling.job import Job
from betimes.service.spec.job_spec import JobSpec


class Part:
    """A capability: jobs that it refuses or keeps from queueing, and its steps in a turn.

    `Scheduler` has all of them, in the order in which they are asked and take their steps. name: of its steps, where
    one raises an error and is left out from then on (`SchedulerState.take_step`).
    """

    name = ""

    def refuses(self, spec: JobSpec, user: str) -> None:
        """Raise Refused or Unknown for a new or changed job of this user that it cannot let in."""

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """The reason for which a job, which may not be submitted yet (number 0), cannot queue; null: it can."""

    def next_at(self) -> float:
        """The instant at which it wants a turn if nothing happens before; infinity: never."""
        return math.inf

    def before_decision(self) -> None:
        """Let happen what is due, before the policy decides."""

    def after_decision(self) -> None:
        """Carry on from what the policy has decided, which is logged."""
