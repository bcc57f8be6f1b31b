"""The scheduler's books: the ledger, the engine made of it, and what is to be stored and done."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from betimes.errors import Conflict, Unknown
from betimes.service.engines.moves import (
    Happened,
    Held,
)
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.engines.speedups import speed
from betimes.service.events import Event
from betimes.service.job import Job, Places
from betimes.service.scheduling.effects import Effect
from betimes.service.scheduling.engine_factory import Built, Settings, build
from betimes.service.scheduling.engine_job import wanted_of
from betimes.service.scheduling.job_index import JobIndex
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.occupancy import Occupancy
from betimes.service.scheduling.progress_rate import ProgressRate
from betimes.service.scheduling.run_reports import Ended, RunId
from betimes.service.scheduling.siblings import Siblings
from betimes.service.scheduling.standby import Standby
from betimes.service.scheduling.trial_index import TrialIndex

NOTHING_NEW = {"quoted", "idle", "tuning", "tuned", "not-tuned", "trouble"}
"""Events that change nothing about who starts or finishes when."""

FindStatus = Callable[[int], str | None]
"""How a job that is over ended; null: there was none of that number."""

IsCompiled = Callable[[str], bool]
"""Whether the kernels of a policy can be called at once."""


class SchedulerState:
    """What every part of the scheduler writes to, and looks things up in."""

    def __init__(
        self,
        ledger: Ledger,
        find_status: FindStatus,
        settings: Settings | None = None,
        is_compiled: IsCompiled = lambda _: True,
    ) -> None:
        self.ledger, self.find_status, self.is_compiled = ledger, find_status, is_compiled
        self.settings = settings or Settings()
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.touched: dict[int, Job] = {}  # jobs whose rows have changed
        self.runs: list[dict[str, Any]] = []  # rows of runs that have changed
        self.now_at = ledger.last_at
        self.pending = Happened()
        self.rooms = Occupancy(ledger)
        self.agenda, self.sets, self.siblings = JobIndex(), TrialIndex(), Siblings()
        for job in ledger.jobs.values():
            for index in (self.agenda, self.sets, self.siblings):
                index.note(job)
        self.resizing: dict[RunId, int] = {}  # runs that are being told another width
        self.paces: dict[int, ProgressRate] = {}
        self.version = (
            0  # grows when who starts or finishes when may be different from what was last foreseen
        )
        self.built: Built | None = None
        self.idle: dict[str, Any] | None = None  # why the last decision did nothing; null: it did something

    @property
    def engine(self) -> Any:
        """The engine of the policy in force."""
        if self.built is None:
            raise Conflict("no policy is set yet")
        return self.built.engine

    @property
    def stands_by(self) -> bool:
        """Whether the policy in force is not compiled yet, so that nothing is decided."""
        return self.built is not None and isinstance(self.built.engine, Standby)

    @property
    def now_s(self) -> float:
        """The present instant to the engine."""
        return self.now_at - self.ledger.epoch_at

    @property
    def restart_s(self) -> float:
        """What a job is taken to lose when it is started again."""
        measured_s = self.ledger.restarts.usual_s if self.settings.measures_restarts else None
        return self.settings.restart_s if measured_s is None else measured_s

    def next_timer_at(self) -> float:
        """When `turn` wants to be called if nothing happens before; infinity: never."""
        if self.siblings.are_untold:
            return self.now_at
        timer_s = self.engine.next_timer_s() if self.built else math.inf
        timer_at = timer_s + self.ledger.epoch_at
        while timer_at - self.ledger.epoch_at < timer_s:  # rounded: it would be too early then
            timer_at = math.nextafter(timer_at, math.inf)
        return min(timer_at, self.agenda.next_delay_at())

    def _log(
        self, kind: str, cause: str, job: int | None = None, node: str | None = None, **data: Any
    ) -> Job | None:
        event = Event(self.ledger.next_event, self.now_at, kind, cause, job, node, data)
        changed = self.ledger.apply(event)
        self.events.append(event)
        if kind not in NOTHING_NEW:
            self.version += 1
        if changed is not None:
            self.touched[changed.job_id] = changed
            for index in (self.agenda, self.sets, self.siblings):
                index.note(changed)
            if changed.set_id in self.ledger.jobs:
                self.touched[changed.set_id] = self.ledger.jobs[changed.set_id]
        return changed

    def _job(self, number: int, what: str) -> Job:
        job = self.ledger.jobs.get(number)
        if job is not None and not job.status.is_over:
            return job
        ended = self._ended_as(number)
        if ended is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        raise Conflict(f"job {number} is {ended} and cannot be {what} any more")

    def _ended_as(self, number: int) -> str | None:
        job = self.ledger.jobs.get(number)
        if job is not None:
            return job.status.value if job.status.is_over else None
        return self.ledger.over.get(number) or self.find_status(number)

    def _running(self, run: RunId) -> Job | None:
        """The job of a run that is its present one; a report of any other comes too late to matter."""
        job = self.ledger.jobs.get(run.job)
        if job is None or job.run is None or job.run.number != run.number or not job.run.launched:
            return None
        return job

    def _account(self, number: int) -> dict[str, Any]:
        return asdict(self.engine.account(number))

    def _believed_left(self, job: Job) -> float:
        return float(self.engine.believed_left(job.job_id, self.now_s))

    def _speed(self, job: Job, units: int | None = None) -> float:
        held = job.run.units if units is None and job.run else units or 1
        return speed(wanted_of(job), held)

    def _named(self, places: Sequence[Held]) -> Places:
        names = self.built.nodes if self.built else []
        return [(names[place.node], place.units) for place in places]

    def _rebuild(self, policy: str, before: str | None = None) -> None:
        self.built = build(
            policy,
            self.ledger.nodes,
            self.ledger.jobs,
            before,
            self.now_s,
            replace(self.settings, restart_s=self.restart_s),
            epoch_at=self.ledger.epoch_at,
            is_compiled=self.is_compiled(policy),
        )
        engine = self.built.engine
        if isinstance(engine, Standby):
            return
        if isinstance(engine, LivePool):
            engine.left_of = self._left_at
        for job in self.ledger.jobs.values():
            nominated = job.binding is not None and "owed" in job.binding
            if nominated and not (isinstance(engine, LiveNodes) and engine.binding(job.job_id)):
                self._log("unbound", "policy", job.job_id)

    def _left_at(self, number: int, at_s: float) -> float | None:
        """Work that a job is known to have left when it outruns its belief; null: no more than that is known."""
        return None

    def _run_row(
        self, job: Job, report: Ended | None = None, outcome: str | None = None, limited_by: str | None = None
    ) -> None:
        run = job.run
        if run is None:
            return
        known: dict[str, Any] = {} if limited_by is None else {"memory_limited_by": limited_by}
        self.runs.append(
            {
                "job_id": job.job_id,
                "number": run.number,
                "units": run.units,
                "places": [list(place) for place in run.places],
                "started_at": run.started_at or run.decided_at,
                "ended_at": self.now_at if report else None,
                "outcome": outcome,
                "exit_code": report.exit_code if report else None,
                "signal": report.signal if report else None,
                "max_rss_gib": report.max_rss_gib if report else None,
                "cpu_s": report.cpu_s if report else None,
                "message": report.message if report else None,
                "memory_limit_gib": job.spec.memory_gib * run.units or None,
                "log_lost_bytes": report.log_lost_bytes if report else None,
                **known,
            }
        )
