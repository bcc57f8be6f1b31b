"""The scheduler's state: jobs and nodes of the ledger, their indexes, and what the present turn has brought about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from betimes.errors import Conflict, Unknown
from betimes.service.scheduling.beliefs.siblings import Siblings
from betimes.service.scheduling.decisions.engine_job import memory_of
from betimes.service.scheduling.effects import Effect
from betimes.service.scheduling.event_log import Event
from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.jobs.job_index import JobIndex
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.runs.occupancy import Occupancy
from betimes.service.scheduling.runs.run_reports import Ended, RunId
from betimes.service.scheduling.trials.trial_index import TrialIndex

NO_NEW_SCHEDULE = {
    "quoted",
    "idle",
    "tuning",
    "tuned",
    "not-tuned",
    "trouble",
    "not-planned",
    "instruction-refused",
}
"""Events that do not change when any job starts or finishes."""

FindStatus = Callable[[int], str | None]
"""How a job that is over ended; null: there was none of that number."""


class Changes(NamedTuple):
    """What has happened since the last `take`: to be stored, and then to be carried out."""

    events: list[Event]
    effects: list[Effect]
    jobs: list[dict[str, Any]]  # rows of those that have changed
    runs: list[dict[str, Any]]  # likewise


class SchedulerState:
    """What every part of the scheduler reads and changes. A change is an event: `log` is the one way to make it.

    version: grows whenever a forecast that was made before may not hold any more.
    """

    def __init__(self, ledger: Ledger, find_status: FindStatus, version: int = 0) -> None:
        self.ledger, self.version = ledger, version
        self.now_at = ledger.last_at
        self.occupancy = Occupancy(ledger)
        self.job_index, self.trial_index, self.siblings = JobIndex(), TrialIndex(), Siblings()
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self._find_status = find_status
        self._changed: dict[int, Job] = {}
        self._run_rows: list[dict[str, Any]] = []
        for job in ledger.jobs.values():
            self._index(job)

    @property
    def now_s(self) -> float:
        """The present instant to the engine."""
        return self.now_at - self.ledger.epoch_at

    def log(
        self, kind: str, cause: str, job: int | None = None, node: str | None = None, **data: Any
    ) -> Job | None:
        """Let an event happen; returns its job, also when this was its last event."""
        event = Event(self.ledger.next_event, self.now_at, kind, cause, job, node, data)
        changed = self.ledger.apply(event)
        self.events.append(event)
        if kind not in NO_NEW_SCHEDULE:
            self.version += 1
        if changed is not None:
            self.note_changed(changed)
            self._index(changed)
            if changed.set_id in self.ledger.jobs:
                self.note_changed(self.ledger.jobs[changed.set_id])
        return changed

    def note_changed(self, job: Job) -> None:
        """A job's row is to be stored, though no event may say why: how far it has come stands in no event."""
        self._changed[job.job_id] = job

    def note_run(
        self,
        job: Job,
        report: Ended | None = None,
        outcome: str | None = None,
        limited_by: str | None = None,
        ended_at: float | None = None,
    ) -> None:
        """The row of a job's present run is to be stored; report, outcome, ended_at: how it has ended, and when."""
        run = job.run
        if run is None:
            return
        known: dict[str, Any] = {} if limited_by is None else {"memory_limited_by": limited_by}
        self._run_rows.append(
            {
                "job_id": job.job_id,
                "number": run.number,
                "units": run.units,
                "places": [list(place) for place in run.places],
                "started_at": run.started_at or run.decided_at,
                "ended_at": ended_at,
                "outcome": outcome,
                "exit_code": report.exit_code if report else None,
                "signal": report.signal if report else None,
                "max_rss_gib": report.max_rss_gib if report else None,
                "cpu_s": report.cpu_s if report else None,
                "message": report.message if report else None,
                "memory_limit_gib": memory_of(job.spec, run.places, self.ledger.nodes) or None,
                "log_lost_bytes": report.log_lost_bytes if report else None,
                **known,
            }
        )

    def live_job(self, number: int, what: str) -> Job:
        """A job that is not over; what: what it cannot be any more if it is. Raises Unknown, Conflict."""
        job = self.ledger.jobs.get(number)
        if job is not None and not job.status.is_over:
            return job
        ended = self.ended_as(number)
        if ended is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        raise Conflict(f"job {number} is {ended} and cannot be {what} any more")

    def ended_as(self, number: int) -> str | None:
        """The status that a job has ended with; null: it is not over, or there is none of that number."""
        job = self.ledger.jobs.get(number)
        if job is not None:
            return job.status.value if job.status.is_over else None
        return self.ledger.over.get(number) or self._find_status(number)

    def job_of(self, run: RunId) -> Job | None:
        """The job of a run that is its present one; null: a report of this run comes too late to matter."""
        job = self.ledger.jobs.get(run.job)
        if job is None or job.run is None or job.run.number != run.number or not job.run.launched:
            return None
        return job

    def take(self) -> tuple[Changes, list[int]]:
        """What has happened since the last time, and the jobs that are over, which the ledger forgets."""
        changed = list(self._changed.values())
        taken = Changes(self.events, self.effects, [job.row() for job in changed], self._run_rows)
        over = [job for job in changed if job.status.is_over]
        for job in over:
            if job.job_id in self.ledger.jobs:
                self.ledger.forget(job)
        self.events, self.effects, self._changed, self._run_rows = [], [], {}, []
        return taken, [job.job_id for job in over]

    def _index(self, job: Job) -> None:
        for index in (self.job_index, self.trial_index, self.siblings):
            index.note(job)
