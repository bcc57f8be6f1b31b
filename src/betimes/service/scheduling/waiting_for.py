"""Conditions under which a job queues: other jobs, an instant, room in its array, resources that are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from betimes.errors import Refused, Unknown
from betimes.service.scheduling.arrays import limit_reached
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.reasons import named, reason
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.job_spec import JobSpec, parse_after, parse_array
from betimes.units import instant


class Dependencies(Part):
    """Other jobs: those that it is to come after, and under `singleton` earlier ones of its user and name."""

    name = "dependencies"

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def refuses(self, spec: JobSpec, user: str) -> None:
        """A job that is to come after one that is not there, or element by element after one that is no such array."""
        for after in spec.after:
            number, on = parse_after(after)
            if on == "corr":
                self._check_alike(number, spec)
            if number not in self._state.ledger.jobs and self._state.ended_as(number) is None:
                raise Unknown(
                    f"there is no job {number}; a job waits for one that was submitted before it", "after"
                )

    def _check_alike(self, number: int, spec: JobSpec) -> None:
        """Raise Refused unless the array of this number has the same indices as this one, as far as is known."""
        jobs = self._state.ledger.jobs
        indices = parse_array(spec.array)[0] if spec.array is not None and not spec.as_one else []

        def may_be(element: int, index: int) -> bool:
            job = jobs.get(element)
            if job is None:  # of one that is over no more is known here
                return self._state.ended_as(element) is not None
            return (job.array_id, job.array_index) == (number, index)

        if not indices or not all(may_be(number + at, index) for at, index in enumerate(indices)):
            raise Refused(
                f"{number}:corr: element by element, an array waits for another one with the same indices; give such "
                f"an array, or {number}:ok",
                "after",
            )

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """The first dependency that is not met, or that never will be."""
        for number, on in map(parse_after, job.spec.after):
            is_met = self._state.is_met(number, on)
            if is_met is None:
                return _waits_for(number, on)
            if not is_met:
                return in_vain(number, self._state.ended_as(number) or "")
        if job.spec.singleton:
            first = self._state.job_index.first_named(job.user, job.spec.title)
            if first is not None and first != job.job_id:
                text = f"waits for job {first}, which is called {job.spec.title} too, to end"
                return reason("dependency", text, job=first)
        return None


def first_unmet(state: SchedulerState, spec: JobSpec) -> dict[str, Any] | None:
    """The reason of a new job: the first of its dependencies that is not met, and may be; null: there is none."""
    unmet = (each for each in map(parse_after, spec.after) if state.is_met(*each) is None)
    return next((_waits_for(number, on) for number, on in unmet), None)


def _waits_for(number: int, on: str) -> dict[str, Any]:
    what = on if on in ("start", "fail") else "end"
    return reason("dependency", f"waits for job {number} to {what}", job=number)


def in_vain(number: int, ended: str) -> dict[str, Any]:
    """The reason of a job with a dependency that will never be met, as it ended in another way."""
    has = {Status.CANCELLED: "was cancelled", Status.FINISHED: "has not failed"}.get(
        Status(ended), "has failed"
    )
    return reason("dependency-failed", f"depends on job {number}, which {has}", job=number, status=ended)


class Delays(Part):
    """An instant: a retry's, or one that its user gave."""

    name = "delays"

    def __init__(self, state: SchedulerState, jobs: Jobs) -> None:
        self._state, self._jobs = state, jobs

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """An instant to come."""
        begin_at = max(job.not_before_at, job.spec.begin_at or 0.0)
        if begin_at > now_at:
            return reason("begin", f"is to begin at {instant(begin_at)} or later", at=begin_at)
        return None

    def next_at(self) -> float:
        """The next such instant."""
        return self._state.job_index.delays.next_at()

    def before_decision(self) -> None:
        """Let jobs queue whose instant has come."""
        for number in self._state.job_index.delays.take(self._state.now_at):
            self._jobs.admit(self._state.ledger.jobs[number])


class ArrayLimits(Part):
    """Room among the running elements of its array."""

    name = "array limits"

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """As many running elements as there may be: it is then the next to follow one of them."""
        if self._state.job_index.has_room(job):
            return None
        return limit_reached(job.array_id or 0, job.array_most)


class Resources(Part):
    """What the service counts: resources, whatever they are (`--resource`), and what groups of users have together."""

    name = "resources"

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine

    def refuses(self, spec: JobSpec, user: str) -> None:
        """A job that asks for more than there is."""
        group = self._engine.settings.groups.of(user)
        if group is not None and group.max_units is not None and spec.max_units > group.max_units:
            raise Refused(
                f"the jobs of group {group.name} may have {group.max_units} units together", "max_units"
            )
        there = self._engine.settings.resources
        for name, amount in spec.resources.items():
            if amount > there.get(name, 0):
                known = ", ".join(f"{each}={number}" for each, number in sorted(there.items())) or "none"
                here = (
                    f"there are {there[name]} of {name} here" if name in there else f"there is no {name} here"
                )
                raise Refused(
                    f"{here}; the service counts {known} (`betimes up --resource {name}={amount}` would do)",
                    "resources",
                )

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """Too little that is left: it then stands in line for it, which a job that is not submitted cannot."""
        there, index = self._engine.settings.counted, self._state.job_index
        if not index.claims(job) or job.job_id not in self._state.ledger.jobs:
            return None
        name = index.lacking(job, there)
        return None if name is None else lacks(name, there.get(name, 0), index.has_of(name))


def lacks(name: str, there: int, had: Mapping[int, int]) -> dict[str, Any]:
    """The reason of a job for which too little is left of a resource; had: how much, by the jobs that have some."""
    taken = (
        f"{sum(had.values())} of {there} taken by {named(sorted(had))}"
        if had
        else f"jobs before it need it ({there} in all)"
    )
    return reason("resource", f"waits for {name}: {taken}", resource=name, there=there, jobs=sorted(had))
