"""A copy of the whole scheduler, played forward as if nothing more were submitted and all jobs ended when expected to.

A play-out of the engine (`promises`) is quicker, and knows only the jobs that the policy knows. Here arrays,
dependencies, sets of trials, stopping runs and booting nodes take their course too, since the same scheduler decides,
under a virtual clock. So may changes: that is what `what-if` asks about. Once nothing is left to come but the policy's
decisions (`Scheduler.is_left_to_policy`), a play-out of the copy's engine tells the rest.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from betimes.cluster import Offer
from betimes.foresight.engines import NODES
from betimes.foresight.run_times import HALF
from betimes.service.engines.messages import Foreseen
from betimes.service.executors.protocol import FORCE_AFTER_S, Launch
from betimes.service.executors.virtual import VirtualWorld
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.machine import Machine
from betimes.service.runtime.inbox import Request, in_order
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.effects import (
    DropRun,
    Effect,
    GiveBack,
    OrderMachine,
    RentMachines,
    ResizeRun,
    StartRun,
    StopRun,
)
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import BOOTING, NODE, Node, charged_usd
from betimes.service.scheduling.policy_engine import LATE_S
from betimes.service.scheduling.scheduler import Scheduler, WorkLeft
from betimes.twin.pool.virtual_jobs import VirtualJob
from betimes.units import S_PER_H

ROUNDED = 2  # last bits of an instant, by which an end and the timer of its job's belief may differ
TURNS_A_JOB = 50  # at most, and
MOST_TURNS = 10_000  # so many more: a policy may look at its jobs for ever


class Times(NamedTuple):
    """First start and end of a job, seconds since 1970; null: never, as things stand."""

    start_at: float | None
    finish_at: float | None


class Arrival(NamedTuple):
    """Jobs that come later; submits: returns their numbers, none where they are refused."""

    at: float
    submits: Request[list[int]]


class Played(NamedTuple):
    """A play that is over: by job, its times; the jobs that were there; the numbers of each arrival's jobs."""

    times: Mapping[int, Times]
    jobs: Mapping[int, Job]
    arrived: Sequence[Sequence[int]]
    never: int  # jobs, trials aside, that are not done in the end
    cost_usd: float | None
    """Of all machines with a known price, until the last job was done; null: no price is known."""


class Rehearsal:
    """One play of a copy, in any thread.

    at_once: stopped runs have left at once; else after their grace period. jobs: all that are there at some time;
    times: theirs, so far. arrived: the numbers of each arrival's jobs. Of jobs that the changes submit, earliest_at is
    the instant before which they certainly do not begin, and `reasons` why they do not queue at once. rentals: of a
    made-up cloud; null: nothing can be rented.
    """

    def __init__(self, scheduler: Scheduler, now_at: float, at_once: bool) -> None:
        """A copy of a scheduler between two turns."""
        self._scheduler = scheduler.copied(replace(scheduler.settings, plans_aside=False))
        self.now_at, self._at_once = now_at, at_once
        self._world = self._empty_world()
        self.rentals = _rentals(self._scheduler, now_at) if scheduler.settings.offers else None
        self._left: dict[int, WorkLeft] = {}
        self.jobs = dict(self._scheduler.ledger.jobs)
        self._there = frozenset(self.jobs)
        self.arrived: list[list[int]] = []
        self.earliest_at: dict[int, float] = {}
        self.reasons: dict[int, dict[str, Any] | None] = {}
        self.times = {job.job_id: Times(job.started_at, None) for job in self.jobs.values()}
        self._gone: list[tuple[Node, float]] = []
        self._resized: list[tuple[ResizeRun, bool]] = []
        self._is_behind = False  # a run was late: others had to leave its nodes first

    def again(self) -> Rehearsal:
        """Another one of the same state, as long as this one has not been played."""
        return Rehearsal(self._scheduler, self.now_at, self._at_once)

    def unchanged(self, arrivals: Sequence[Arrival] = ()) -> Callable[[], Played]:
        """A play without changes, which is made when it is called for; this one can be played besides."""
        found = None if arrivals else self._foreseen()
        if found is not None:
            times = self._with(found)
            never = sum(each.finish_at is None for each in times.values())
            as_it_is = Played(times, dict(self.jobs), (), never, self._cost_usd(times))
            return lambda: as_it_is
        other = self.again()

        def rehearsed() -> Played:
            other.play((), arrivals)
            return other.played()

        return rehearsed

    def play(
        self,
        changes: Sequence[Request[Any]] = (),
        arrivals: Sequence[Arrival] = (),
        goes_on: Callable[[], bool] = lambda: True,
    ) -> tuple[dict[int, Times], list[Any]]:
        """Play it to the end; changes: made at its beginning. Times by job, and the results of the changes.

        arrivals: in order of time. goes_on: asked between turns. Raises what the changes raise.
        """
        scheduler, kind, coming = self._scheduler, self._scheduler.kind, deque(arrivals)
        self._is_behind = scheduler.has_unsettled
        self._resume_runs()
        if self.rentals is not None:  # what the cloud has not answered yet is asked again
            scheduler.machines.resume()
            scheduler.rentals.resume()
        results = self._turn(self.now_at, changes)
        if scheduler.kind != kind:  # work is in another unit
            self._resume_runs()
        new = [job for number, job in scheduler.ledger.jobs.items() if number not in self._there]
        self.earliest_at = {job.job_id: scheduler.earliest_at(job, self.now_at) for job in new}
        self.reasons = {job.job_id: job.reason for job in new if job.status is Status.BLOCKED}
        if not coming and (found := self._foreseen()) is not None:
            self.times = self._with(found)
            return self.times, results
        waiting = (job for job in scheduler.ledger.jobs.values() if job.job_id not in self._left)
        self._left |= scheduler.work_left(waiting)
        was_settling = self._is_settling
        for _ in range(MOST_TURNS + TURNS_A_JOB * (self._jobs_left + len(coming))):
            comes_at = coming[0].at if coming else math.inf
            rentals_at = self.rentals.next_at() if self.rentals is not None else math.inf
            at = min(self._world.next_at(), scheduler.next_timer_at(), rentals_at, comes_at)
            if self._resized:
                at = scheduler.now_at
            if at == math.inf or not (self._jobs_left or coming) or not goes_on():
                break
            if at > scheduler.now_at and scheduler.has_unsettled:
                self._is_behind = True
            come: list[Request[Any]] = []
            while coming and coming[0].at <= at:
                come.append(coming.popleft().submits)
            self.arrived += self._turn(at, come)
            if was_settling and not (self._is_settling or coming):
                was_settling = False  # it is asked once: it takes a look at all jobs
                if (found := self._foreseen()) is not None:
                    self.times = self._with(found)
                    break
        return self.times, results

    def played(self) -> Played:
        """The result, after the play."""
        jobs = [job for job in self.jobs.values() if job.set_id is None]
        never = sum(self.times[job.job_id].finish_at is None and not job.status.is_over for job in jobs)
        return Played(self.times, self.jobs, self.arrived, never, self._cost_usd(self.times))

    def _empty_world(self) -> VirtualWorld:
        return VirtualWorld(self._scheduler.restart_s, self._at_once, self._scheduler.ledger.epoch_at)

    def _resume_runs(self) -> None:
        """Let all runs of now go on."""
        self._world, jobs = self._empty_world(), self._scheduler.ledger.jobs.values()
        runs = [job for job in jobs if job.run is not None and job.run.launched]
        self._left = self._scheduler.work_left(runs)
        for job in runs:
            self._resume(job)

    @property
    def _is_settling(self) -> bool:
        """Whether runs are on their way to leave, or to another width."""
        return self._scheduler.has_leaving or bool(self._resized)

    def _foreseen(self) -> Foreseen | None:
        """The future by a play-out of the engine; null: other things than the policy's decisions matter, too."""
        scheduler = self._scheduler
        is_nodes = scheduler.kind == NODES
        if self._resized or not scheduler.is_left_to_policy:
            return None
        if self._at_once if is_nodes else scheduler.restart_s > 0.0:
            return None  # nodes are left after grace periods; of restarts in a pool a rehearsal counts fewer
        if scheduler.now_at > self.now_at and scheduler.expects_otherwise:
            return None  # what runs has grown older, and would be expected to take longer than from the beginning
        if self._is_behind and not is_nodes:
            return None  # a pool counts the work of a job from its grant on
        play = scheduler.foresee(scheduler.now_at)
        found, jobs = play(), scheduler.ledger.jobs
        if not self._at_once and any(jobs[number].spec.grace_s > 0.0 for number in found.preempted):
            return None  # to a pool they leave at once
        return found

    def _with(self, found: Foreseen) -> dict[int, Times]:
        """The times by now, completed by a play-out."""
        epoch_at, times = self._scheduler.ledger.epoch_at, dict(self.times)
        starts_at, finishes_at = (found.start_s + epoch_at).tolist(), (found.finish_s + epoch_at).tolist()
        for number, start_at, finish_at in zip(found.job, starts_at, finishes_at, strict=True):
            began_at = times[number].start_at
            times[number] = Times(_known(start_at) if began_at is None else began_at, _known(finish_at))
        return times

    @property
    def _jobs_left(self) -> int:
        ledger = self._scheduler.ledger
        return len(ledger.jobs) + ledger.arrays.count()

    def _cost_usd(self, times: Mapping[int, Times]) -> float | None:
        """Owned machines cost as long as they are there, rented ones until they are given back."""
        ends_at = [found.finish_at for found in times.values() if found.finish_at is not None]
        until_at = max(ends_at, default=self.now_at)
        machines = [(node, until_at) for node in self._scheduler.ledger.nodes.values()]
        machines += [(node, min(gone_at, until_at)) for node, gone_at in self._gone]
        costs = [self._machine_usd(*each) for each in machines if each[0].machine.usd_per_h is not None]
        return sum(costs) if costs else None

    def _machine_usd(self, node: Node, until_at: float) -> float:
        if node.rented_at is None:
            return (node.machine.usd_per_h or 0.0) * (until_at - self.now_at) / S_PER_H
        offers = self._scheduler.settings.offers
        return charged_usd(node, offers, until_at) - charged_usd(node, offers, self.now_at)

    def _turn(self, at: float, requests: Sequence[Request[Any]]) -> list[Any]:
        """Play all that is due at an instant; an end precedes the timer of its job, however both are rounded."""
        scheduler = self._scheduler
        slack_s = ROUNDED * math.ulp(scheduler.ledger.epoch_at)  # engines count from there
        ends_at = self._world.next_at()
        is_end = ends_at <= at + slack_s
        scheduler.begin(ends_at - slack_s if is_end else at)
        for report in sorted(self._world.advance(ends_at if is_end else at), key=in_order):
            scheduler.reports.take(report)
        if self.rentals is not None and self.rentals.next_at() <= scheduler.now_at:
            self.rentals.advance(scheduler)
        resized, self._resized = self._resized, []
        for effect, done in resized:
            scheduler.reports.resized(effect.run, effect.units, effect.places, done)
        results = [request(scheduler) for request in requests]
        scheduler.turn()
        self._note()
        for effect in scheduler.take_effects():
            self._carry_out(effect)
        for report in self._world.take_starts():  # which change no decision, and need no turn
            scheduler.reports.take(report)
        self._note()
        return results

    def _note(self) -> None:
        """Note what the events since the last turn say, some of them for a second time."""
        scheduler = self._scheduler
        for event in scheduler.events:
            if event.job is None:
                if event.kind == "node-gone":
                    self._gone.append((NODE.validate_python(event.data), event.at_s))
            elif event.kind == "submitted":
                self.times[event.job] = Times(None, None)
                self.jobs[event.job] = scheduler.ledger.jobs[event.job]
            elif event.kind == "started" and self.times[event.job].start_at is None:
                self.times[event.job] = Times(event.at_s, None)
            elif event.kind == "finished":
                self.times[event.job] = self.times[event.job]._replace(finish_at=event.at_s)

    def _carry_out(self, effect: Effect) -> None:
        world, now_at = self._world, self._scheduler.now_at
        if isinstance(effect, DropRun):
            world.forget(effect.run, now_at, discards=effect.discards)
        elif isinstance(effect, StartRun):
            job = self._scheduler.ledger.jobs.get(effect.run.job)
            if job is not None and job.run is not None:
                self._start(job, now_at)
        elif isinstance(effect, StopRun):
            world.note_stop(effect.run, effect.why)
            world.stop(effect.run, effect.grace_s, now_at)
        elif isinstance(effect, RentMachines | OrderMachine | GiveBack):
            self._rent(effect)
        elif isinstance(effect, ResizeRun):
            self._resized.append((effect, world.resize(effect.run, effect.units, now_at)))

    def _rent(self, effect: RentMachines | OrderMachine | GiveBack) -> None:
        assert self.rentals is not None, "only what is offered is rented and given back"
        match effect:
            case RentMachines(job, type_, count):
                self.rentals.order(self._scheduler, job, type_, count)
            case OrderMachine(type_, move):
                self.rentals.order_shared(self._scheduler, type_, move)
            case GiveBack(node):
                self.rentals.give_back(node, self._scheduler.now_at)

    def _resume(self, job: Job) -> None:
        """A run of before goes on, for as long as it is believed to."""
        assert job.run is not None
        self._start(job, self._left[job.job_id].since_at)
        if job.run.started_at is not None:
            self._world.reports.pop()
        if job.run.stopping is not None:
            left_s = (job.run.stop_by_at or 0.0) - self.now_at
            run = RunId(job.job_id, job.run.number)
            self._world.stop(run, left_s if left_s > 0.0 else FORCE_AFTER_S, self.now_at)

    def _start(self, job: Job, at: float) -> None:
        """A run begins; what its job is expected to have left is its true work, in the engine's unit."""
        assert job.run is not None
        if job.job_id not in self._world.jobs:
            speeds = self._scheduler.speeds(job)
            left = self._left.get(job.job_id)
            # It may start in the first turn, before the rest is known.
            if left is None and job.job_id in self._there:
                left = self._scheduler.work_left([job]).get(job.job_id)
            if left is not None:
                work_s = left.work_s
            else:
                grid = self._scheduler.ledger.promise_errors.expected(job, at)
                run_s = job.runtime_estimate_s if grid is None else float(grid[HALF])
                work_s = run_s * speeds[job.spec.max_units]
            self._world.jobs[job.job_id] = VirtualJob(work_s, speeds, self._world.restart_s)
        pace = self._scheduler.pace(job)
        self._world.start(_launch(RunId(job.job_id, job.run.number), job.run.units, pace), at)


def _known(at: float) -> float | None:
    return at if math.isfinite(at) else None


def _rentals(scheduler: Scheduler, now_at: float) -> Rentals:
    """A made-up cloud with the machines that are held: each boots in its expected time, and none is taken away."""
    settings = scheduler.settings
    offers = {offer.type: _without_chance(offer) for offer in settings.offers}
    boots = {name for name, node in scheduler.ledger.nodes.items() if node.status == BOOTING}

    def open_cloud(held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> FakeCloud:
        cloud = FakeCloud(offers.values(), quota=settings.quota)
        asked = list[tuple[Machine, float]]()
        for machine, asked_at in held:
            offer = offers[machine.type]
            late_at = now_at + LATE_S - offer.boot_s - offer.setup_s  # one that is late is up any moment
            asked.append((machine, max(asked_at, late_at) if machine.name in boots else asked_at))
        cloud.resume(asked, made)
        return cloud

    found = Rentals(open_cloud)
    found.resume(scheduler.ledger)
    return found


def _without_chance(offer: Offer) -> Offer:
    return replace(offer, usd_per_h=offer.charged_usd_per_h, spot=None, boot_sigma=0.0, boot_failure_frac=0.0)


def _launch(run: RunId, units: int, speed: float) -> Launch:
    """A run that only takes time."""
    return Launch(
        run=run, command=(), workdir="", env={}, units=units, places=(), cpu=0.0, memory_gib=0.0, gpu=0.0, grace_s=0.0,
        folder="", checkpoint_dir="", control="", identity="", speed=speed,
    )  # fmt: skip
