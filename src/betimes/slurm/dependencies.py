"""Jobs that wait for others of the queue: for which, and the instants at which they may start."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from betimes.slurm.jobs import After, SlurmJob, parts_of


@dataclass(frozen=True)
class Dependencies:
    """The jobs of a queue that wait for others of it, each behind those for which it waits.

    refused: by id, why others that wait are promised nothing.
    """

    after: Mapping[str, tuple[After, ...]] = field(default_factory=dict[str, tuple[After, ...]])
    refused: Mapping[str, str] = field(default_factory=dict[str, str])

    def may_start_s(self, job_id: str, starts: Mapping[str, float], ends: Mapping[str, float]) -> float:
        """The instant from which a job may start if the others start and end so; NaN: it never may."""
        found = [(starts if each.is_start else ends)[each.job] + each.delay_s for each in self.after[job_id]]
        return math.nan if any(map(math.isnan, found)) else max(found)

    def place(self, starts: dict[str, float], ends: dict[str, float]) -> None:
        """Put off the jobs that start before they may, and their ends."""
        for job_id in self.after:
            late_s = self.may_start_s(job_id, starts, ends) - starts[job_id]
            if not late_s <= 0.0:
                starts[job_id] += late_s
                ends[job_id] += late_s

    @property
    def in_words(self) -> dict[str, str]:
        """What each waits for."""
        return {job_id: _in_words(after) for job_id, after in self.after.items()}


def dependencies_of(jobs: Mapping[str, SlurmJob], queue: Collection[str]) -> Dependencies:
    """Of the jobs of a picture. queue: those of them that run or wait and are promised an end, the others aside."""
    elements = dict[int, list[str]]()
    for job_id in jobs:
        number, index = parts_of(job_id.partition("+")[0])
        if index is not None:
            elements.setdefault(number, []).append(job_id)
    waiting = sorted((job for job_id in queue if (job := jobs[job_id]).waits and job.after), key=_by_age)
    left = {job.id: _one_by_one(job.after or (), elements) for job in waiting}
    found, refused, known = dict[str, tuple[After, ...]](), dict[str, str](), frozenset(queue)

    def why_not(job_id: str) -> str | None:
        """Why it is not known when a job that is not over starts and ends; null: it is."""
        if job_id not in jobs:
            return f"it waits for job {job_id}, which Slurm does not show"
        is_promised = job_id in known and job_id not in refused
        return None if is_promised else f"it waits for job {job_id}, which is promised nothing"

    before = len(left) + 1
    while len(left) < before:  # once, and again where a job is older than one for which it waits
        before = len(left)
        for job_id, after in list(left.items()):
            if any(each.job in left for each in after):
                continue
            del left[job_id]
            unmet = [each for each in after if not (each.job in jobs and jobs[each.job].is_over)]
            if (why := next(filter(None, (why_not(each.job) for each in unmet)), None)) is not None:
                refused[job_id] = why
            elif unmet:
                found[job_id] = tuple(unmet)
    return Dependencies(found, refused | dict.fromkeys(left, "it waits for jobs that wait for it"))


def _by_age(job: SlurmJob) -> tuple[float, int, int]:
    number, index = parts_of(job.id)
    return job.submit_at, number, index or 0


def _one_by_one(after: Iterable[After], elements: Mapping[int, list[str]]) -> list[After]:
    """The same with the elements of an array in place of all of it."""
    found = list[After]()
    for each in after:
        number, index = parts_of(each.job.removesuffix("_*"))
        of_array = elements.get(number, ()) if index is None else ()
        found += [each._replace(job=job_id) for job_id in of_array or (each.job,)]
    return found


def _in_words(after: Sequence[After]) -> str:
    first = after[0]
    more = f" and {len(after) - 1} more" if len(after) > 1 else ""
    return f"it waits for job {first.job} to {'start' if first.is_start else 'end'}{more}"
