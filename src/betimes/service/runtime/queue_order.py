"""The live jobs in an order, by default that in which they are now expected to end, arrays and pipelines folded.

The ends are those of the last forecast, which is in memory, and so is their order: a page of it is a walk from its
beginning, also at the head of a queue of 50,000 jobs. The other orders are made when they are first asked for.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import Forecast
from betimes.service.spec.job_spec import parse_after
from betimes.service.store.databases.schema import LIVE
from betimes.service.views.models import JobFilter

Key = float | str
Place = tuple[Key | None, int]
"""Of a row in the queue: by what it is sorted, null: not known, which comes last; and the number of its first job."""

_STATUSES = {Status(status): place for place, status in enumerate(LIVE)}
SORTS: Mapping[str, Callable[[Job], Key]] = {
    "name": lambda job: job.spec.title.casefold(),
    "user": lambda job: job.user,
    "state": lambda job: float(_STATUSES[job.status]),
    "units": lambda job: float(units_of(job)),
    "submitted": lambda job: job.submitted_at,
}
"""What the queue can be sorted by, besides the expected end (`end`)."""

FOLDS = ("pipeline", "array", "name", "user", "none")
"""What is one row: a pipeline, and an array that is in none; an array; the jobs of a name, or of a user; a job."""


class Group(NamedTuple):
    """Jobs that are one row: an array, by its number; a pipeline, by its newest job; or the jobs of a name or user."""

    kind: str
    name: int | str


class Total(NamedTuple):
    """Jobs, and the units, cores and GPUs that they hold, or ask for at least."""

    jobs: int
    units: int
    cpu: float
    gpu: float


LATEST = 8  # jobs of a row by which its end is known


class Found(NamedTuple):
    """A row: its first job, where it stands; folded: which of its jobs were looked for by status.

    last: of those that are expected to end, the last ones, with their ends. units: of all of them, as in `Total`.
    """

    job: int
    place: Place
    group: Group | None
    counts: dict[str, int]
    last: tuple[tuple[int, float], ...]
    units: int


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
        self._jobs = ordered
        self._pipelines = _pipelines(jobs)
        self._members: dict[str, dict[Group, list[tuple[int, float]]]] = {}
        self._sorted: dict[tuple[str, bool], list[tuple[Key | None, int]]] = {}

    def _group(self, job: Job, fold: str) -> Group | None:
        """The row that a job is part of."""
        match fold:
            case "name":
                return Group("name", job.spec.title)
            case "user":
                return Group("user", job.user)
            case "none":
                return None
            case _:
                newest = self._pipelines.get(_unit(job)) if fold == "pipeline" else None
                if newest is not None:
                    return Group("pipeline", newest)
                return Group("array", job.array_id) if job.array_id is not None else None

    def _members_of(self, fold: str) -> dict[Group, list[tuple[int, float]]]:
        """The jobs of each row with their ends, in the order of these."""
        if fold not in self._members:
            found: dict[Group, list[tuple[int, float]]] = {}
            for job, place in zip(self._jobs, self._places, strict=True):
                if (group := self._group(job, fold)) is not None:
                    found.setdefault(group, []).append(place)
            self._members[fold] = found
        return self._members[fold]

    def _in_order(self, sort: str, descends: bool) -> list[tuple[Key | None, int]]:
        """The jobs by a key, those without one last."""
        if (sort, descends) not in self._sorted:
            if sort == "end":
                keys = [(at if at < math.inf else None, number) for number, at in self._places]
            else:
                keys = [(SORTS[sort](job), job.job_id) for job in self._jobs]
            known = sorted((one for one in keys if one[0] is not None), reverse=descends)
            self._sorted[sort, descends] = [*known, *sorted(one for one in keys if one[0] is None)]
        return self._sorted[sort, descends]

    def _by_units(
        self, jobs: Mapping[int, Job], is_wanted: Callable[[Job], bool], fold: str, descends: bool
    ) -> list[tuple[Key | None, int]]:
        """The rows by the units of their jobs that are looked for together, each by the number of its first job."""
        units, first = Counter[Group | int](), dict[Group | int, int]()
        for known in self._jobs:
            if (job := jobs.get(known.job_id)) is not None and is_wanted(job):
                row = self._group(job, fold) or job.job_id
                units[row] += units_of(job)
                first[row] = min(job.job_id, first.get(row, job.job_id))
        return sorted(((float(units[row]), number) for row, number in first.items()), reverse=descends)

    def _pipeline_of(self, jobs: Mapping[int, Job], number: int) -> int:
        """The number of the pipeline that a job is in; its own: there is none any more."""
        return self._pipelines.get(_unit(jobs[number]) if number in jobs else number, number)

    def jobs_of(self, jobs: Mapping[int, Job], kind: str, number: int) -> list[int]:
        """The live jobs of an array, or of the pipeline that a job is in."""
        number = self._pipeline_of(jobs, number) if kind == "pipeline" else number
        return [job for job, _ in self._members_of(kind).get(Group(kind, number), ()) if job in jobs]

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
        if (text := (asked.search or "").casefold()) != "":
            checks.append((lambda job: _has(job, text), True))
        if not checks:  # of a long queue this is asked very often
            return lambda job: job.status in statuses
        return lambda job: job.status in statuses and all(of(job) == value for of, value in checks)

    def standing(self, jobs: Mapping[int, Job], is_wanted: Callable[[Job], bool]) -> dict[str, Total]:
        """The jobs that are looked for in total by status, in the order of `LIVE`."""
        sums: dict[Status, list[float]] = {}
        for job in [*jobs.values()]:
            if is_wanted(job):
                units, sum_of = units_of(job), sums.setdefault(job.status, [0, 0, 0.0, 0.0])
                sum_of[0] += 1
                sum_of[1] += units
                sum_of[2] += units * job.spec.cpu
                sum_of[3] += units * job.spec.gpu
        return {
            status.value: Total(int(found[0]), int(found[1]), found[2], found[3])
            for status in _STATUSES
            if (found := sums.get(status)) is not None
        }

    def page(
        self,
        jobs: Mapping[int, Job],
        is_wanted: Callable[[Job], bool],
        fold: str = "pipeline",
        after: Place | None = None,
        sort: str = "end",
        descends: bool = False,
    ) -> Iterator[Found]:
        """Rows behind a place of the jobs that are looked for, of those in `jobs`: they are not over.

        fold: one of `FOLDS`. sort: `end`, or one of `SORTS`.
        """
        seen = set[Group]()
        ordered = (
            self._by_units(jobs, is_wanted, fold, descends)
            if sort == "units" and fold != "none"
            else self._in_order(sort, descends)
        )
        for key, number in ordered:
            job = jobs.get(number)
            if job is None or not is_wanted(job):
                continue
            group = self._group(job, fold)
            if group in seen:
                continue
            if group is not None:
                seen.add(group)
            if after is not None and not _is_behind((key, number), after, descends):
                continue
            counts, units, last = Counter[str](), 0, deque[tuple[int, float]](maxlen=LATEST)
            for other, other_at in self._members_of(fold).get(group, ()) if group is not None else ():
                if (member := jobs.get(other)) is not None and is_wanted(member):
                    counts[member.status.value] += 1
                    units += units_of(member)
                    if other_at < math.inf:
                        last.append((other, other_at))
            yield Found(number, (key, number), group, dict(counts), tuple(last), units)


def units_of(job: Job) -> int:
    """The units that a job holds; of one that holds none, what it asks for at least."""
    return job.run.units if job.run is not None else job.spec.min_units


def _is_behind(place: Place, after: Place, descends: bool) -> bool:
    """Whether a place comes after another; those without a key are last, in the order of their numbers."""
    (key, number), (last, last_number) = place, after
    if key is None or last is None:
        return key is None and (last is not None or number > last_number)
    one, other = (key, number), (last, last_number)
    return one < other if descends else one > other


def _has(job: Job, text: str) -> bool:
    """Whether a job's name, user or number contains a text."""
    return text in job.spec.title.casefold() or text in job.user.casefold() or text == str(job.job_id)


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
