"""Runs: launched, resized, suspended and stopped by requests to the executors; the costs of preemptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from betimes.service.machines.machine import HERE, REAL
from betimes.service.scheduling import reasons
from betimes.service.scheduling.effects import ResizeRun, StartRun, StopRun, SuspendRun
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import NODE_GOES, Job, Places, Preemption, Run, nodes_held
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import LEAST_END_S, PolicyEngine
from betimes.service.scheduling.run_events import keeps_still
from betimes.service.scheduling.state import SchedulerState

LAUNCH = "launch"
"""The step of a turn in which a run starts."""
SUSPENDED_S = 86_400.0
"""For how long a suspended run is expected not to go on: no one has said when it will."""


class Restated(NamedTuple):
    """Why the engine takes a job's work left for another. basis: null: as before. more: for the event."""

    cause: str
    more: Mapping[str, Any] = {}
    basis: str | None = None


BY_PROGRESS = Restated("progress", basis="progress")


class Runs(Part):
    """Runs as requested of the executors; a run holds its nodes until the executor reports its exit."""

    name = "runs"

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine
        self._resizing: dict[RunId, int] = {}  # runs that are being given another width
        self._restated: dict[int, Restated] = {}  # jobs whose runs stand still, or no longer do

    def after_decision(self) -> None:
        """Launch runs that have been granted room."""
        self.launch_granted()

    def launch_granted(self) -> None:
        """Carry out grants as far as there is room; stopping runs hold theirs until they have exited."""
        state = self._state
        granted = [state.ledger.jobs[number] for number in sorted(state.job_index.unsettled)]
        for job in granted:
            run = job.run
            if run is not None and run.launched and run.stopping is None and run.units > job.units:
                self._resize(job, RunId(job.job_id, run.number))
        for job in granted:
            run = job.run
            if run is not None and run.launched and run.stopping is None and run.units < job.units:
                self._resize(job, RunId(job.job_id, run.number))
            if run is not None and not run.launched:
                state.take_step(LAUNCH, job.job_id, partial(self._launch, job, run))

    def _launch(self, job: Job, run: Run) -> None:
        state, of = self._state, RunId(job.job_id, run.number)
        places = state.occupancy.reserve(of, job)
        if places is None:
            return
        cost = self._cost_of_resuming(job, places)
        state.log("launched", "policy", job.job_id, number=run.number, units=job.units, places=places, **cost)
        state.note_run(job)
        state.effects.append(StartRun(of))

    def stop(self, job: Job, why: str, cause: str) -> None:
        """Stop a job's run: resized, or cancelled."""
        run = job.run
        if run is None:
            return
        again = run.stopping is not None
        by_at = self._state.now_at + job.spec.grace_s if not again else run.stop_by_at
        self.log_stopping(job, why, cause, by_at, reasons.stopping(why, by_at))
        if not again:
            self._state.effects.append(StopRun(RunId(job.job_id, run.number), job.spec.grace_s, why))
            if why == "cancelled":
                self._expect_end(job)

    def stop_for_now(self, job: Job, cause: str, grace_s: float, reason: dict[str, Any]) -> None:
        """Stop a run that cannot stay where it is: its job is requeued."""
        if job.run is not None:
            self.log_stopping(job, NODE_GOES, cause, self._state.now_at + grace_s, reason)
            self._state.effects.append(StopRun(RunId(job.job_id, job.run.number), grace_s, NODE_GOES))

    def suspend(self, job: Job, user: str) -> None:
        """Suspend a job's run, which keeps its units."""
        run, left_s = job.run, None
        if run is None:
            return
        rate = self._engine.rate(job)
        if self._engine.knows(job):
            left_s = self._engine.believed_left_s(job) / rate
        cause, reason = f"user:{user}", keeps_still(job.job_id, user, self._state.now_at)
        self._state.log("suspended", cause, job.job_id, number=run.number, left_s=left_s, reason=reason)
        self._state.note_run(job)
        if left_s is not None:
            self._restated[job.job_id] = Restated(cause, {"suspended": True})
            self._engine.believe(job.job_id, (left_s + SUSPENDED_S) * rate)
        self._state.effects.append(SuspendRun(RunId(job.job_id, run.number)))

    def resume(self, job: Job, user: str) -> None:
        """Let a suspended run go on."""
        run = job.run
        if run is None:
            return
        self.expect_again(job, f"user:{user}")
        self._state.log("resumed", f"user:{user}", job.job_id, number=run.number)
        self._state.note_run(job)
        self._state.effects.append(SuspendRun(RunId(job.job_id, run.number)))

    def expect_again(self, job: Job, cause: str) -> None:
        """A suspended run goes on, or is over: its job has as much left as when it was suspended."""
        run = job.run
        if run is not None and run.left_s is not None and self._engine.knows(job):
            self._restated[job.job_id] = Restated(cause, {"suspended": False})
            self._engine.believe(job.job_id, run.left_s * self._engine.rate(job))

    def fall_behind(self, for_s: float, corrected_s: float) -> bool:
        """The service's machine sleeps for so long, and a clock is corrected: runs take longer; whether any does."""
        behind = False
        for job in self._state.ledger.jobs.values():
            stands_s = corrected_s + (for_s if self._is_here(job) else 0.0)
            if job.run is None or job.run.started_at is None or job.run.stopping is not None or not stands_s:
                continue
            if self._engine.knows(job):
                left_s = self._engine.believed_left_s(job) + stands_s * self._engine.rate(job)
                self._engine.believe(job.job_id, left_s)
                self._restated[job.job_id] = Restated("timer", {"slept": True})
                behind = True
        return behind

    def note_sleep(self, for_s: float) -> None:
        """Log for how long the runs on the service's machine slept: others went on."""
        for job in [*self._state.ledger.jobs.values()] if for_s else ():
            if self._is_here(job):
                self._state.log("slept", "timer", job.job_id, for_s=for_s)
                self._state.note_run(job)

    def _is_here(self, job: Job) -> bool:
        """Whether a job's command runs on the service's machine."""
        if job.run is None or job.run.started_at is None:
            return False
        nodes = self._state.ledger.nodes
        return all(nodes[name].machine.kind in HERE for name, _ in job.run.places)

    def take_restated(self) -> dict[int, Restated]:
        """The jobs whose belief has changed since the last call as their runs stand still, or no longer do, and why."""
        restated, self._restated = self._restated, {}
        return restated

    def log_restated(self, job: Job, why: Restated) -> None:
        """Log that the engine takes a job's work left for another; one that is cancelled ends within its grace."""
        ends = job.run is not None and job.run.stopping == "cancelled" and "slept" not in why.more
        cause, basis = ("timer", "grace") if ends else (why.cause, why.basis or job.basis)
        account = self._engine.account_row(job.job_id)
        self._state.log("estimate-changed", cause, job.job_id, account=account, basis=basis, **why.more)

    def _expect_end(self, job: Job) -> None:
        """Let jobs behind a cancelled one wait for its grace period, not for its estimate."""
        if job.account is None or not self._engine.knows(job):
            return  # a trial: its set has the account
        # What a suspension at the same instant has let be believed goes.
        self._engine.retract_belief(job.job_id)
        left_s = max(job.spec.grace_s, LEAST_END_S) * self._engine.rate(job)
        if left_s < self._engine.believed_left_s(job):
            self._engine.believe(job.job_id, left_s)

    def preempt(self, job: Job, by: Sequence[int] = (), *, moves: bool = False) -> None:
        """Stop a run for other jobs, within the job's grace period; moves: as its machine is given back."""
        grace_s = job.spec.grace_s
        self.preempt_until(job, grace_s, self._state.now_at + grace_s, by, {}, moves=moves)

    def preempt_until(
        self,
        job: Job,
        grace_s: float,
        by_at: float,
        by: Sequence[int],
        more: dict[str, Any],
        *,
        moves: bool = False,
    ) -> None:
        """Stop a run for other jobs, and log that in their stories, too; moves: as its machine is given back."""
        run = job.run
        if run is None:
            return
        if not run.launched:  # it is to start and to leave at one instant
            self.launch_granted()
        cost = self._cost_of_stopping(job, grace_s, by)
        reason = reasons.preempted(by, self._state.ledger.policy, grace_s, by_at, moves=moves)
        self.log_stopping(job, "preempted", "policy", by_at, reason, **cost, **more)
        why = NODE_GOES if moves else "preempted"
        self._state.effects.append(StopRun(RunId(job.job_id, run.number), grace_s, why))
        for taker in by:
            self._state.log("preempts", "policy", taker, victim=job.job_id, run=run.number)

    def log_move_over(self, job: Job) -> None:
        """After the end of a run that followed a move: log the saving."""
        if job.move is not None:
            self._state.log("moved", "executor", job.job_id, move=asdict(job.move))

    def log_stopping(
        self, job: Job, why: str, cause: str, by_at: float | None, reason: dict[str, Any], **more: Any
    ) -> None:
        """Log that a run is stopping."""
        data: dict[str, Any] = {"why": why, "stop_by_at": by_at, "reason": reason, **more}
        if job.account is not None and self._engine.knows(job):
            data["account"] = self._engine.account_row(job.job_id)
        self._state.log("stopping", cause, job.job_id, **data)

    def resized(self, run: RunId, units: int, places: Places, done: bool) -> Job | None:
        """The executor has given a run its new width, or reports that it must be restarted.

        Returns the job that goes on at that width; null: it is over, stops, or has to be restarted.
        """
        job = self._state.job_of(run)
        if self._resizing.get(run) == units:
            del self._resizing[run]
            if done and job is not None:
                self._state.occupancy.hold(run, places)
        if job is None or job.run is None or job.run.stopping is not None:
            return None
        if not done:
            self.stop(job, "resized", "policy")
            return None
        self._state.log("resized", "executor", job.job_id, number=run.number, units=units, places=places)
        return job

    def release(self, run: RunId) -> None:
        """Nothing of a run is left."""
        self._state.occupancy.release(run)
        self._resizing.pop(run, None)

    def _resize(self, job: Job, run: RunId) -> None:
        """Let a run have the width that its job has been granted, if there is room for it."""
        if self._resizing.get(run) == job.units:
            return
        kinds = {self._state.ledger.nodes[name].machine.kind for name, _ in job.places}
        places = self._state.occupancy.resize(run, job, at_once=kinds.isdisjoint(REAL))
        if places is not None:
            self._resizing[run] = job.units
            self._state.effects.append(ResizeRun(run, job.units, places))

    # --- the known costs of a job's last preemption -------------------------------------------------------------

    def _cost_of_stopping(self, job: Job, grace_s: float, by: Sequence[int]) -> dict[str, Any]:
        """The first costs of a preemption."""
        run, ledger = job.run, self._state.ledger
        if run is None:
            return {}
        nodes = self._nodes_of(job, run.places)
        found = Preemption(run.number, [*by], ledger.policy, self._state.now_at, grace_s, nodes)
        return {"preemption": asdict(found)}

    def cost_of_leaving(self, job: Job, at: float, *, worked_on: bool) -> dict[str, Any]:
        """A run has ended; worked_on: by itself, so that no time was wasted."""
        found = job.preemption
        if found is None or job.run is None or found.run != job.run.number or found.left_at is not None:
            return {}
        return {"preemption": asdict(found.left(at, job.progress_frac, worked_on))}

    def _cost_of_resuming(self, job: Job, places: Places) -> dict[str, Any]:
        """The run that follows a preempted one is launched."""
        found = job.preemption
        if found is None or found.resumed_at is not None or job.account is None:
            return {}
        nodes = self._nodes_of(job, places)
        return {"preemption": asdict(found.resumed(self._state.now_at, job.account.stall_s, nodes))}

    def log_lost_work(self, job: Job, frac: float) -> None:
        """Log how much of the work of earlier runs was kept and lost, from a run's first report."""
        run, had_frac, before_s = job.run, job.progress_frac, job.ran_s + job.lost_s
        if run is None or run.resumed_frac is not None or had_frac is None or before_s <= 0.0:
            return
        kept_s = before_s * (0.0 if frac <= 0.0 else 1.0 if frac >= had_frac else frac / had_frac)
        cost = self._cost_of_lost_work(job, run, frac)
        self._state.log(
            "work-lost", "progress", job.job_id, number=run.number, frac=frac, kept_s=kept_s, **cost
        )

    def _cost_of_lost_work(self, job: Job, run: Run, frac: float) -> dict[str, Any]:
        """The run that follows a preempted one goes on at this progress."""
        found, account = job.preemption, job.account
        if found is None or found.resumed_at is None or found.lost_node_s is not None:
            return {}
        if run.number != found.run + 1 or account is None or found.had_frac is None:
            return {}
        whole_s = account.size_s / self._engine.rate(job)
        return {"preemption": asdict(found.goes_on(frac, whole_s, self._nodes_of(job, run.places)))}

    def _nodes_of(self, job: Job, places: Places) -> float:
        return nodes_held(places, job.spec.unit, self._state.ledger.nodes)
