"""Which jobs to look at when something happens, so that not all of them have to be looked at."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator

from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.jobs.job_states import Status
from betimes.service.spec.job_spec import parse_after

BUSY = (Status.QUEUED, Status.RUNNING, Status.STOPPING)


class JobIndex:
    """Jobs by what they wait for, kept up to date by `note` after every change."""

    def __init__(self) -> None:
        self.unsettled: set[int] = set()  # granted units that their runs do not have yet
        self.entering: set[int] = set()  # the policy receives them at the next decision
        self.holding: set[int] = set()  # they have units of the policy
        self.leaving: set[int] = set()  # their runs have been told to stop
        self.nominated: set[int] = set()  # others are preempted for them
        self.requiring: set[int] = set()  # they require labels of their nodes, and are not over
        self.by_family: set[int] = (
            set()
        )  # what they need depends on the family of their nodes; and are not over
        self._on_node: defaultdict[str, set[int]] = defaultdict(set)
        self._nodes_of: dict[int, frozenset[str]] = {}  # of those in `_on_node`
        self._followers: defaultdict[int, set[int]] = defaultdict(set)  # by the job that they wait for
        self._busy: defaultdict[int, set[int]] = defaultdict(set)  # by array: queued, running, or about to be
        self._waiting: defaultdict[int, list[int]] = defaultdict(
            list
        )  # by array: a heap of those beyond its limit
        self._delays: dict[int, float] = {}  # of blocked jobs, be they over or not
        self._due: list[
            tuple[float, int]
        ] = []  # a heap of those that are not over, and of some that do not count

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
                elif first in self._followers:
                    self._followers[first].discard(number)
                    if not self._followers[first]:
                        del self._followers[first]
        if job.status is Status.BLOCKED and job.not_before_at > 0.0:
            if self._delays.get(number) != job.not_before_at:
                self._delays[number] = job.not_before_at
                heapq.heappush(self._due, (job.not_before_at, number))
        else:
            self._delays.pop(number, None)
        if job.array_most and job.array_id is not None:
            is_busy = job.status in BUSY or number in self.entering
            (self._busy[job.array_id].add if is_busy else self._busy[job.array_id].discard)(number)
            if not self._busy[job.array_id] and not self._waiting[job.array_id]:
                del self._busy[job.array_id], self._waiting[job.array_id]

    def enters(self, job: Job) -> None:
        """A job will be told to the policy at the next decision, unless something happens before."""
        self.entering.add(job.job_id)
        self.note(job)

    def on_node(self, name: str) -> list[int]:
        """Those that a node is granted to, or that are bound to it, in the order of their numbers."""
        return sorted(self._on_node.get(name, ()))

    def followers(self, number: int) -> list[int]:
        """Those that wait, or waited, for a job to end."""
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
        """Those that waited because of their array's limit, the first ones first, for as long as there is room."""
        waiting = self._waiting[array]
        while waiting and len(self._busy[array]) < most:
            yield heapq.heappop(waiting)

    def next_delay_at(self) -> float:
        """When the first delay is over; infinity: there is none."""
        while self._due and self._delays.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else math.inf

    def awake(self, now_at: float) -> list[int]:
        """Those whose delays are over by now; each is told once."""
        found: list[int] = []
        while self.next_delay_at() <= now_at:
            found.append(heapq.heappop(self._due)[1])
        return sorted(found)

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
