"""The scheduler's state: the ledger, indexes of its jobs, who holds what on nodes, and the results of the present turn.

The indexes are there so that an event does not require a look at all jobs.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from betimes.cluster.resources import Amounts
from betimes.errors import Conflict, Unknown
from betimes.service.scheduling.beliefs import Siblings
from betimes.service.scheduling.effects import Effect
from betimes.service.scheduling.events import Ended, Event, RunId
from betimes.service.scheduling.fold import apply
from betimes.service.scheduling.job import Job, Places, demand_of, held_by, memory_of
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import NodesInBrief, in_brief
from betimes.service.scheduling.promises import due_at
from betimes.service.spec.groups import Groups
from betimes.service.spec.job_spec import JobSpec, parse_after

BUSY = (Status.QUEUED, Status.RUNNING, Status.STOPPING)


class Due:
    """Instants of jobs, the next one at hand."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}  # by job
        self._next: list[tuple[float, int]] = []  # a heap of those that have not come, and of some stale ones

    def set(self, job: int, at: float | None) -> None:
        """Set the instant of a job; null: it has none."""
        if at is None:
            self.at.pop(job, None)
        elif self.at.get(job) != at:
            self.at[job] = at
            heapq.heappush(self._next, (at, job))

    def next_at(self) -> float:
        """The first instant to come; infinity: there is none."""
        while self._next and self.at.get(self._next[0][1]) != self._next[0][0]:
            heapq.heappop(self._next)
        return self._next[0][0] if self._next else math.inf

    def take(self, now_at: float) -> list[int]:
        """The jobs whose instants have come, by number; each is returned once."""
        found: list[int] = []
        while self.next_at() <= now_at:
            found.append(heapq.heappop(self._next)[1])
        return sorted(found)


class Line:
    """Jobs by number, each once."""

    def __init__(self) -> None:
        self._jobs: set[int] = set()
        self._heap: list[int] = []

    def __contains__(self, job: int) -> bool:
        return job in self._jobs

    @property
    def first(self) -> float:
        """The first one; infinity: there is none."""
        while self._heap and self._heap[0] not in self._jobs:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else math.inf

    def add(self, job: int) -> None:
        """Let a job wait."""
        if job not in self._jobs:
            self._jobs.add(job)
            heapq.heappush(self._heap, job)

    def discard(self, job: int) -> None:
        """Let a job wait no more, if it does."""
        self._jobs.discard(job)

    def take(self) -> int | None:
        """The first one, which waits no more; null: there is none."""
        if self.first == math.inf:
            return None
        job = heapq.heappop(self._heap)
        self._jobs.discard(job)
        return job


NO_GROUPS = Groups()


class JobIndex:
    """Jobs by what they wait for, kept up to date by `note` after every change."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.unsettled: set[int] = set()  # granted units that their runs lack so far
        self.entering: set[int] = set()  # the policy receives them at the next decision
        self.holding: set[int] = set()  # they have units of the policy
        self.leaving: set[int] = set()  # their runs are stopping
        self.bound: set[int] = set()  # nodes are vacated or reserved for them
        self.nominated: set[int] = set()  # of these, others are preempted for them
        self.requiring: set[int] = set()  # they require labels of their nodes, and are not over
        # Their demand depends on the family of their nodes; they are not over.
        self.by_family: set[int] = set()
        self._followers: defaultdict[int, set[int]] = defaultdict(set)  # by the job that they wait for
        self._named: defaultdict[tuple[str, str], Line] = defaultdict(Line)  # jobs that are not over
        self._busy: defaultdict[int, set[int]] = defaultdict(set)  # by array: queued, running, or about to be
        # By array: a heap of those beyond its limit.
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)
        self._taken: defaultdict[str, dict[int, int]] = defaultdict(dict)  # by resource: by job that has some
        self._short: defaultdict[str, Line] = defaultdict(Line)  # by resource: the jobs that lack some
        self.delays = Due()  # of blocked jobs: when they may queue
        self.promises = Due()  # when the promise that is judged is broken

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        number, run = job.job_id, job.run
        settled = run is None or job.units == 0 or run.stopping is not None
        settled = settled or (run is not None and run.launched and run.units == job.units)
        (self.unsettled.discard if settled else self.unsettled.add)(number)
        over = job.status.is_over
        (self.holding.add if job.units and not over else self.holding.discard)(number)
        leaves = run is not None and run.stopping is not None and not over
        (self.leaving.add if leaves else self.leaving.discard)(number)
        bound = job.binding is not None and not over
        (self.bound.add if bound else self.bound.discard)(number)
        nominated = job.is_nominated and not over
        (self.nominated.add if nominated else self.nominated.discard)(number)
        if job.set_id is None:
            if over:
                self._leaves_namesakes(job)
            else:
                self._named[job.user, job.spec.title].add(number)
        if job.spec.require:
            (self.requiring.discard if over else self.requiring.add)(number)
        if job.spec.demand:
            (self.by_family.discard if over else self.by_family.add)(number)
        if job.spec.after:
            for after in job.spec.after:
                first = parse_after(after)[0]
                if not job.status.is_over:
                    self._followers[first].add(number)
                else:
                    self._no_longer_follows(first, number)
        is_delayed = job.status is Status.BLOCKED and job.not_before_at > 0.0
        self.delays.set(number, job.not_before_at if is_delayed else None)
        self.promises.set(number, due_at(job))
        is_busy = job.status in BUSY or number in self.entering
        for name, amount in self.claims(job).items():
            if is_busy:
                self._taken[name][number] = amount
            else:
                self._taken[name].pop(number, None)
        if job.array_most and job.array_id is not None:
            (self._busy[job.array_id].add if is_busy else self._busy[job.array_id].discard)(number)
            if not self._busy[job.array_id] and not self._waiting[job.array_id]:
                del self._busy[job.array_id], self._waiting[job.array_id]

    def enters(self, job: Job) -> None:
        """The policy receives the job at the next decision, unless something happens before."""
        self.entering.add(job.job_id)
        self.note(job)

    def unfollow(self, job: Job) -> None:
        """The job is about to wait for others, and perhaps to have another name."""
        self._leaves_namesakes(job)
        for after in job.spec.after:
            self._no_longer_follows(parse_after(after)[0], job.job_id)

    def _no_longer_follows(self, first: int, number: int) -> None:
        if first in self._followers:
            self._followers[first].discard(number)
            if not self._followers[first]:
                del self._followers[first]

    def _leaves_namesakes(self, job: Job) -> None:
        named = self._named.get(key := (job.user, job.spec.title))
        if named is not None:
            named.discard(job.job_id)
            if named.first == math.inf:
                del self._named[key]

    def first_named(self, user: str, name: str) -> int | None:
        """The first of a user's jobs of a name that are not over; null: there is none."""
        named = self._named.get((user, name))
        return None if named is None else int(named.first)

    def followers(self, number: int) -> list[int]:
        """Jobs that wait, or waited, for a job to end."""
        return sorted(self._followers.get(number, ()))

    def has_room(self, job: Job) -> bool:
        """Whether one more of a job's array may be at work; else it will be among `next_of_array`."""
        if not job.array_most or job.array_id is None:
            return True
        if len(self._busy[job.array_id]) < job.array_most:
            return True
        heapq.heappush(self._waiting[job.array_id], job.job_id)
        return False

    def next_of_array(self, array: int, most: int) -> Iterator[int]:
        """Elements that waited for their array's limit, in order, for as long as there is room."""
        waiting = self._waiting[array]
        while waiting and len(self._busy[array]) < most:
            yield heapq.heappop(waiting)

    def lacking(self, job: Job, there: Mapping[str, int]) -> str | None:
        """A resource of which the job needs more than is left; it is then among `next_for`. there: how much of each.

        None is left for a job behind others that lack some of it.
        """
        for name, amount in self.claims(job).items():
            short = self._short[name]
            taken = sum(had for other, had in self._taken[name].items() if other != job.job_id)
            if taken + amount > there.get(name, 0) or short.first < job.job_id:
                short.add(job.job_id)
                return name
        return None

    def claims(self, job: Job) -> Mapping[str, int]:
        """What a job has of what is counted while it runs, or may start next; trials have none of their own."""
        return self._groups.claims(job.user, job.spec) if job.set_id is None else {}

    def has_of(self, resource: str) -> dict[int, int]:
        """The amount of a resource that each job has, also one that still waits for the policy."""
        return self._taken[resource]

    def next_for(self, resource: str) -> Iterator[int]:
        """Jobs that lacked some of a resource, in order, until one lacks it again."""
        short = self._short[resource]
        while (number := short.take()) is not None:
            yield number
            if number in short:
                return


def _numbers() -> set[int]:
    return set()


@dataclass
class TrialsOfSet:
    """The trials of one set, by number."""

    live: set[int] = field(default_factory=_numbers)  # not over
    able: set[int] = field(default_factory=_numbers)  # live, and not waiting for a retry
    holding: set[int] = field(default_factory=_numbers)  # have a unit of the set
    begun: set[int] = field(default_factory=_numbers)  # have run, and are not over
    _idle: set[int] = field(default_factory=_numbers)  # could take a unit
    _next: list[int] = field(default_factory=list[int])  # a heap of those, and of some stale ones

    def note(self, job: Job) -> None:
        """A trial is new, or has changed."""
        number, is_live = job.job_id, not job.status.is_over
        able = job.status in BUSY
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
        """The first trial that could take a unit; each is returned once, until it has taken one and lost it."""
        while self._next:
            number = heapq.heappop(self._next)
            if number in self._idle:
                self._idle.discard(number)
                return number
        return None


class TrialIndex:
    """Every set with trials that are not over, and the sets to review in the present turn."""

    def __init__(self) -> None:
        self.of: defaultdict[int, TrialsOfSet] = defaultdict(TrialsOfSet)  # by the set's number
        self.to_review: set[int] = set()  # sets with a trial that is over or may run again
        # Sets whose units may change hands; the jobs that take some.
        self.to_share: dict[int, tuple[int, ...]] = {}

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        if job.set_id is not None:
            self.of[job.set_id].note(job)
        elif job.trials is not None and job.status.is_over:
            self.of.pop(job.job_id, None)


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
        self.in_use: Amounts = (0, 0, 0)  # of all nodes together
        # By node, in the order of `holdings`.
        self._runs: defaultdict[str, dict[RunId, None]] = defaultdict(dict)
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

    def overbook(self, run: RunId, job: Job) -> None:
        """Note a run that another scheduler has started where nothing seems to be free."""
        self._take(run, self._holding(job.spec, job.places, job.units_per_task))

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
            gpu, cpu, memory = self.in_use
            self.in_use = (gpu + sign * amounts[0], cpu + sign * amounts[1], memory + sign * amounts[2])


def most(free: Amounts, demand: Amounts, limit: int) -> int:
    """The number of units, at most `limit`, that fit into `free`."""
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
    "set-aside",
    "not-planned",
    "instruction-refused",
}
"""Events that do not change when any job starts or finishes."""

Step = tuple[str, int | str]
"""A step of a turn that inputs do not name: what is done, and the job or the part of the scheduler."""

FindStatus = Callable[[int], str | None]
"""The end of a job that is over; null: there was none of that number."""


class Changes(NamedTuple):
    """Events and effects since the last `take`: to be stored, and then to be carried out."""

    events: list[Event]
    effects: list[Effect]
    jobs: list[dict[str, Any]]  # changed rows
    runs: list[dict[str, Any]]  # likewise
    charges: list[dict[str, Any]]  # new rows


class SchedulerState:
    """State shared by all parts of the scheduler. A change is an event: `log` is the one way to make it.

    version: grows whenever earlier forecasts may be outdated. doing: the present step; where one raises an error, it
    stays here. left_out: steps that have raised one, and are not taken any more. is_resuming: since a start there has
    been no turn.
    """

    def __init__(
        self, ledger: Ledger, find_status: FindStatus, version: int = 0, groups: Groups = NO_GROUPS
    ) -> None:
        self.ledger, self.version = ledger, version
        self.now_at = ledger.last_at
        self.occupancy = Occupancy(ledger)
        self.job_index, self.trial_index, self.siblings = JobIndex(groups), TrialIndex(), Siblings()
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.doing: Step | None = None
        self.left_out: set[Step] = set()
        self.is_resuming = False
        self.find_status = find_status
        self._changed: dict[int, Job] = {}
        self._run_rows: list[dict[str, Any]] = []
        self._charge_rows: list[dict[str, Any]] = []
        self._nodes_in_brief: NodesInBrief | None = None
        for job in ledger.jobs.values():
            self._index(job)

    @property
    def now_s(self) -> float:
        """The present instant to the engine."""
        return self.now_at - self.ledger.epoch_at

    @property
    def nodes_in_brief(self) -> NodesInBrief:
        """The nodes as they are now, summed up."""
        if self._nodes_in_brief is None:
            self._nodes_in_brief = in_brief(self.ledger.nodes.values())
        return self._nodes_in_brief

    def log(
        self, kind: str, cause: str, job: int | None = None, node: str | None = None, **data: Any
    ) -> Job | None:
        """Let an event happen; returns its job, also when this was its last event."""
        event = Event(self.ledger.next_event, self.now_at, kind, cause, job, node, data)
        changed = apply(self.ledger, event)
        if node is not None:
            self._nodes_in_brief = None
        self.events.append(event)
        rows = (charge.row(event.event_id, number) for number, charge in enumerate(self.ledger.charges))
        self._charge_rows += rows
        if kind not in NO_NEW_SCHEDULE:
            self.version += 1
        if changed is not None:
            self.note_changed(changed)
            self._index(changed)
            if changed.set_id in self.ledger.jobs:
                self.note_changed(self.ledger.jobs[changed.set_id])
        return changed

    def note_clock(self, wall_s: float, stepped_s: float) -> None:
        """Log a jump of the machine's clock, before the service's is put forward by `stepped_s`."""
        self.log("clock-set", "timer", wall_s=wall_s, stepped_s=stepped_s)
        for job in self.ledger.jobs.values() if stepped_s else ():
            self.note_changed(job)
            self._index(job)

    def correct_clock(self, by_s: float) -> None:
        """Log that instants before the present were wrong, and store what the corrected clock makes of live jobs."""
        self.log("clock-corrected", "timer", by_s=by_s)
        for job in self.ledger.jobs.values():
            self.note_changed(job)
            self.note_run(job)

    def take_step(self, what: str, of: int | str, act: Callable[[], None]) -> None:
        """Take a step of a turn, unless it is left out; an error in it can be attributed to it by `doing`."""
        step, before = (what, of), self.doing
        if step not in self.left_out:
            self.doing = step
            act()
            self.doing = before

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
        ran_s: float | None = None,
    ) -> None:
        """Store the row of a job's present run; report, outcome, ended_at, ran_s: how, when and after what it ended."""
        run = job.run
        if run is None:
            return
        began_at = run.started_at or run.decided_at
        nodes = self.ledger.nodes
        rented = sum(n for name, n in run.places if name in nodes and nodes[name].rented_at is not None)
        known: dict[str, Any] = {} if limited_by is None else {"memory_limited_by": limited_by}
        self._run_rows.append(
            {
                "job_id": job.job_id,
                "number": run.number,
                "units": run.units,
                "owned_units": max(0, run.units - rented),
                "places": [list(place) for place in run.places],
                "started_at": began_at,
                "ended_at": ended_at,
                "stood_s": run.stood_s
                if ended_at is None
                else max(0.0, ended_at - began_at - (ran_s or 0.0)),
                "suspended_at": run.suspended_at if ended_at is None else None,
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

    def is_met(self, number: int, on: str) -> bool | None:
        """Whether what is waited for of a job has come (`job_spec.ON`); null: not yet, and it may come.

        A retry of a job that has failed is a part of it.
        """
        ended = self.ended_as(number)
        if ended is None:
            job = self.ledger.jobs.get(number)
            return True if on == "start" and job is not None and job.started_at is not None else None
        if on in ("any", "start"):
            return True
        return (ended == Status.FINISHED) is not (on == "fail")

    def going_on(self, name: str) -> Iterator[Job]:
        """The jobs whose runs on a node have not been asked to stop."""
        for run in self.occupancy.runs_on(name):
            job = self.job_of(run)
            if job is not None and job.run is not None and job.run.stopping is None:
                yield job

    def meant_for(self, name: str) -> list[Job]:
        """The jobs that are granted or bound to a node, by number."""
        index, found = self.job_index, list[Job]()
        for number in sorted(index.holding | index.bound):
            job = self.ledger.jobs[number]
            places = [] if job.run is None else job.places
            if any(node == name for node, _ in (*places, *(job.binding or {}).get("places", ()))):
                found.append(job)
        return found

    def job_of(self, run: RunId) -> Job | None:
        """The job whose present run this is; null: a report of this run comes too late to matter."""
        job = self.ledger.jobs.get(run.job)
        if job is None or job.run is None or job.run.number != run.number or not job.run.launched:
            return None
        return job

    def take(self) -> tuple[Changes, list[int]]:
        """The changes since the last call, and the jobs that are over, which the ledger forgets."""
        events, run_rows, charge_rows = self.events, self._run_rows, self._charge_rows
        rows = [job.row() for job in self._changed.values()]
        effects, over = self.take_effects()
        return Changes(events, effects, rows, run_rows, charge_rows), over

    def take_effects(self) -> tuple[list[Effect], list[int]]:
        """The effects since the last call, and the jobs that are over, which the ledger forgets."""
        effects, over = self.effects, [job for job in self._changed.values() if job.status.is_over]
        for job in over:
            if job.job_id in self.ledger.jobs:
                self.ledger.forget(job)
        self.events, self.effects, self._changed = [], [], {}
        self._run_rows, self._charge_rows = [], []
        return effects, [job.job_id for job in over]

    def _index(self, job: Job) -> None:
        for index in (self.job_index, self.trial_index, self.siblings):
            index.note(job)
