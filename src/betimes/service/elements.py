"""The trials of sets by what they do, so that nobody has to look at all of them."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field

from betimes.service.job import Job
from betimes.service.views import Status

ABLE = (Status.QUEUED, Status.RUNNING, Status.STOPPING)


def _numbers() -> set[int]:
    return set()


@dataclass
class Elements:
    """Of one set, by the jobs' numbers."""

    live: set[int] = field(default_factory=_numbers)  # not over
    able: set[int] = field(default_factory=_numbers)  # of these, all that do not wait for a retry
    holding: set[int] = field(default_factory=_numbers)  # have a unit of the set
    begun: set[int] = field(default_factory=_numbers)  # have run, and are not over
    _idle: set[int] = field(default_factory=_numbers)  # could take a unit
    _next: list[int] = field(
        default_factory=list[int]
    )  # a heap of those, and of some that could not any more

    def note(self, job: Job) -> None:
        """A trial is new, or has changed."""
        number, is_live = job.job_id, not job.status.is_over
        able = job.status in ABLE
        idle = able and job.units == 0 and not (job.run is not None and job.run.stopping == "cancelled")
        for numbers, belongs in (
            (self.live, is_live),
            (self.able, able),
            (self.holding, is_live and job.units > 0),
            (self.begun, is_live and (job.run is not None or job.ran_s > 0.0)),
        ):
            (numbers.add if belongs else numbers.discard)(number)
        if idle and number not in self._idle:
            self._idle.add(number)
            heapq.heappush(self._next, number)
        elif not idle:
            self._idle.discard(number)

    def next(self) -> int | None:
        """The first trial that could take a unit; it is told once, until it has taken it and lost it again."""
        while self._next:
            number = heapq.heappop(self._next)
            if number in self._idle:
                self._idle.discard(number)
                return number
        return None


class Sets:
    """Every set with trials that are not over."""

    def __init__(self) -> None:
        self.of: defaultdict[int, Elements] = defaultdict(Elements)  # by the set's number

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        if job.set_id is not None:
            self.of[job.set_id].note(job)
        elif job.trials is not None and job.status.is_over:
            self.of.pop(job.job_id, None)
