"""An existing Slurm as the source of events: one poller looks at it, and what has changed is put into the inbox.

Nothing is decided here and nothing is written to Slurm. Promises are made from the last look: what runs goes on where
it runs, and what waits follows in Slurm's order.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from betimes.cluster.labels import is_label
from betimes.errors import BetimesError, SlurmError, Unavailable
from betimes.foresight.run_times import HALF
from betimes.foresight.simulate import simulate
from betimes.kernels import Floats
from betimes.outcome.result import JobColumns
from betimes.printing import printable
from betimes.service.engines.accounts import expected_left
from betimes.service.engines.messages import Expected, Foreseen, Play
from betimes.service.machines.machine import Machine
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.promises import Promises
from betimes.service.scheduling.node import DRAINING, UP
from betimes.service.scheduling.observed import Element
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.sbatch import OF_SLURM
from betimes.service.spec.spelling import ELEMENTS, job_number
from betimes.slurm.commands import Commands
from betimes.slurm.doctor import SLOW_S, sight
from betimes.slurm.jobs import SlurmJob, parts_of
from betimes.slurm.machines import Machines
from betimes.slurm.picture import Looks, Picture
from betimes.slurm.queue import NO_LIMIT_S, POLICY, SOON_S, Queue, queue_of
from betimes.units import length
from betimes.workload import Workload

KIND = "slurm"
LEAST_POLL_S = 15.0
MOST_POLL_S = 600.0
OLD_S = 900.0
"""A picture that is older promises nothing."""
MOST_NUMBER = (1 << 26) - 1
"""Slurm's largest number of a job, those of federations aside."""
_MOST_NAME = 100
A_MOMENT_S = 0.02
MOST_PLAYS = 4
"""Play-outs in which jobs that wait for others come when those have ended in the one before."""
NEVER_S = 100 * NO_LIMIT_S
SAME_S = 1.0
"""A job that may start that much later may start as before."""
_ENDED: dict[str, Literal["finished", "failed", "cancelled", "time-limit"]] = {
    "COMPLETED": "finished",
    "TIMEOUT": "time-limit",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
}

log = logging.getLogger(__name__)


def number_of(job_id: str) -> int | None:
    """The number of a job here: Slurm's, and for elements of arrays one above these; null: it is of a federation."""
    base, _, component = job_id.partition("+")
    first, index = parts_of(base)
    first += int(component or 0)  # the parts of a heterogeneous job have numbers one after the other
    if not 0 < first <= MOST_NUMBER or (index or 0) >= ELEMENTS:
        return None
    return first if index is None else first * ELEMENTS + index


def machines_of_slurm(machines: Machines) -> list[Machine]:
    """Slurm's nodes, with the names of their partitions as labels."""
    partitions = {name: each.nodes for name, each in machines.partitions.items() if is_label(name, "yes")}
    return [
        Machine(
            name,
            KIND,
            KIND,
            float(node.cpus),
            node.memory_mib / 1024,
            0.0,
            labels=tuple(sorted((each, "yes") for each, nodes in partitions.items() if name in nodes)),
        )
        for name, node in machines.nodes.items()
        if node.cpus
    ]


@dataclass(frozen=True)
class Names:
    """The names of users and jobs in the log. key: they are hashed with it; null: shown."""

    key: bytes | None = None

    def of(self, text: str) -> str:
        """A name as the log has it."""
        if self.key is not None:
            return hmac.new(self.key, text.encode(errors="replace"), hashlib.sha256).hexdigest()[:12]
        return printable(text)[:_MOST_NAME] or "-"


@dataclass(frozen=True)
class Look:
    """A picture of one instant, and the queue that follows from it."""

    picture: Picture
    machines: Machines
    queue: Queue


class Observation:
    """The last look at Slurm, from which promises are made. names: how users and jobs are called.

    own_jobs_only: whether users see their own jobs alone, though Slurm shows them others'. hides_jobs: whether Slurm
    does not, which is so until it has been seen.
    """

    def __init__(self, own_jobs_only: bool = False) -> None:
        self._own_jobs_only, self.hides_jobs = own_jobs_only, True
        self._last: Look | None = None
        self.why_none = "Slurm has not been looked at yet"
        self.names = Names()

    @property
    def is_private(self) -> bool:
        """Whether users see their own jobs alone."""
        return self._own_jobs_only or self.hides_jobs

    def name_of(self, user: str) -> str:
        """The name of a user in the log."""
        return self.names.of(user)

    @property
    def is_blind(self) -> bool:
        """Whether there is no look from which anything could be foreseen."""
        return self._last is None

    @property
    def last(self) -> Look:
        """The last look. Raises Unavailable where nothing can be foreseen from it."""
        if self._last is None:
            raise Unavailable(f"no job is promised anything now: {self.why_none}")
        return self._last

    def take(self, look: Look) -> None:
        """Go on from another look."""
        self._last = look

    def refuse(self, why: str) -> None:
        """Promise nothing until the next look."""
        self._last, self.why_none = None, why

    def foresee(self, epoch_at: float, expected: Expected) -> Play:
        """A play-out of the last look. Raises Unavailable."""
        return play_of(self.last.queue, epoch_at, expected)


def play_of(queue: Queue, epoch_at: float, expected: Expected, policy: str = POLICY) -> Play:
    """A play-out of a queue, in which jobs end when they are expected to, and Slurm, or a policy, plans with limits."""
    return partial(_played, queue, epoch_at, dict(expected), policy)


def _played(queue: Queue, epoch_at: float, expected: Expected, policy: str) -> Foreseen:
    """Two play-outs: jobs end when they are expected to, and, where that is learned, at their limits."""
    ids = [str(each) for each in queue.workload.job_id.tolist()]
    numbers = [number_of(each) for each in ids]
    if not ids:
        return Foreseen([], np.zeros(0), np.zeros(0))
    now_at, running = queue.state.now_s, queue.state.running_by_id
    ages = np.array([now_at - running[each].since_s if each in running else 0.0 for each in ids])
    planned = np.array([queue.planned[each] for each in ids])
    by_limit = np.maximum(planned - ages, 1.0)
    left = by_limit.copy()
    for at, (number, age_s) in enumerate(zip(numbers, ages.tolist(), strict=True)):
        grid = expected.get(number) if number is not None else None
        if grid is not None and float(grid[-1]) > age_s:
            found_s = expected_left(grid[None], 0, age_s) if age_s else float(grid[HALF])
            left[at] = min(max(found_s, 1.0), by_limit[at])
    kept = [at for at, number in enumerate(numbers) if number is not None]
    start_s, finish_s = _simulated(queue, ages, left, policy)
    believed_s = None if (left == by_limit).all() else _simulated(queue, ages, by_limit, policy)[1]
    return Foreseen(
        [number for number in numbers if number is not None],
        start_s[kept] - epoch_at,
        finish_s[kept] - epoch_at,
        believed_s=None if believed_s is None else believed_s[kept] - epoch_at,
    )


def _simulated(queue: Queue, ages: Floats, left: Floats, policy: str) -> tuple[Floats, Floats]:
    """Starts and finishes of the jobs of a queue, which have run for `ages` and go on for `left`, s."""
    workload = replace(queue.workload, work_s=(ages + left) * queue.workload.max_units)
    ids, waits_for = [str(each) for each in workload.job_id.tolist()], queue.dependencies
    left_of = dict(zip(ids, left.tolist(), strict=True))
    pinned = [
        job if job.left_s is not None else replace(job, left_s=left_of[job.job_id])
        for job in queue.state.running
    ]
    state = replace(queue.state, running=pinned)

    def play(workload: Workload) -> JobColumns:
        return simulate(
            workload, policy, cluster=queue.cluster, sizes="estimate", state=state, on_wide="drop"
        ).jobs

    if not waits_for.after:
        found = play(workload)
        return found.start_s, found.finish_s
    now_s = state.now_s
    starts, ends = dict.fromkeys(ids, now_s), {job_id: now_s + left_s for job_id, left_s in left_of.items()}
    waits_for.place(starts, ends)  # as if there were nodes for all at once
    submitted, before = dict(zip(ids, workload.submit_s.tolist(), strict=True)), dict[str, float]()
    for _ in range(MOST_PLAYS):
        ready = {job_id: waits_for.may_start_s(job_id, starts, ends) for job_id in waits_for.after}
        ready = {
            job_id: now_s + NEVER_S if math.isnan(at) else max(now_s + SOON_S, at)
            for job_id, at in ready.items()
        }
        if before and all(abs(ready[job_id] - at) < SAME_S for job_id, at in before.items()):
            break
        before = ready
        submitted |= ready
        found = play(workload.submitted([submitted[job_id] for job_id in ids]))
        played = [str(each) for each in found.job_id.tolist()]
        starts = dict(zip(played, found.start_s.tolist(), strict=True))
        ends = dict(zip(played, found.finish_s.tolist(), strict=True))
    waits_for.place(starts, ends)
    return np.array([starts[job_id] for job_id in ids]), np.array([ends[job_id] for job_id in ids])


class SlurmSource:
    """The poller: it looks, puts into the inbox what has changed, and has new jobs promised an end.

    poll_s: between two looks; twice as long after each that fails or is slow, up to MOST_POLL_S.
    """

    def __init__(
        self,
        controller: Controller,
        promises: Promises,
        looks: Looks,
        observation: Observation,
        poll_s: float,
    ) -> None:
        self._controller, self._promises, self._looks = controller, promises, looks
        self._observation, self._poll_s = observation, poll_s
        self._passed: set[int] | None = None  # were over when this service began, and are not known
        self.pause_s = poll_s
        self.seen_at: float | None = None
        self.trouble: str | None = None

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(self.pause_s)

    def notes(self) -> list[str]:
        """Notes for a reader: the age of the last look, and what is wrong."""
        found = [self.trouble] if self.trouble is not None else []
        age_s = math.inf if self.seen_at is None else self._controller.clock.now_s() - self.seen_at
        if self.trouble is None and age_s > 3.0 * self._poll_s:
            found.append(
                f"Slurm was looked at {length(age_s)} ago"
                if math.isfinite(age_s)
                else "Slurm was not seen yet"
            )
        return found

    async def look(self) -> None:
        """Look once, and take in what is seen."""
        try:
            picture = await asyncio.to_thread(self._looks.look)
            machines = await asyncio.to_thread(self._looks.machines, picture)
            counts = await asyncio.to_thread(self._looks.counts)
            queue = await asyncio.to_thread(queue_of, picture, machines)
        except SlurmError as error:
            self._note(str(error))
            self.pause_s = min(2.0 * self.pause_s, MOST_POLL_S)
            if self.seen_at is not None and self._controller.clock.now_s() > self.seen_at + OLD_S:
                self._observation.refuse(f"{error}; it was last seen {length(OLD_S)} ago or earlier")
            return
        self._observation.hides_jobs = machines.hides_jobs
        is_slow = picture.took_s > SLOW_S
        self.pause_s = min(2.0 * self.pause_s, MOST_POLL_S) if is_slow else self._poll_s
        seen = sight(picture, machines, counts)
        self._note(None if seen.ok else seen.text)
        if seen.ok:
            self._observation.take(Look(picture, machines, queue))
        else:
            self._observation.refuse(seen.text)
        try:
            await self._take_in(picture, machines, queue)
            self.seen_at = picture.at
            if seen.ok:
                await self._promise(queue)
        except BetimesError as error:  # the next look may go better
            self._note(f"what was seen of Slurm could not be taken in: {error}")

    def _note(self, trouble: str | None) -> None:
        if trouble != self.trouble and trouble is not None:
            log.warning("%s", trouble)
        elif self.trouble is not None and trouble is None:
            log.info("Slurm answers again")
        self.trouble = trouble

    async def _take_in(self, picture: Picture, machines: Machines, queue: Queue) -> None:
        """Put into the inbox what has changed since the last look: ends first, then new jobs, then starts."""
        jobs = {number: job for job in picture.jobs.values() if (number := number_of(job.id)) is not None}
        ask = self._controller.ask
        known = self._controller.scheduler.ledger.jobs
        gone = [number for number in known if number not in jobs]
        new = [number for number in jobs if number not in known]
        before = await asyncio.to_thread(self._controller.store.jobs_of, new) if new else {}
        ends = await asyncio.to_thread(self._ends_of, gone) if gone else {}
        kept = {
            number: why for job_id, why in queue.kept.items() if (number := number_of(job_id)) is not None
        }
        await ask("nodes of Slurm", partial(_take_nodes, machines=machines))
        if self._passed is None:
            self._passed = {number for number, job in jobs.items() if job.is_over and number not in known}
        self._passed &= jobs.keys()
        runs = {number: row["attempt"] for number, row in before.items()}
        take = partial(self._take_jobs, jobs=jobs, ends=ends, kept=kept, queue=queue, runs=runs)
        await ask("look at Slurm", take)

    def _ends_of(self, gone: Iterable[int]) -> dict[int, SlurmEnd]:
        """The ends of jobs that are shown no more, as accounting has them; those it does not have are left out."""
        ids = {job_number(number): number for number in gone}
        try:
            text = self._looks.commands.ends(list(ids))
        except SlurmError as error:
            log.info("%d jobs are shown no more, and their ends are unknown: %s", len(ids), error)
            return {}
        return {ids[job_id]: end for job_id, end in _read_ends(text) if job_id in ids}

    def _take_jobs(
        self,
        scheduler: Scheduler,
        jobs: Mapping[int, SlurmJob],
        ends: Mapping[int, SlurmEnd],
        kept: Mapping[int, str],
        queue: Queue,
        runs: Mapping[int, int],
    ) -> None:
        """runs: of jobs that were over already, how many they had."""
        observed, passed = scheduler.observed, self._passed or set()
        for number, job in list(scheduler.ledger.jobs.items()):
            seen = jobs.get(number)
            if seen is None:
                end = ends.get(number)
                if end is not None and end.started_at is not None and job.run is None:
                    places = [(next(iter(scheduler.ledger.nodes)), job.spec.max_units)]
                    observed.started(number, places, end.started_at)
                how, at, text = ("lost", scheduler.now_at, _UNKNOWN) if end is None else end.as_event
                observed.ended(number, how, at, text)
            elif job.run is not None and (seen.waits or seen.submit_at > (job.run.started_at or math.inf)):
                observed.ended(number, "requeued", seen.submit_at, "Slurm has requeued it")
        for number, seen in sorted(jobs.items(), key=lambda each: (each[1].submit_at, each[0])):
            job = scheduler.ledger.jobs.get(number)
            was_over = job is None and (number in passed or number in runs)
            if was_over and seen.is_over:
                continue
            spec = spec_of(seen, queue, self._observation.names)
            if job is None:
                array, place = parts_of(seen.id.partition("+")[0])
                element = None if place is None else Element(array, place)
                user = self._observation.names.of(seen.user)
                observed.submitted(number, spec, user, seen.submit_at, element, runs.get(number, 0))
            elif job.run is None and seen.waits and spec != job.spec:
                observed.changed(number, spec)
            if seen.waits and not math.isnan(seen.start_at):
                observed.planned(number, seen.start_at)
            if seen.runs or (seen.is_over and seen.hosts):
                self._start(scheduler, number, seen, queue)
            if seen.is_over:
                at = scheduler.now_at if math.isnan(seen.end_at) else seen.end_at
                observed.ended(number, *SlurmEnd(seen.state, None, at).as_event)
        observed.keep({number: why for number, why in kept.items() if jobs[number].waits})

    def _start(self, scheduler: Scheduler, number: int, seen: SlurmJob, queue: Queue) -> None:
        """Let a job have started, if that is news."""
        nodes = scheduler.ledger.nodes
        share = max(1, seen.cpus // max(1, len(seen.hosts)))  # of one that is over already
        on = queue.held.get(seen.id) or dict.fromkeys(seen.hosts, share)
        places = [(name, units) for name, units in on.items() if name in nodes]
        if places and scheduler.ledger.jobs[number].run is None:
            scheduler.observed.started(number, places, seen.start_at)

    async def _promise(self, queue: Queue) -> None:
        """Promise an end to the jobs of the last look that have no promise."""
        while self._promises.late:  # those of jobs that queue now
            await asyncio.sleep(A_MOMENT_S)
        jobs = self._controller.scheduler.ledger.jobs
        ids = map(str, queue.workload.job_id.tolist())
        numbers = [
            number
            for job_id in ids
            if job_id not in queue.unforeseen
            and (number := number_of(job_id)) in jobs
            and jobs[number].promised_finish_at is None
            and (jobs[number].account is not None or job_id in queue.dependencies.after)
        ]
        if numbers:
            await self._promises.make(numbers)


def spec_of(job: SlurmJob, queue: Queue, names: Names) -> JobSpec:
    """A job as a request here: CPUs are its units."""
    units = sum(queue.held.get(job.id, {}).values()) or job.cpus
    require = {name: "yes" for name in job.partitions if is_label(name, "yes")}
    return JobSpec(
        command=[OF_SLURM],  # what it runs is not seen
        name=names.of(job.name),
        min_units=units,
        max_units=units,
        estimate_s=queue.planned[job.id],
        time_limit_s=queue.planned[job.id],
        grace_s=0.0,
        labels={OF_SLURM: job.id, "partition": ",".join(job.partitions)},
        require=require if len(require) == len(job.partitions) == 1 else {},
    )


_UNKNOWN = "Slurm shows it no more, and how it ended is unknown"


@dataclass(frozen=True)
class SlurmEnd:
    """The end of a job, as accounting has it; seconds since 1970."""

    state: str
    started_at: float | None
    ended_at: float

    @property
    def as_event(self) -> tuple[Literal["finished", "failed", "cancelled", "time-limit"], float, str]:
        """How, when, and in words."""
        return (
            _ENDED.get(self.state, "failed"),
            self.ended_at,
            f"Slurm: {self.state.lower().replace('_', ' ')}",
        )


def _read_ends(text: str) -> Iterable[tuple[str, SlurmEnd]]:
    """Jobs that are over, of lines `id|state|start|end`."""
    for line in text.split("\n"):
        found = re.fullmatch(r"([0-9_+]{1,40})\|([A-Z_]{1,40})[^|]*\|([^|]*)\|(\d{1,11})", line, re.ASCII)
        if found is not None:
            started = float(found[3]) if re.fullmatch(r"\d{1,11}", found[3], re.ASCII) else None
            yield found[1], SlurmEnd(found[2], started, float(found[4]))


def _take_nodes(scheduler: Scheduler, machines: Machines) -> None:
    """Nodes come, go, and take jobs or not, as Slurm has it."""
    known = scheduler.ledger.nodes
    there = machines_of_slurm(machines)
    scheduler.nodes.add_all([machine for machine in there if machine.name not in known], "slurm")
    for machine in there:
        if known[machine.name].machine != machine:
            scheduler.nodes.change(machine)
        is_open = machines.nodes[machine.name].is_open
        if is_open != (known[machine.name].status == UP):
            scheduler.nodes.set_status(machine.name, UP if is_open else DRAINING, "slurm")
    for name in [
        name for name, node in known.items() if node.machine.kind == KIND and name not in machines.nodes
    ]:
        if not scheduler.occupancy.runs_on(name):
            scheduler.nodes.left(name)


def looks_of(folder: str | None) -> Looks:
    """Looks by the commands of a folder, or of PATH."""
    from pathlib import Path

    return Looks(Commands(None if folder is None else Path(folder)))
