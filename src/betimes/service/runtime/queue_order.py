"""The live jobs in the order in which they are now expected to end, arrays and pipelines folded.

The ends are those of the last forecast, which is in memory, and so is their order: a page of it is a walk from its
beginning, also at the head of a queue of 50,000 jobs.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import Forecast
from betimes.service.spec.job_spec import parse_after
from betimes.service.store.databases.schema import LIVE
from betimes.service.views.models import JobFilter

Place = tuple[float | None, int]
"""Of a row in the queue: its expected end, null: not known, which comes last; and the number of its first job."""


class Group(NamedTuple):
    """Jobs that are one row: an array, by its number; or a pipeline, by that of its newest job."""

    kind: str
    number: int


LATEST = 8  # jobs of a row by which its end is known


class Found(NamedTuple):
    """A row: its first job, where it stands; folded: which of its jobs were looked for by status.

    last: of those that are expected to end, the last ones, with their ends.
    """

    job: int
    place: Place
    group: Group | None
    counts: dict[str, int]
    last: tuple[tuple[int, float], ...]


class QueueOrder:
    """An order of the live jobs, as of its making; jobs that are over by now are left out when it is read."""

    def __init__(self, live: Iterable[Job], found: Forecast | None) -> None:
        """live: in a list of its own, so that this may be made in any thread."""
        jobs = list(live)
        known: Mapping[int, float] = (
            dict(zip(found.job, found.finish_at.tolist(), strict=True)) if found is not None else {}
        )
        ends_at = [known.get(job.job_id, job.promised_finish_at or math.nan) for job in jobs]
        finite_at = np.nan_to_num(np.array(ends_at, dtype=float), nan=math.inf)
        order = np.lexsort((np.array([job.job_id for job in jobs], dtype=np.int64), finite_at)).tolist()
        ordered, sorted_at = [jobs[n] for n in order], finite_at[order].tolist()
        self._places: list[tuple[int, float]] = [
            (job.job_id, at) for job, at in zip(ordered, sorted_at, strict=True)
        ]
        self._pipelines = _pipelines(jobs)
        self._members: dict[Group, list[tuple[int, float]]] = {}
        for job, place in zip(ordered, self._places, strict=True):
            if job.array_id is not None:
                self._members.setdefault(Group("array", job.array_id), []).append(place)
            if self._pipelines and (newest := self._pipelines.get(_unit(job))) is not None:
                self._members.setdefault(Group("pipeline", newest), []).append(place)

    def _group(self, job: Job, pipelines: bool) -> Group | None:
        """The row that a job is part of; pipelines: they are folded, not their arrays alone."""
        newest = self._pipelines.get(_unit(job)) if pipelines else None
        if newest is not None:
            return Group("pipeline", newest)
        return Group("array", job.array_id) if job.array_id is not None else None

    def _pipeline_of(self, jobs: Mapping[int, Job], number: int) -> int:
        """The number of the pipeline that a job is in; its own: there is none any more."""
        return self._pipelines.get(_unit(jobs[number]) if number in jobs else number, number)

    def jobs_of(self, jobs: Mapping[int, Job], kind: str, number: int) -> list[int]:
        """The live jobs of an array, or of the pipeline that a job is in."""
        number = self._pipeline_of(jobs, number) if kind == "pipeline" else number
        return [job for job, _ in self._members.get(Group(kind, number), ()) if job in jobs]

    def wanted(
        self, jobs: Mapping[int, Job], asked: JobFilter, pipeline: int | None
    ) -> Callable[[Job], bool]:
        """Whether a job is looked for; pipeline: the number of any job of it."""
        within = self._pipeline_of(jobs, pipeline) if pipeline is not None else None
        statuses = frozenset(map(str, asked.status or LIVE))
        equal: list[tuple[Callable[[Job], Any], Any]] = [
            (lambda job: job.user, asked.user),
            (lambda job: job.spec.title, asked.name),
            (lambda job: job.array_id, asked.array_id),
            (lambda job: self._pipelines.get(_unit(job)), within),
        ]
        checks = [(of, value) for of, value in equal if value is not None]
        checks += [
            (lambda job, name=name: job.spec.labels.get(name), value) for name, value in asked.label.items()
        ]
        if not checks:  # of a long queue this is asked very often
            return lambda job: job.status in statuses
        return lambda job: job.status in statuses and all(of(job) == value for of, value in checks)

    def standing(self, jobs: Mapping[int, Job], is_wanted: Callable[[Job], bool]) -> dict[str, int]:
        """The numbers of jobs that are looked for by status, in the order of `LIVE`."""
        counts = Counter(job.status for job in [*jobs.values()] if is_wanted(job))
        return {status: counts[Status(status)] for status in LIVE if counts[Status(status)]}

    def page(
        self,
        jobs: Mapping[int, Job],
        is_wanted: Callable[[Job], bool],
        unfolded: Literal["array", "pipeline"] | None,
        after: Place | None,
    ) -> Iterator[Found]:
        """Rows behind a place of the jobs that are looked for, of those in `jobs`: they are not over.

        unfolded: of an array every job is a row, of a pipeline every array.
        """
        begin = None if after is None else (math.inf if after[0] is None else after[0], after[1])
        seen = set[Group]()
        for number, end_at in self._places:
            job = jobs.get(number)
            if job is None or not is_wanted(job):
                continue
            group = None if unfolded == "array" else self._group(job, unfolded is None)
            if group in seen:
                continue
            if group is not None:
                seen.add(group)
            if begin is not None and (end_at, number) <= begin:
                continue
            counts, last = Counter[str](), deque[tuple[int, float]](maxlen=LATEST)
            for other, other_at in self._members.get(group, ()) if group is not None else ():
                if (member := jobs.get(other)) is not None and is_wanted(member):
                    counts[member.status.value] += 1
                    if other_at < math.inf:
                        last.append((other, other_at))
            place = (end_at if end_at < math.inf else None), number
            yield Found(number, place, group, dict(counts), tuple(last))


def _unit(job: Job) -> int:
    """The number of a job, or of its array."""
    return job.array_id if job.array_id is not None else job.job_id


def _pipelines(jobs: Iterable[Job]) -> dict[int, int]:
    """By job or array that waits for another, or is waited for: the newest of those that hang together."""
    newest: dict[int, int] = {}
    arrays = {job.job_id: job.array_id for job in jobs if job.array_id is not None}

    def root(unit: int) -> int:
        while (above := newest.setdefault(unit, unit)) != unit:
            newest[unit] = newest[above]
            unit = newest[unit]
        return unit

    for job in jobs:
        for text in job.spec.after:
            number, _ = parse_after(text)
            one, other = root(_unit(job)), root(arrays.get(number, number))
            newest[min(one, other)] = max(one, other)
    return {unit: root(unit) for unit in newest}
