"""The scheduler's state: jobs and nodes of the ledger, their indexes, and the results of the present turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from betimes.cluster.resources import Amounts
from betimes.errors import Conflict, Unknown
from betimes.service.scheduling.effects import Effect
from betimes.service.scheduling.events import Ended, Event, RunId
from betimes.service.scheduling.indexes import JobIndex, Siblings, TrialIndex
from betimes.service.scheduling.job import Job, Places, demand_of, held_by, memory_of
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.job_spec import JobSpec


@dataclass
class _Holding:
    spec: JobSpec
    places: Places
    amounts: list[tuple[str, Amounts]]  # of each of these nodes


class Occupancy:
    """Runs on nodes, as the executors have them."""

    def __init__(self, ledger: Ledger) -> None:
        self.nodes = ledger.nodes
        self.holdings: dict[RunId, _Holding] = {}
        self.used: dict[str, Amounts] = {}
        self._runs: defaultdict[str, dict[RunId, None]] = defaultdict(
            dict
        )  # by node, in the order of `holdings`
        for job in ledger.jobs.values():
            if job.run is not None and job.run.launched:
                holding = self._holding(job.spec, job.run.places, job.units_per_task)
                self._take(RunId(job.job_id, job.run.number), holding)

    def free_on(self, name: str) -> Amounts:
        """Free amounts of a node; never negative, unless it has shrunk."""
        (gpu, cpu, memory), used = self.nodes[name].capacity, self.used.get(name, (0, 0, 0))
        return gpu - used[0], cpu - used[1], memory - used[2]

    def runs_on(self, name: str) -> list[RunId]:
        """The runs that hold resources of a node."""
        return list(self._runs.get(name, ()))

    def reserve(self, run: RunId, job: Job) -> Places | None:
        """Reserve a run's places as the policy has set them; null: others have not left all of them yet."""
        holding = self._holding(job.spec, job.places, job.units_per_task)
        if any(most(self.free_on(name), amounts, 1) < 1 for name, amounts in holding.amounts):
            return None
        self._take(run, holding)
        return job.places

    def resize(self, run: RunId, job: Job, at_once: bool) -> Places | None:
        """Let a run of a pool hold its new grant; null: others have not left all of it yet.

        The run keeps its old places until `hold`, unless at_once.
        """
        holding = self.holdings[run]
        had, demand = dict(holding.places), demand_of(job.spec)
        for name, held in job.places:
            more = held - had.get(name, 0)
            if more > 0 and most(self.free_on(name), demand, more) < more:
                return None
        now = dict(job.places)
        both = [(name, max(had.get(name, 0), now.get(name, 0))) for name in {**had, **now}]
        self.hold(run, job.places if at_once else both)
        return job.places

    def hold(self, run: RunId, places: Places) -> None:
        """Set the places that a run holds."""
        holding = self.holdings[run]
        self.release(run)
        self._take(run, self._holding(holding.spec, places))

    def release(self, run: RunId) -> None:
        """Nothing of a run is left."""
        holding = self.holdings.pop(run, None)
        if holding is None:
            return
        self._count(holding, -1)
        for name, _ in holding.places:
            self._runs[name].pop(run, None)
            if not self._runs[name]:
                del self._runs[name]

    def _holding(self, spec: JobSpec, places: Places, units_per_task: int = 1) -> _Holding:
        return _Holding(spec, places, held_by(spec, places, units_per_task, self.nodes))

    def _take(self, run: RunId, holding: _Holding) -> None:
        self.holdings[run] = holding
        self._count(holding, 1)
        for name, _ in holding.places:
            self._runs[name][run] = None

    def _count(self, holding: _Holding, sign: int) -> None:
        for name, amounts in holding.amounts:
            gpu, cpu, memory = self.used.get(name, (0, 0, 0))
            self.used[name] = (gpu + sign * amounts[0], cpu + sign * amounts[1], memory + sign * amounts[2])


def most(free: Amounts, demand: Amounts, limit: int) -> int:
    """How many units, at most `limit`, fit into `free`."""
    return max(0, min([limit, *(room // need for room, need in zip(free, demand, strict=True) if need > 0)]))


NO_NEW_SCHEDULE = {
    "token-made",
    "token-revoked",
    "quoted",
    "promise-broken",
    "idle",
    "tuning",
    "tuning-stopped",
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
    """Events and effects since the last `take`: to be stored, and then to be carried out."""

    events: list[Event]
    effects: list[Effect]
    jobs: list[dict[str, Any]]  # changed rows
    runs: list[dict[str, Any]]  # likewise


class SchedulerState:
    """State shared by all parts of the scheduler. A change is an event: `log` is the one way to make it.

    version: grows whenever earlier forecasts may be outdated.
    """

    def __init__(self, ledger: Ledger, find_status: FindStatus, version: int = 0) -> None:
        self.ledger, self.version = ledger, version
        self.now_at = ledger.last_at
        self.occupancy = Occupancy(ledger)
        self.job_index, self.trial_index, self.siblings = JobIndex(), TrialIndex(), Siblings()
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.find_status = find_status
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

    def forget_spec(self, job: Job) -> None:
        """Another specification is about to take the place of the job's."""
        self.job_index.unfollow(job)
        self.siblings.drop(job)

    def note_changed(self, job: Job) -> None:
        """Store a job's row, perhaps without an event: progress is in no event."""
        self._changed[job.job_id] = job

    def note_run(
        self,
        job: Job,
        report: Ended | None = None,
        outcome: str | None = None,
        limited_by: str | None = None,
        ended_at: float | None = None,
    ) -> None:
        """Store the row of a job's present run; report, outcome, ended_at: how and when it ended."""
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
        """A job that is not over; what: the action refused if it is. Raises Unknown, Conflict."""
        job = self.ledger.jobs.get(number)
        if job is not None and not job.status.is_over:
            return job
        ended = self.ended_as(number)
        if ended is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        raise Conflict(f"job {number} is {ended} and cannot be {what} any more")

    def ended_as(self, number: int) -> str | None:
        """The final status of a job; null: it is not over, or there is none of that number."""
        job = self.ledger.jobs.get(number)
        if job is not None:
            return job.status.value if job.status.is_over else None
        return self.ledger.over.get(number) or self.find_status(number)

    def job_of(self, run: RunId) -> Job | None:
        """The job whose present run this is; null: a report of this run comes too late to matter."""
        job = self.ledger.jobs.get(run.job)
        if job is None or job.run is None or job.run.number != run.number or not job.run.launched:
            return None
        return job

    def take(self) -> tuple[Changes, list[int]]:
        """The changes since the last call, and the jobs that are over, which the ledger forgets."""
        events, run_rows = self.events, self._run_rows
        rows = [job.row() for job in self._changed.values()]
        effects, over = self.take_effects()
        return Changes(events, effects, rows, run_rows), over

    def take_effects(self) -> tuple[list[Effect], list[int]]:
        """The effects since the last call, and the jobs that are over, which the ledger forgets."""
        effects, over = self.effects, [job for job in self._changed.values() if job.status.is_over]
        for job in over:
            if job.job_id in self.ledger.jobs:
                self.ledger.forget(job)
        self.events, self.effects, self._changed, self._run_rows = [], [], {}, []
        return effects, [job.job_id for job in over]

    def _index(self, job: Job) -> None:
        for index in (self.job_index, self.trial_index, self.siblings):
            index.note(job)
