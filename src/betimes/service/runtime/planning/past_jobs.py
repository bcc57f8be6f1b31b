"""The jobs that the service has had, as its log has them: what a portfolio's selection learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from betimes.foresight.portfolio.hindsight import MOST_JOBS
from betimes.foresight.portfolio.submitted import Submitted
from betimes.kernels import as_array, blank, record_type
from betimes.service.engines.job_rows import JobRows
from betimes.service.engines.messages import JobRequest
from betimes.service.engines.selection import SelectionSnapshot
from betimes.service.scheduling.engine_job import wanted_for
from betimes.service.scheduling.events import Event
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store.store import Store
from betimes.service.views.models import JobFilter
from betimes.twin.nodes.event_loop import Arrival

A_PAGE = 1000  # events


@dataclass
class _Known:
    """A job; took_s: its run time, null: it has not finished. row: as `JobRows` has it, null: nothing holds it now."""

    wanted: JobRequest
    submitted_at: float
    took_s: float | None = None
    row: tuple[Any, ...] | None = None


class PastJobs:
    """The newest jobs, read from the log as it grows; sets of trials, and what is kept in a file only, are left out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: int | None = None  # the last event that was read; null: none yet
        self._jobs: dict[int, _Known] = {}  # in order of submission
        self._newest = 0
        self._made_by: JobRows | None = None  # the rows
        self._without_row: list[_Known] = []

    def submitted(self, snapshot: SelectionSnapshot, epoch_at: float) -> Submitted:
        """What was known at the time of the snapshot, whatever has happened since. epoch_at: the instant of 0 s."""
        self._read(epoch_at + snapshot.at_s)
        for number in list(self._jobs)[: max(0, len(self._jobs) - MOST_JOBS)]:
            del self._jobs[number]
        made_by = snapshot.job_rows
        if made_by != self._made_by:
            self._made_by = made_by
            self._without_row = list(self._jobs.values())
        for job in self._without_row:
            job.row = _row_of(job, made_by, epoch_at)
        self._without_row = []
        jobs = [job for job in self._jobs.values() if job.row is not None]
        rows = np.array([job.row for job in jobs], record_type(Arrival))
        known_s = [job.wanted.believed_s if job.took_s is None else job.took_s for job in jobs]
        rows["run_s"] = rows["believed_s"] = known_s
        return Submitted(rows, self._newest, snapshot.empty)

    def _read(self, until_at: float) -> None:
        """Take what has happened up to that instant into account."""
        if self._after is None:
            newest = self._store.jobs(JobFilter(limit=MOST_JOBS))
            first_at = min((row["submitted_at"] for row in newest), default=0.0)
            self._after = max(self._store.last_before(first_at), self._store.archived_upto)
        while page := self._store.events(self._after, A_PAGE, kinds=("submitted", "finished")):
            for event in page:
                if event.at_s > until_at:
                    return
                self._after = event.event_id
                self._note(event)

    def _note(self, event: Event) -> None:
        data = event.data
        if event.job is None:
            return
        if event.kind == "finished" and event.job in self._jobs:
            self._jobs[event.job].took_s = data["run_s"]
        elif event.kind == "submitted" and "set_id" not in data and "trials" not in data:
            wanted = wanted_for(event.job, JobSpec(**data["spec"]), data["believed_s"])
            self._jobs[event.job] = known = _Known(wanted, event.at_s)
            self._without_row.append(known)
            self._newest = event.job


def _row_of(job: _Known, rows: JobRows, epoch_at: float) -> tuple[Any, ...] | None:
    tasks = rows.split(job.wanted.asked)
    if not rows.is_held(job.wanted.asked, tasks):
        return None
    arrival = blank(Arrival, 1)
    rows.fill(arrival[0], job.wanted, tasks, job.submitted_at - epoch_at)
    return as_array(arrival)[0].item()
