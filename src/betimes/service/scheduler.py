"""The service's decisions, without a clock, a socket, a database or a process.

Whatever happens outside is told by a method; `turn` lets the policy decide. What comes of it is a list of events, to
be stored, and of effects, to be carried out once they are: the ledger has seen the events already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from betimes.errors import Conflict, Unknown
from betimes.service import reasons
from betimes.service.agenda import Agenda
from betimes.service.building import Built, Settings, build, kind_of
from betimes.service.effects import DropRun, Effect, ResizeRun, StartRun, StopRun
from betimes.service.engines.moves import (
    Grant,
    Happened,
    Held,
    Move,
    Nominate,
    Outrun,
    Play,
    Reserve,
    Round,
    Tell,
)
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.speedups import Speedups
from betimes.service.events import Event
from betimes.service.executors.protocol import Ended, RunId, Started
from betimes.service.job import Job, Places
from betimes.service.ledger import Ledger
from betimes.service.machines.machine import Machine
from betimes.service.node import DRAINED, DRAINING, LOST, UP, Node
from betimes.service.pace import Pace, differs
from betimes.service.possible import check_possible
from betimes.service.rooms import Rooms
from betimes.service.spec import JobSpec, parse_after, parse_array
from betimes.service.views import Status
from betimes.service.wanted import wanted_for, wanted_of

FindStatus = Callable[[int], str | None]
"""How a job that is over ended; null: there was none of that number."""


class Scheduler:
    """One cluster under one policy. Instants are seconds since 1970 (`_at`); engines count from `ledger.epoch_at`."""

    def __init__(self, ledger: Ledger, find_status: FindStatus, settings: Settings | None = None) -> None:
        self.ledger, self.find_status = ledger, find_status
        self.settings = settings or Settings()
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.touched: dict[int, Job] = {}  # jobs whose rows have changed
        self.runs: list[dict[str, Any]] = []  # rows of runs that have changed
        self.now_at = ledger.last_at
        self.pending = Happened()
        self.rooms = Rooms(ledger)
        self.agenda = Agenda()
        for job in ledger.jobs.values():
            self.agenda.note(job)
        self.resizing: dict[RunId, int] = {}  # runs that are being told another width
        self.paces: dict[int, Pace] = {}
        self.curves = Speedups()
        self.version = (
            0  # grows when who starts or finishes when may be different from what was last foreseen
        )
        self.quiet: dict[str, Any] = {}  # why the last decision did nothing
        self.built: Built | None = None

    @property
    def engine(self) -> Any:
        """The engine of the policy in force."""
        if self.built is None:
            raise Conflict("no policy is set yet")
        return self.built.engine

    @property
    def now_s(self) -> float:
        """The present instant to the engine."""
        return self.now_at - self.ledger.epoch_at

    def next_timer_at(self) -> float:
        """When `turn` wants to be called if nothing happens before; infinity: never."""
        timer_s = self.engine.next_timer_s() if self.built else math.inf
        timer_at = timer_s + self.ledger.epoch_at
        while timer_at - self.ledger.epoch_at < timer_s:  # rounded: it would be too early then
            timer_at = math.nextafter(timer_at, math.inf)
        return min(timer_at, self.agenda.next_delay_at())

    # --- what happens outside -----------------------------------------------------------------------------------

    def begin(self, now_at: float) -> None:
        """It is `now_at`, which is never earlier than before: timers that are over go off first."""
        self.now_at = max(self.now_at, now_at)
        if self.built is not None:
            self._note(self.engine.catch_up(self.now_s))

    def open(self, policy: str, epoch_at: float) -> None:
        """The first start ever: under this policy, with whatever nodes have been added."""
        self._log("opened", "operator", epoch_at=epoch_at)
        self.set_policy(policy, "operator")

    def recover(self) -> None:
        """After a start: the engine is made of the ledger, and the policy looks at it anew."""
        self._rebuild(self.ledger.policy)
        self._log("recovered", "recovery")
        for job in list(self.ledger.jobs.values()):
            self._admit(job)
        self.pending.look = True

    def check(self, spec: JobSpec) -> None:
        """Raise Refused or Unknown for a job that cannot be taken."""
        check_possible(spec, self.ledger.nodes, self.built.kind if self.built else "pool")
        for after in spec.after:
            number, _ = parse_after(after)
            if number not in self.ledger.jobs and self._ended_as(number) is None:
                raise Unknown(
                    f"after: there is no job {number}; a job waits for one that was submitted before it"
                )

    def find(self, number: int) -> None:
        """Raise Unknown for a job that never was."""
        if number not in self.ledger.jobs and self._ended_as(number) is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")

    def submit(self, spec: JobSpec, user: str, held: bool = False) -> list[int]:
        """Take a job, or an array of them; returns the numbers. Raises Refused, Unknown."""
        check_possible(spec, self.ledger.nodes, self.built.kind if self.built else "pool")
        for after in spec.after:
            number, _ = parse_after(after)
            if number not in self.ledger.jobs and self._ended_as(number) is None:
                raise Unknown(
                    f"after: there is no job {number}; a job waits for one that was submitted before it"
                )
        indices, most = parse_array(spec.array) if spec.array else ([None], 0)
        first = self.ledger.next_job
        believed = self.ledger.run_times.believed(user, spec.title, spec.told_s)
        each = spec.model_copy(update={"array": None}) if spec.array else spec
        text = each.model_dump(mode="json", exclude_defaults=True)
        numbers: list[int] = []
        follows = next((n for n, _ in map(parse_after, spec.after) if self._ended_as(n) is None), None)
        for at, index in enumerate(indices):
            number = self.ledger.next_job
            data: dict[str, Any] = {
                "spec": text,
                "user": user,
                "believed_s": believed.seconds,
                "basis": believed.basis,
            }
            if spec.array:
                data |= {"array_id": first, "array_index": index, "array_most": most}
            if follows is not None:
                data["reason"] = reasons.after(follows)
            elif most and at >= most:
                data["reason"] = reasons.array(first, most)
            job = self._log("submitted", f"user:{user}", number, **data)
            numbers.append(number)
            if held and job is not None:
                self._log("held", f"user:{user}", number, reason=reasons.by_user(user))
        for number in numbers:
            self._admit(self.ledger.jobs[number])
        return numbers

    def may(self, what: Literal["cancel", "hold", "release"], number: int) -> Job:
        """The job, if that can be done with it now. Raises Unknown, Conflict."""
        job = self._job(number, {"cancel": "cancelled", "hold": "held", "release": "released"}[what])
        if what == "hold" and job.status not in (Status.HELD, Status.QUEUED, Status.BLOCKED):
            raise Conflict(f"job {number} is {job.status.value} and cannot be held; cancel it instead")
        if what == "release" and job.status is not Status.HELD:
            raise Conflict(f"job {number} is {job.status.value}, not held; there is nothing to release")
        return job

    def cancel(self, number: int, user: str) -> None:
        """End a job. Raises Unknown, Conflict."""
        job = self.may("cancel", number)
        self._log("cancel-asked", f"user:{user}", number)
        if job.run is not None and job.run.launched:
            self._stop(job, "cancelled", f"user:{user}")
            return
        self._leave_engine(job)
        self._log("cancelled", f"user:{user}", number, reason=reasons.cancelled(user))
        self._after(job)

    def hold(self, number: int, user: str) -> None:
        """Keep a job from starting. Raises Unknown, Conflict."""
        job = self.may("hold", number)
        if job.status is Status.HELD:
            return
        self._leave_engine(job)
        self._log("held", f"user:{user}", number, reason=reasons.by_user(user))
        self._make_way(job)

    def release(self, number: int, user: str) -> None:
        """Let a held job start. Raises Unknown, Conflict."""
        job = self.may("release", number)
        self._log("released", f"user:{user}", number)
        self._admit(job)

    def started(self, report: Started) -> None:
        """The executor says that a run's command runs."""
        job = self._running(report.run)
        if job is None or job.run is None or job.run.started_at is not None:
            return
        self._log("started", "executor", job.job_id, number=report.run.number, adopted=report.adopted)
        pace = self.paces.setdefault(job.job_id, Pace())
        pace.begin(self.now_at, self._speed(job))
        self._run_row(job)

    def ended(self, report: Ended) -> None:
        """The executor says that nothing of a run is left."""
        job = self._running(report.run)
        if job is None or job.run is None:
            return
        run, asked = job.run, job.run.stopping
        outcome = {"stopped": asked or "stopped"}.get(report.why, report.why)
        self._run_row(job, report, outcome)
        self._log(
            "ended",
            "executor",
            job.job_id,
            number=run.number,
            outcome=outcome,
            exit_code=report.exit_code,
            signal=report.signal,
            message=report.message,
        )
        self.rooms.leave(report.run)
        self.resizing.pop(report.run, None)
        if asked == "cancelled":
            self._over(job, "cancelled", reasons.cancelled(None))
        elif report.why == "lost" and asked is None:
            self._lose(job, reasons.lost(report.message))
        elif report.why in ("stopped", "lost"):
            self._stopped(job)
        elif report.exit_code == 0 and report.why == "exited":
            self._finish(job)
        elif report.why == "exited" and job.failures < job.spec.retries:
            self._retry(job, report)
        else:
            self._over(
                job, "failed", reasons.failed(report.why, report.exit_code, report.signal, report.message)
            )

    def progressed(self, number: int, attempt: int, done: float, total: float) -> None:
        """A run says how far it has come. Raises Unknown, Conflict."""
        job = self._job(number, "told about")
        if job.run is None or job.run.number != attempt:
            raise Conflict(
                f"job {number}, attempt {attempt} is over; only the present attempt reports progress"
            )
        left_s = self.paces.setdefault(number, Pace()).report(self.now_at, done, total)
        frac = min(1.0, done / total)
        if job.progress_frac is None or abs(frac - job.progress_frac) >= 0.001:
            job.progress_frac = frac
            self.touched[number] = job
        if left_s is None or job.account is None or job.status is not Status.RUNNING:
            return
        if self.built is not None and self.built.kind == "nodes":
            left_s /= self._speed(job)
        if differs(left_s, self._believed_left(job)):
            self.pending.believed.append((number, left_s))

    def add_node(self, machine: Machine, cause: str, status: str = UP) -> None:
        """A node is there from now on. Raises Conflict for a name that is taken."""
        known = self.ledger.nodes.get(machine.name)
        if known is not None and known.status != LOST:
            raise Conflict(f"there is a node {machine.name} already, and it is {known.status}")
        self._log("node-added", cause, node=machine.name, **Node(machine, status).to_json())
        self._nodes_changed()

    def change_node(self, machine: Machine) -> None:
        """A node has come back with more or less than it had."""
        status = self.ledger.nodes[machine.name].status
        self._log("node-added", "operator", node=machine.name, **Node(machine, status).to_json())
        self._rebuild(self.ledger.policy)
        self.pending.look = True

    def set_node(self, name: str, status: str, cause: str) -> None:
        """A node is up, drains, or is lost. Raises Unknown, Conflict."""
        node = self.ledger.nodes.get(name)
        if node is None:
            raise Unknown(f"there is no node {name!r}; `betimes nodes` lists them")
        if node.status == LOST and status != UP:
            raise Conflict(f"node {name} is lost")
        if status == DRAINING and not self.rooms.runs_on(name):
            status = DRAINED
        if node.status == status:
            return
        self._log("node-is", cause, node=name, status=status)
        if status != UP:
            self._keep_off(name)
        if status == LOST:
            for run in self.rooms.runs_on(name):
                job = self._running(run)
                if job is not None and job.run is not None:
                    asked = job.run.stopping
                    self._run_row(job, Ended(run, self.now_at, None, why="lost"), "node-lost")
                    self._log("ended", "timer", job.job_id, number=run.number, outcome="node-lost")
                    self.rooms.leave(run)
                    self.resizing.pop(run, None)
                    self.effects.append(DropRun(run))
                    if asked == "cancelled":
                        self._over(job, "cancelled", reasons.cancelled(None))
                    else:
                        self._lose(job, reasons.node_lost(name))
        self._nodes_changed()

    def _keep_off(self, name: str) -> None:
        """Jobs that were to start on a node that takes none any more wait for others."""
        for job in list(self.ledger.jobs.values()):
            bound = (job.binding or {}).get("places", ()) if "owed" in (job.binding or {}) else ()
            if job.run is not None and not job.run.launched and any(where == name for where, _ in job.places):
                self.engine.lose(job.job_id, self.now_s)
                account = self._account(job.job_id)
                self._log("granted", "policy", job.job_id, units=0, places=[], account=account)
            elif any(where == name for where, _ in bound):
                self.engine.lose(job.job_id, self.now_s)
                self._log("unbound", "policy", job.job_id)

    def set_policy(self, text: str, user: str) -> None:
        """Decide by another policy from now on; what runs goes on. Raises PolicyError."""
        kind, _ = kind_of(text)
        before = self.ledger.policy or None
        self._settle_up()
        if self.built is not None and kind != self.built.kind:
            self._hand_over(kind)
        self._rebuild(text, before)
        accounts = {
            str(number): asdict(account)
            for number, account in (self.built.accounts if self.built else {}).items()
        }
        self._log(
            "policy-set", f"user:{user}" if user != "operator" else user, policy=text, accounts=accounts
        )
        self.pending.look = True

    # --- the decision -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let the policy decide about what has happened."""
        self._wake_up()
        what, self.pending = self.pending, Happened()
        rounds: list[Round] = self.engine.happen(self.now_s, what)
        for wanted in what.wanted:
            self.agenda.entering.discard(wanted.job)
            account = asdict(self.engine.account(wanted.job))
            job = self.ledger.jobs[wanted.job]
            self._log(
                "queued", "policy", wanted.job, account=account, believed_s=job.believed_s, basis=job.basis
            )
        for number, _ in what.believed:
            if number in self.ledger.jobs:
                self._log("believed", "progress", number, account=self._account(number), basis="progress")
        for number in what.gone:
            self._log_waits(self.ledger.jobs[number])
        self._note(rounds)
        self._launch()

    def take(self) -> tuple[list[Event], list[Effect], list[dict[str, Any]], list[dict[str, Any]]]:
        """What has come of it since the last time: events, effects, rows of jobs, and rows of runs."""
        rows = [job.row() for job in self.touched.values()]
        taken = self.events, self.effects, rows, self.runs
        for job in [job for job in self.touched.values() if job.status.is_over]:
            if job.job_id in self.ledger.jobs:
                self.ledger.forget(job)
            self.paces.pop(job.job_id, None)
        self.events, self.effects, self.touched, self.runs = [], [], {}, []
        return taken

    def foresee(self, now_at: float, spec: JobSpec | None = None, user: str = "") -> tuple[Play, str]:
        """The state to be played forward in any thread; with one more job, number 0, and what its run time rests on."""
        now_s = max(now_at, self.now_at) - self.ledger.epoch_at
        if spec is None:
            return self.engine.foresee(now_s), ""
        self.check(spec)
        believed = self.ledger.run_times.believed(user, spec.title, spec.told_s)
        return self.engine.foresee(now_s, wanted_for(0, spec, believed.seconds)), believed.basis

    def quoted(self, quote: dict[str, Any]) -> int:
        """A job has been promised something; returns the quote's number."""
        number = self.ledger.next_event
        self._log(
            "quoted",
            "policy",
            quote["job_id"],
            quote={**quote, "quote_id": number},
            finish_at=quote["finish_at"],
        )
        return number

    def _note(self, rounds: Iterable[Round]) -> None:
        """Log what the policy has decided."""
        for one in rounds:
            for move in one.moves:
                self._moved(move)

    def _moved(self, move: Move) -> None:
        job = self.ledger.jobs[move.job]
        if isinstance(move, Outrun):
            self._log(
                "believed", "timer", move.job, account=self._account(move.job), basis="doubled", outran=True
            )
        elif isinstance(move, Tell):
            self._log_told(
                job, "preempted", "policy", move.leave_by_s + self.ledger.epoch_at, move.makes_room_for
            )
            self.effects.append(
                StopRun(RunId(job.job_id, job.attempt), move.leave_by_s - self.now_s, "preempted")
            )
        elif isinstance(move, Nominate):
            places = self._named(move.places)
            self._log("nominated", "policy", move.job, places=places, owed=[list(one) for one in move.owed])
        elif isinstance(move, Reserve):
            if move.start_s < math.inf:
                self._log(
                    "reserved", "policy", move.job, places=self._named(move.places), start_s=move.start_s
                )
            elif job.binding is not None:
                self._log("unbound", "policy", move.job)
        else:
            self._granted(job, move)

    def _granted(self, job: Job, move: Grant) -> None:
        places = self._named(move.places)
        self._log(
            "granted", "policy", move.job, units=move.units, places=places, account=self._account(move.job)
        )
        run = job.run
        if run is None or not run.launched or run.stopping is not None:
            return
        if move.units == 0:
            self._stop(job, "preempted", "policy")

    def _launch(self) -> None:
        """Carry out what there is room for: those that are told to leave have theirs until they have left."""
        granted = [self.ledger.jobs[number] for number in sorted(self.agenda.unsettled)]
        for job in granted:
            run = job.run
            if run is not None and run.launched and run.stopping is None and run.units > job.units:
                self._resize(job, RunId(job.job_id, run.number))
        for job in granted:
            run = job.run
            if run is not None and run.launched and run.stopping is None and run.units < job.units:
                self._resize(job, RunId(job.job_id, run.number))
            if run is None or run.launched:
                continue
            places = self.rooms.enter(RunId(job.job_id, run.number), job)
            if places is None:
                continue
            self._log("launched", "policy", job.job_id, number=run.number, units=job.units, places=places)
            self._run_row(job)
            self.effects.append(StartRun(RunId(job.job_id, run.number)))

    def _resize(self, job: Job, run: RunId) -> None:
        """Let a run have the width that its job has been granted, if there is room for it."""
        if self.resizing.get(run) == job.units:
            return
        kinds = {self.ledger.nodes[name].machine.kind for name, _ in job.places}
        places = self.rooms.resize(run, job, at_once="local" not in kinds)
        if places is not None:
            self.resizing[run] = job.units
            self.effects.append(ResizeRun(run, job.units, places))

    def resized(self, run: RunId, units: int, places: Places, done: bool) -> None:
        """The executor has told a run its new width, or says that it must be restarted for it."""
        job = self._running(run)
        if self.resizing.get(run) == units:
            del self.resizing[run]
            if done and job is not None:
                self.rooms.settle(run, places)
        if job is None or job.run is None or job.run.stopping is not None:
            return
        if not done:
            self._stop(job, "resized", "policy")
            return
        self._log("resized", "executor", job.job_id, number=run.number, units=units, places=places)
        if (pace := self.paces.get(job.job_id)) is not None:
            pace.resize(self.now_at, self._speed(job))
        self._run_row(job)

    # --- what becomes of a job ----------------------------------------------------------------------------------

    def _admit(self, job: Job) -> None:
        """Queue a job that has nothing left to wait for but the policy; end one whose wait is in vain."""
        if job.status is not Status.BLOCKED or job.job_id in self.agenda.entering:
            return
        for after in job.spec.after:
            number, on = parse_after(after)
            ended = self._ended_as(number)
            if ended is None:
                self._blocked(job, reasons.after(number))
                return
            if on == "ok" and ended != Status.FINISHED.value:
                self._over(job, "cancelled", reasons.in_vain(number, ended))
                return
        if job.not_before_at > self.now_at:
            return
        if not self.agenda.has_room(job):
            self._blocked(job, reasons.array(job.array_id or 0, job.array_most))
            return
        self.agenda.enters(job)
        self.pending.wanted.append(wanted_of(job))

    def _blocked(self, job: Job, reason: dict[str, Any]) -> None:
        if job.reason != reason:
            self._log("blocked", "policy", job.job_id, reason=reason)

    def _wake_up(self) -> None:
        """Jobs whose delay before a retry is over may queue."""
        for number in self.agenda.awake(self.now_at):
            self._admit(self.ledger.jobs[number])

    def _finish(self, job: Job) -> None:
        """What it took on max_units is what the next of its name is believed to take."""
        account = self.engine.account(job.job_id)
        full = (
            self._speed(job, job.spec.max_units)
            if self.built is not None and self.built.kind == "pool"
            else 1.0
        )
        run_s = max(0.0, account.size_s - self._believed_left(job)) / full
        self._leave_engine(job)
        self._log("finished", "executor", job.job_id, run_s=run_s)
        self._after(job)

    def _over(self, job: Job, kind: str, reason: dict[str, Any] | None) -> None:
        self._leave_engine(job)
        self._log(kind, "executor" if kind != "cancelled" else "operator", job.job_id, reason=reason)
        self._after(job)

    def _after(self, job: Job) -> None:
        """Whoever waited for this job may go on."""
        for number in self.agenda.followers(job.job_id):
            self._admit(self.ledger.jobs[number])
        self._make_way(job)
        for name, node in self.ledger.nodes.items():
            if node.status == DRAINING and not self.rooms.runs_on(name):
                self._log("node-is", "executor", node=name, status=DRAINED)

    def _make_way(self, job: Job) -> None:
        """One element less of its array is at work."""
        if job.array_most and job.array_id is not None:
            for number in self.agenda.next_of_array(job.array_id, job.array_most):
                if number in self.ledger.jobs:
                    self._admit(self.ledger.jobs[number])

    def _retry(self, job: Job, report: Ended) -> None:
        delay_s = job.spec.backoff_s * 2.0**job.failures
        reason = reasons.retry(job.failures + 1, job.spec.retries, report.exit_code, report.signal, delay_s)
        self._leave_engine(job)
        not_before_at = self.now_at + max(delay_s, 1e-3)
        self._log("retries", "executor", job.job_id, not_before_at=not_before_at, reason=reason)
        self._make_way(job)

    def _stopped(self, job: Job) -> None:
        """A run that was told to stop has: the job goes on later, at once if it has been granted units again."""
        if self.built is not None and self.built.kind == "nodes":
            self.pending.gone.append(job.job_id)
        else:
            self._log_waits(job)

    def _lose(self, job: Job, reason: dict[str, Any]) -> None:
        """A run is gone and nobody has decided so: the job waits again, at its place."""
        self.engine.lose(job.job_id, self.now_s)
        self.pending.look = True
        self._log_waits(job, reason)

    def _log_waits(self, job: Job, reason: dict[str, Any] | None = None) -> None:
        """The job waits; in a pool, it may have been granted units again before it had left."""
        keeps = reason is None and self.built is not None and self.built.kind == "pool" and job.units > 0
        why, account = reason or job.reason, self._account(job.job_id)
        self._log("waits", "executor", job.job_id, account=account, keeps_units=keeps, reason=why)

    def _stop(self, job: Job, why: str, cause: str) -> None:
        run = job.run
        if run is None:
            return
        again = run.stopping is not None
        self._log_told(job, why, cause, self.now_at + job.spec.grace_s if not again else run.stop_by_at, None)
        if not again:
            self.effects.append(StopRun(RunId(job.job_id, run.number), job.spec.grace_s, why))

    def _log_told(self, job: Job, why: str, cause: str, by_at: float | None, room_for: int | None) -> None:
        data: dict[str, Any] = {"why": why, "stop_by_at": by_at, "reason": reasons.told(why, by_at, room_for)}
        if room_for is not None:
            data["makes_room_for"] = room_for
        if job.account is not None and job.job_id in self.engine.slot_of:
            data["account"] = self._account(job.job_id)
        self._log("told", cause, job.job_id, **data)

    def _leave_engine(self, job: Job) -> None:
        number, pending = job.job_id, self.pending
        if number in self.agenda.entering:
            pending.wanted = [wanted for wanted in pending.wanted if wanted.job != number]
            self.agenda.entering.discard(number)
        pending.believed = [one for one in pending.believed if one[0] != number]
        pending.gone = [one for one in pending.gone if one != number]
        if job.account is not None:
            pending.done.append(number)

    # --- small things -------------------------------------------------------------------------------------------

    def _log(
        self, kind: str, cause: str, job: int | None = None, node: str | None = None, **data: Any
    ) -> Job | None:
        event = Event(self.ledger.next_event, self.now_at, kind, cause, job, node, data)
        changed = self.ledger.apply(event)
        self.events.append(event)
        if kind != "quoted":
            self.version += 1
        if changed is not None:
            self.touched[changed.job_id] = changed
            self.agenda.note(changed)
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
        return self.curves.speed(wanted_of(job), held)

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
            self.settings,
            epoch_at=self.ledger.epoch_at,
        )

    def _nodes_changed(self) -> None:
        """Nodes have come or gone: the engine is made anew, and everybody is looked at."""
        if self.built is None:
            return
        if isinstance(self.engine, LiveNodes) and list(self.ledger.nodes) == self.built.nodes:
            for number, node in enumerate(self.ledger.nodes.values()):
                self.engine.open_node(number, node.status == UP)
        else:
            self._settle_up()
            self._rebuild(self.ledger.policy)
        self.pending.look = True

    def _settle_up(self) -> None:
        """Before there is another engine: what has happened to this one, without its deciding anything any more."""
        pending = self.pending
        for number in pending.gone:
            self.engine.lose(number, self.now_s)
            self._log_waits(self.ledger.jobs[number])
        pending.gone, pending.done, pending.believed = [], [], []  # who reports progress will do so again

    def _hand_over(self, kind: str) -> None:
        """Before an engine of another kind takes over: what is granted is what is held, as nodes know no difference."""
        for job in list(self.ledger.jobs.values()):
            run, units, places = job.run, job.units, job.places
            if job.binding is not None:
                self._log("unbound", "policy", job.job_id)
            if job.account is None or (run is None and units == 0):
                continue
            if kind == "pool" and run is not None and run.stopping is not None:
                units, places = 0, []
            elif kind == "nodes" and run is not None:
                units, places = (run.units, run.places) if run.launched else (0, [])
            if units != job.units or places != job.places:
                account = self._account(job.job_id)
                self._log("granted", "policy", job.job_id, units=units, places=places, account=account)

    def _run_row(self, job: Job, report: Ended | None = None, outcome: str | None = None) -> None:
        run = job.run
        if run is None:
            return
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
            }
        )
