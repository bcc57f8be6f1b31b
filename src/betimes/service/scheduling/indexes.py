"""Indexes of jobs, so that an event does not require a look at all of them."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from betimes.service.scheduling.beliefs import RuntimeEstimate, differs
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import due_at
from betimes.service.spec.job_spec import parse_after

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
        return self._heap[0] if self._heap else math.inf

    def add(self, job: int) -> None:
        """Let a job wait."""
        if job not in self._jobs:
            self._jobs.add(job)
            heapq.heappush(self._heap, job)

    def take(self) -> int | None:
        """The first one, which waits no more; null: there is none."""
        if not self._heap:
            return None
        job = heapq.heappop(self._heap)
        self._jobs.discard(job)
        return job


class JobIndex:
    """Jobs by what they wait for, kept up to date by `note` after every change."""

    def __init__(self) -> None:
        self.unsettled: set[int] = set()  # granted units that their runs lack so far
        self.entering: set[int] = set()  # the policy receives them at the next decision
        self.holding: set[int] = set()  # they have units of the policy
        self.leaving: set[int] = set()  # their runs are stopping
        self.nominated: set[int] = set()  # others are preempted for them
        self.requiring: set[int] = set()  # they require labels of their nodes, and are not over
        self.by_family: set[int] = (
            set()
        )  # their demand depends on the family of their nodes; they are not over
        self._on_node: defaultdict[str, set[int]] = defaultdict(set)
        self._nodes_of: dict[int, frozenset[str]] = {}  # of those in `_on_node`
        self._followers: defaultdict[int, set[int]] = defaultdict(set)  # by the job that they wait for
        self._busy: defaultdict[int, set[int]] = defaultdict(set)  # by array: queued, running, or about to be
        self._waiting: defaultdict[int, list[int]] = defaultdict(
            list
        )  # by array: a heap of those beyond its limit
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
        nominated = job.binding is not None and "owed" in job.binding and not over
        (self.nominated.add if nominated else self.nominated.discard)(number)
        if job.spec.require:
            (self.requiring.discard if over else self.requiring.add)(number)
        if job.spec.demand:
            (self.by_family.discard if over else self.by_family.add)(number)
        self._note_nodes(job)
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
        for name, amount in job.spec.resources.items():
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
        """The job is about to wait for others."""
        for after in job.spec.after:
            self._no_longer_follows(parse_after(after)[0], job.job_id)

    def _no_longer_follows(self, first: int, number: int) -> None:
        if first in self._followers:
            self._followers[first].discard(number)
            if not self._followers[first]:
                del self._followers[first]

    def on_node(self, name: str) -> list[int]:
        """Jobs that are granted or bound to a node, by number."""
        return sorted(self._on_node.get(name, ()))

    def followers(self, number: int) -> list[int]:
        """Jobs that wait, or waited, for a job to end."""
        return sorted(self._followers.get(number, ()))

    def is_awaited(self, number: int) -> bool:
        """Whether another job waits for a job to end."""
        return number in self._followers

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
        for name, amount in job.spec.resources.items():
            short = self._short[name]
            taken = sum(had for other, had in self._taken[name].items() if other != job.job_id)
            if taken + amount > there.get(name, 0) or short.first < job.job_id:
                short.add(job.job_id)
                return name
        return None

    def has_of(self, resource: str) -> dict[int, int]:
        """How much each job has of a resource, be it that it still waits for the policy."""
        return self._taken[resource]

    def next_for(self, resource: str) -> Iterator[int]:
        """Jobs that lacked some of a resource, in order, until one lacks it again."""
        short = self._short[resource]
        while (number := short.take()) is not None:
            yield number
            if number in short:
                return

    def _note_nodes(self, job: Job) -> None:
        number, names = job.job_id, frozenset[str]()
        if not job.status.is_over and (job.run is not None or job.binding):
            names = frozenset(name for name, _ in (*job.places, *(job.binding or {}).get("places", ())))
        before = self._nodes_of.get(number, frozenset[str]())
        if names == before:
            return
        for name in before - names:
            self._on_node[name].discard(number)
            if not self._on_node[name]:
                del self._on_node[name]
        for name in names - before:
            self._on_node[name].add(number)
        if names:
            self._nodes_of[number] = names
        else:
            del self._nodes_of[number]


ABLE = (Status.QUEUED, Status.RUNNING, Status.STOPPING)


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
        self.to_share: dict[
            int, tuple[int, ...]
        ] = {}  # sets whose units may change hands; the jobs that take some

    def note(self, job: Job) -> None:
        """A job is new, or has changed."""
        if job.set_id is not None:
            self.of[job.set_id].note(job)
        elif job.trials is not None and job.status.is_over:
            self.of.pop(job.job_id, None)


LEARNT = ("default", "last-two", "limit")  # bases of beliefs that may be replaced
LEAST_NEWS_S = 0.1  # beliefs that are closer count as equal
SHARE = (
    50  # of so many siblings, one must have finished since the last time: news costs time for each of them
)
MOST_A_TURN = 1000  # jobs whose belief is updated in one turn: more would delay requests

Key = tuple[str, str]  # user and `JobSpec.history_key`


class Siblings:
    """The live jobs of each user and history without an estimate, and those whose belief has not been updated yet."""

    def __init__(self) -> None:
        self._live: defaultdict[Key, dict[int, Job]] = defaultdict(dict)
        self._finished: defaultdict[Key, int] = defaultdict(int)  # since their last update
        # Of each key also by time limit, which bounds the belief.
        self._untold: dict[tuple[Key, float | None], tuple[RuntimeEstimate, list[Job]]] = {}

    def note(self, job: Job) -> None:
        """A job is new, or has changed. A set and its trials learn from its trials instead."""
        if job.trials is not None or job.set_id is not None or not math.isnan(job.spec.runtime_estimate_s):
            return
        key = (job.user, job.spec.history_key)
        if not job.status.is_over and job.basis in LEARNT:
            self._live[key][job.job_id] = job
        else:
            self.drop(job)

    def drop(self, job: Job) -> None:
        """The job follows this history no more."""
        key = (job.user, job.spec.history_key)
        if key in self._live:
            self._live[key].pop(job.job_id, None)
            if not self._live[key]:
                for gone in (self._live, self._finished):
                    gone.pop(key, None)

    def finished(self, user: str, history_key: str, believed: RuntimeEstimate) -> None:
        """A job has finished; believed: of the next one like it, if that had no time limit."""
        key = (user, history_key)
        if key not in self._live:
            return
        self._finished[key] += 1
        if self._finished[key] * SHARE < len(self._live[key]):
            return
        self._finished[key] = 0
        others: defaultdict[float | None, list[Job]] = defaultdict(list)
        for job in self._live[key].values():
            if _is_news(believed.within(job.spec.time_limit_s), job):
                others[job.spec.time_limit_s].append(job)
        for limit_s, jobs in others.items():
            self._untold[key, limit_s] = (believed.within(limit_s), jobs)

    @property
    def are_untold(self) -> bool:
        """Whether some beliefs are out of date."""
        return bool(self._untold)

    def take(self) -> Iterator[tuple[RuntimeEstimate, list[Job]]]:
        """Jobs to be updated now, in order; each is updated once."""
        room = MOST_A_TURN
        for which, (believed, jobs) in list(self._untold.items()):
            now, later = jobs[:room], jobs[room:]
            room -= len(now)
            if later:
                self._untold[which] = (believed, later)
            else:
                del self._untold[which]
            live = self._live.get(which[0], {})
            yield believed, [job for job in now if job.job_id in live]
            if room == 0:
                return


def _is_news(believed: RuntimeEstimate, job: Job) -> bool:
    return differs(believed.seconds, job.runtime_estimate_s, least_s=LEAST_NEWS_S)
