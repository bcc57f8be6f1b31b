"""A scheduler on a virtual world with everything that can go wrong: inputs at random, crashes, and what must hold."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

from betimes.errors import InputError
from betimes.service.engines.messages import Allocation
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.pool import LivePool
from betimes.service.executors.virtual import EXIT_CODE, WORK, VirtualWorld
from betimes.service.machines.machine import Machine
from betimes.service.runtime.promises import leaving
from betimes.service.scheduling.effects import (
    DropRun,
    GiveBack,
    LimitRun,
    RentMachines,
    ResizeRun,
    StartRun,
    StopRun,
    SuspendRun,
)
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended, Event, Report, RunId, Started
from betimes.service.scheduling.fold import follow, recovered
from betimes.service.scheduling.job import JOBS
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import UP
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from tests.core.nodes import invariants as of_nodes
from tests.core.pool import invariants as of_pool
from tests.service.replaying import launch_of

EPOCH_AT = 1000.0
WAITS, RUNS = (Status.HELD, Status.BLOCKED, Status.QUEUED), (Status.RUNNING, Status.STOPPING)


def machine(name: str, cores: float = 2.0, gpu: float = 0.0) -> Machine:
    # As if it were this machine, since a virtual one takes every resize at once.
    return Machine(name, "local", name.rpartition("-")[0] or "n", cores, 8.0, gpu)


def spec(work_s: float = 10.0, code: int = 0, **asked: Any) -> JobSpec:
    asked.setdefault("env", {})
    asked["env"] = {WORK: str(work_s), EXIT_CODE: str(code), **asked["env"]}
    asked.setdefault("grace_s", 3.0)
    asked.setdefault("estimate_s", work_s / asked.get("max_units", 1))
    return JobSpec(command=["job"], **{"name": "job", **asked})


class Cluster:
    """A virtual cluster; instants are seconds since its first one. Everything is checked after every turn."""

    def __init__(self, policy: str = "fifo", nodes: int = 2, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.log: list[Event] = []
        self.rows: dict[int, dict[str, Any]] = {}
        self.runs: dict[RunId, dict[str, Any]] = {}
        self.snapshots: list[bytes] = []
        self.folded = [Ledger()]  # from the log: all of it, and what follows each snapshot
        self.world = VirtualWorld(self.settings.restart_s, False, EPOCH_AT)
        self.now_at = EPOCH_AT
        self.is_compiled = True  # whatever policy is in force
        self.scheduler = self._scheduler(Ledger())
        self.scheduler.begin(self.now_at)
        for number in range(nodes):
            self.scheduler.nodes.add(machine(f"n-{number}"), "operator")
        self.scheduler.open(policy, EPOCH_AT)
        self.turn()
        self.go_on(1.0)

    def _scheduler(self, ledger: Ledger) -> Scheduler:
        def status_of(number: int) -> str | None:
            return self.rows[number]["status"] if number in self.rows else None

        return Scheduler(ledger, status_of, self.settings, lambda _: self.is_compiled)

    @property
    def ledger(self) -> Ledger:
        return self.scheduler.ledger

    def job(self, number: int) -> Any:
        return self.ledger.jobs[number]

    def status(self, number: int) -> str:
        live = self.ledger.jobs.get(number)
        return live.status.value if live is not None else str(self.rows[number]["status"])

    def story(self, number: int) -> list[str]:
        return [event.kind for event in self.log if event.job == number]

    def promise(self, number: int) -> None:
        """A promise that was asked for before something else happened."""
        quote = {
            "job_id": number,
            "made_at": self.now_at,
            "start_at": self.now_at,
            "finish_at": self.now_at + 1.0,
            "basis": "estimate",
        }
        self.scheduler.quoted(quote, self.scheduler.queue, None, self.now_at, math.nan)

    def submit(self, *specs: JobSpec, user: str = "ann") -> list[int]:
        numbers = [number for one in specs for number in self.scheduler.admission.submit(one, user)]
        self.turn()
        return numbers

    def ask(self, what: str, *args: Any) -> bool:
        """Ask the scheduler for something that it may refuse; returns whether it did it. No turn is taken."""
        try:
            attrgetter(what)(self.scheduler)(*args)
        except InputError:
            return False
        return True

    def turn(self) -> None:
        """Decide, and carry everything out, until nothing is left to do at this instant."""
        self.scheduler.turn()
        while True:
            events, effects, rows, runs, _ = self.scheduler.take()
            logged = [replace(event, data=json.loads(json.dumps(event.data))) for event in events]
            self.log += logged
            for ledger in self.folded:
                follow(ledger, logged)
            self.rows |= {row["job_id"]: row for row in rows}
            self.runs |= {RunId(run["job_id"], run["number"]): run for run in runs}
            check(self)
            if not effects:
                return
            for effect in effects:
                self._carry_out(effect)
            for report in self.world.reports:
                self.report(report)
            self.world.reports.clear()
            self.scheduler.turn()

    def _carry_out(self, effect: Any) -> None:
        if isinstance(effect, GiveBack | RentMachines):  # this cloud never answers
            return
        job = self.ledger.jobs.get(effect.run.job)
        if isinstance(effect, DropRun):
            self.world.forget(effect.run, self.now_at)
        elif job is None or job.run is None or job.run.number != effect.run.number:
            return  # it is over, or another one, since
        elif isinstance(effect, StartRun):
            self.world.start(launch_of(self.scheduler, effect.run.job), self.now_at)
        elif isinstance(effect, StopRun):
            self.world.stop(effect.run, effect.grace_s, self.now_at)
        elif isinstance(effect, LimitRun):
            self.world.limit(effect.run, effect.time_limit_s)
        elif isinstance(effect, SuspendRun):
            self.suspend(effect.run)
        elif isinstance(effect, ResizeRun):
            done = self.resizes(effect)
            self.scheduler.reports.resized(effect.run, effect.units, effect.places, done)

    def suspend(self, run: RunId) -> None:
        """Suspend a run, or let it go on."""
        job = self.ledger.jobs[run.job]
        if job.is_suspended:
            self.world.suspend(run, self.now_at)
        else:
            self.world.resume(run, job.run_limit_s, self.now_at)

    def resizes(self, effect: ResizeRun) -> bool:
        """Every other job has a handler; the others must be started again at their new width."""
        if effect.run.job % 2:
            return self.world.resize(effect.run, effect.units, self.now_at)
        return False

    def report(self, report: Report) -> None:
        if isinstance(report, Started):
            self.scheduler.reports.started(report)
        elif isinstance(report, Ended):
            self.scheduler.reports.ended(report)

    def next_at(self) -> float:
        return min(self.world.next_at(), self.scheduler.next_timer_at())

    def go_on(self, for_s: float = math.inf, most: int = 10_000) -> None:
        """Let time pass: so many seconds, or until nothing happens by itself."""
        until_at = self.now_at + for_s
        for _ in range(most):
            at = self.next_at()
            if at > until_at or at == math.inf:
                break
            assert at >= self.now_at or self.world.next_at() >= self.now_at, (
                "a timer that has gone off already"
            )
            self.arrive(max(at, self.now_at))
            self.turn()
        else:
            raise AssertionError(f"never comes to rest: {self.now_at}, next {self.next_at()}")
        if until_at < math.inf:
            self.arrive(until_at)
            self.turn()

    def arrive(self, at: float) -> None:
        """It is `at`: what has happened by then is told; no turn is taken."""
        self.now_at = at
        reports = self.world.advance(at)
        self.scheduler.begin(at)
        for report in sorted(reports, key=lambda each: (not isinstance(each, Started), each.run)):
            self.report(report)

    def crash(self, lose_world: bool = False, is_compiled: bool = True) -> None:
        """The service is killed between two turns and started again; what ran is adopted, or is lost.

        is_compiled: whether there is a policy at once; else `take_over` has it compiled.
        """
        before, self.is_compiled = self.scheduler, is_compiled
        self.now_at += 0.001  # a start takes time
        ledger = recovered(self.snapshots[-1] if self.snapshots else None, self._since_snapshot())
        for number, job in ledger.jobs.items():
            job.progress_frac = self.rows[number]["progress_frac"]
        self.scheduler = self._scheduler(ledger)
        self.scheduler.begin(self.now_at)
        self.scheduler.recover()
        same_engine(before, self.scheduler)
        for job in list(ledger.jobs.values()):
            if job.run is None or not job.run.launched:
                continue
            run, stay = RunId(job.job_id, job.run.number), self.world.stays.get(job.job_id)
            if stay is not None and stay.run == run and lose_world:
                self.world.forget(run, self.now_at)
            if stay is None or stay.run != run or lose_world:
                self.scheduler.reports.ended(Ended(run, self.now_at, None, why="node-lost", message="gone"))
            else:
                self.scheduler.reports.started(Started(run, self.now_at, adopted=True))
                if job.run.stopping is not None:
                    left_s = max(0.0, (job.run.stop_by_at or 0.0) - self.now_at)
                    self.world.stop(run, left_s, self.now_at)
        self.arrive(self.now_at)  # some have ended while the service was away
        self.turn()

    def take_over(self) -> None:
        """The policy in force is compiled."""
        self.is_compiled = True
        self.scheduler.policy.take_over()
        self.turn()

    def _since_snapshot(self) -> list[Event]:
        if not self.snapshots:
            return self.log
        after = Ledger.from_bytes(self.snapshots[-1]).next_event - 1
        return self.log[after:]

    def snapshot(self) -> None:
        self.snapshots.append(recovered(None, self.log).to_bytes())
        self.folded.append(Ledger.from_bytes(self.snapshots[-1]))


def seen(ledger: Ledger) -> dict[str, Any]:
    """What of a ledger must come back; how far a run says it has come is in its row, not in the log."""
    dumped = JOBS.dump_python(list(ledger.jobs.values()), mode="json", by_alias=True)
    jobs = {job["job_id"]: {**job, "progress_frac": None} for job in dumped}
    nodes = {name: node.to_json() for name, node in ledger.nodes.items()}
    names = ("epoch_at", "policy", "policy_since_at", "next_job", "next_event", "last_at", "rented")
    plain = {name: getattr(ledger, name) for name in names}
    return {"jobs": jobs, "nodes": nodes, "run_times": ledger.runtime_estimates.to_json(), **plain}


def check(cluster: Cluster) -> None:
    """What must hold between any two turns."""
    scheduler = cluster.scheduler
    assert [event.event_id for event in cluster.log] == [*range(1, len(cluster.log) + 1)]
    assert all(a.at_s <= b.at_s for a, b in pairwise(cluster.log))
    taken = Counter[str]()
    for job in scheduler.ledger.jobs.values():
        if job.status in (Status.QUEUED, Status.RUNNING, Status.STOPPING):
            taken.update(job.spec.resources)
    assert all(taken[name] <= there for name, there in cluster.settings.resources.items())
    engine = scheduler.engine
    if isinstance(engine, LiveNodes):
        of_nodes.check(engine.state)
    elif isinstance(engine, LivePool):
        of_pool.check(engine.state)
    same_grants(scheduler)
    for name in scheduler.ledger.nodes:
        assert min(scheduler.occupancy.free_on(name)) >= 0, (name, scheduler.occupancy.free_on(name))
    launched = {
        RunId(j.job_id, j.run.number) for j in scheduler.ledger.jobs.values() if j.run and j.run.launched
    }
    assert set(scheduler.occupancy.holdings) == launched
    holdings, jobs = scheduler.occupancy.holdings, scheduler.ledger.jobs
    for name in scheduler.ledger.nodes:
        there = [run for run, holding in holdings.items() if name in dict(holding.places)]
        assert scheduler.occupancy.runs_on(name) == there, name
        granted = {number for number, job in jobs.items() if job.run and name in dict(job.places)}
        owed = {number for number, job in jobs.items() if name in dict((job.binding or {}).get("places", ()))}
        assert [job.job_id for job in scheduler._state.meant_for(name)] == sorted(granted | owed), name
    assert leaving(scheduler.leaving_and_next, cluster.now_at) == leaving(jobs.values(), cluster.now_at)
    for number, job in scheduler.ledger.jobs.items():
        in_engine = job.status in (Status.QUEUED, *RUNS) and job.set_id is None
        assert (number in engine.slot_of) == in_engine, (number, job.status)
        if job.trials is not None:
            check_set(scheduler, number)
            continue
        assert (job.run is not None and job.run.launched) == (job.status in RUNS), (number, job)
        assert job.status in RUNS or job.run is None or job.units > 0, job
    found = json.dumps(seen(scheduler.ledger))
    for folded in cluster.folded:
        other = json.dumps(seen(folded))
        if found != other:  # then in another order, or in something
            equal(json.loads(found), json.loads(other))
    for number, job in scheduler.ledger.jobs.items():
        row = cluster.rows[number]
        for name, value in job.row().items():
            assert row[name] == value, (number, name, row[name], value)


def check_set(scheduler: Scheduler, number: int) -> None:
    """Every unit of a set is held by one of its trials, where there are so many, on the same node."""
    job = scheduler.ledger.jobs[number]
    trials = [each for each in scheduler.ledger.jobs.values() if each.set_id == number]
    assert job.run is None
    assert job.trials is not None
    assert job.trials.left == len(trials) > 0
    running = [each for each in trials if each.run is not None and each.run.launched]
    assert job.trials.running == len(running)
    assert job.status is Status.STOPPING or (job.status is Status.RUNNING) == bool(running), (job, running)
    held: Counter[str] = Counter()
    for each in trials:
        assert each.units in (0, 1)
        assert sum(units for _, units in each.places) == each.units
        held.update(dict(each.places))
    could = [each for each in trials if each.status in (Status.QUEUED, Status.RUNNING) and not each.units]
    for node, units in job.places:
        assert held[node] <= units, (number, node, held, job.places)
        assert held[node] == units or not could or scheduler.ledger.nodes[node].status != UP
    assert set(held) <= {node for node, _ in job.places}
    if job.account is not None:
        able = [each for each in trials if each.status in (Status.QUEUED, *RUNS)]
        assert job.trials.width == max(1, min(job.trials.most, len(able))), (job.trials, len(able))
        if not scheduler.stands_by:
            slot = scheduler.engine.slot_of[number]
            assert int(scheduler.engine.state.jobs[slot].max_units) == job.trials.width


def equal(one: Any, other: Any, where: str = "") -> None:
    """Say what is different, rather than all there is."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert set(one) == set(other), (where, set(one) ^ set(other))
        for name in one:
            equal(one[name], other[name], f"{where}.{name}")
    else:
        assert one == other, (where, one, other)


def same_grants(scheduler: Scheduler) -> None:
    """The ledger and the engine agree on who holds how much."""
    engine, ledger = scheduler.engine, scheduler.ledger
    for number, slot in engine.slot_of.items():
        job = ledger.jobs[number]
        if job.rental is not None and not job.rental.is_up:  # its machines are booting: it holds nothing yet
            continue
        if isinstance(engine, LiveNodes):
            held = int(engine.state.jobs[slot].max_units) if engine.state.needs[slot].holder >= 0 else 0
        elif isinstance(engine, LivePool):
            held = int(engine.state.jobs[slot].units)
        else:
            held = slot.units
        assert held == job.units, (number, job.status, f"the engine has {held}, the ledger {job.units}")
        if isinstance(engine, LiveNodes) and held:
            assert engine.jobs.tasks_of[number].units_each == job.units_per_task, (number, job.places)
            assert places_of(scheduler, number) == (job.run.places if job.run else job.places), number


def places_of(scheduler: Scheduler, number: int) -> list[tuple[str, int]]:
    """Where the tasks of a job are, as its engine has it, in units."""
    state, at = (
        scheduler.engine.state,
        int(scheduler.engine.state.needs[scheduler.engine.slot_of[number]].placed),
    )
    nodes, counts = [], []
    while at >= 0:
        nodes.append(int(state.placements[at].node))
        counts.append(int(state.placements[at].tasks))
        at = int(state.placements[at].follows)
    held = map(Allocation, nodes, scheduler.engine.jobs.tasks_of[number].units_in(counts))
    return scheduler.policy._engine.places_of(list(held))


def same_engine(before: Scheduler, after: Scheduler) -> None:
    """An engine made of the log is the one that was: grants, and accounts."""
    assert set(before.engine.slot_of) == set(after.engine.slot_of)
    same_grants(after)
    for number in before.engine.slot_of:
        one, other = before.engine.account(number).row(), after.engine.account(number).row()
        for name, value in one.items():
            if name in ("seen_events", "seen_active"):
                continue  # in the log as of when its account was written last
            if name == "since_s" and after.ledger.jobs[number].units == 0:
                continue  # it may have been given units and lost them within an instant, of which nothing is told
            assert math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-9), (number, name, one, other)
        run = after.ledger.jobs[number].run
        if run is not None and run.stopping in ("cancelled", "requeued"):
            continue  # the new engine knows when it leaves
        # Nothing is left of a job that outran its belief: an engine that stands by says 0, one with a timer less.
        left = [max(0.0, each.engine.believed_left(number, before.now_s)) for each in (before, after)]
        assert math.isclose(*left, rel_tol=1e-9, abs_tol=1e-6), (number, left)
