"""The trials of sets by what they do, so that not all of them have to be looked at."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.jobs.job_states import Status, Transition, next_status
from betimes.service.scheduling.trials.trial_set import TrialSet

ABLE = (Status.QUEUED, Status.RUNNING, Status.STOPPING)


def _numbers() -> set[int]:
    return set()


@dataclass
class TrialsOfSet:
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
        """The first trial that could take a unit; it is named once, until it has taken it and lost it again."""
        while self._next:
            number = heapq.heappop(self._next)
            if number in self._idle:
                self._idle.discard(number)
                return number
        return None


class TrialIndex:
    """Every set with trials that are not over, and what is to be looked at in the present turn."""

    def __init__(self) -> None:
        self.of: defaultdict[int, TrialsOfSet] = defaultdict(TrialsOfSet)  # by the set's number
        self.to_review: set[int] = set()  # sets of which a trial is over, or may run again
        self.to_share: dict[
            int, tuple[int, ...]
        ] = {}  # sets whose units may change hands; the jobs that take some

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        if job.set_id is not None:
            self.of[job.set_id].note(job)
        elif job.trials is not None and job.status.is_over:
            self.of.pop(job.job_id, None)


class Whole(NamedTuple):
    """A set, and where its trials stand."""

    job: Job
    trials: TrialSet


def set_of(jobs: Mapping[int, Job], job: Job) -> Whole | None:
    """The set that a trial belongs to; null: the job is none."""
    whole = jobs.get(job.set_id) if job.set_id is not None else None
    return Whole(whole, whole.trials) if whole is not None and whole.trials is not None else None


def rest(jobs: Mapping[int, Job], job: Job) -> None:
    """A set of which no trial runs any more, and some are left, waits."""
    whole = set_of(jobs, job)
    if whole is None or whole.trials.running or not whole.trials.left:
        return
    if whole.job.status is Status.RUNNING:
        whole.job.status = next_status(whole.job.status, Transition.WAIT)
