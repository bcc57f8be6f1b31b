"""What becomes of a job: it waits for others, queues, ends, is tried again, is told to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from betimes.service import reasons
from betimes.service.engines.moves import Wanted
from betimes.service.job import Job, Places
from betimes.service.preemption import Preemption, nodes_held
from betimes.service.scheduling.effects import StopRun
from betimes.service.scheduling.engine_job import demand_of, wanted_of
from betimes.service.scheduling.run_reports import Ended, RunId
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec import parse_after
from betimes.service.views import Status


class JobLifecycle(SchedulerState):
    """The ways of jobs, each step of which is an event."""

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
                self._over(job, "cancelled", reasons.in_vain(number, ended), "policy")
                return
        if job.not_before_at > self.now_at:
            return
        if not self.agenda.has_room(job):
            self._blocked(job, reasons.array(job.array_id or 0, job.array_most))
            return
        self.agenda.enters(job)
        self.pending.wanted.append(self._wanted(job))

    def _wanted(self, job: Job) -> Wanted:
        """What the engine is told of a job that may queue."""
        return wanted_of(job)

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
        user, name = job.user, job.spec.title
        self.siblings.finished(user, name, self.ledger.run_times.believed(user, name))
        self._after(job)

    def _over(self, job: Job, kind: str, reason: dict[str, Any] | None, cause: str = "executor") -> None:
        self._leave_engine(job)
        self._log(kind, cause, job.job_id, reason=reason)
        self._after(job)

    def _cancelled(self, job: Job) -> None:
        """A job that a user wanted ended is over: the last of its run has left."""
        whole = self.ledger.jobs.get(job.set_id) if job.set_id is not None else None
        cause = job.cancelled_by or (whole.cancelled_by if whole is not None else None) or "executor"
        user = cause.removeprefix("user:") if cause.startswith("user:") else None
        self._over(job, "cancelled", reasons.cancelled(user), cause)

    def _after(self, job: Job) -> None:
        """Whoever waited for this job may go on."""
        for number in self.agenda.followers(job.job_id):
            self._admit(self.ledger.jobs[number])
        self._make_way(job)

    def _make_way(self, job: Job) -> None:
        """One element less of its array is at work."""
        if job.array_most and job.array_id is not None:
            for number in self.agenda.next_of_array(job.array_id, job.array_most):
                if number in self.ledger.jobs:
                    self._admit(self.ledger.jobs[number])

    def _retry(self, job: Job, report: Ended) -> None:
        delay_s = job.spec.backoff_s * 2.0**job.failures
        how = report.message if report.why == "out-of-memory" else None
        reason = reasons.retry(
            job.failures + 1, job.spec.retries, report.exit_code, report.signal, delay_s, how
        )
        self._leave_engine(job)
        not_before_at = self.now_at + max(delay_s, 1e-3)
        self._log("retries", "executor", job.job_id, not_before_at=not_before_at, reason=reason)
        self._make_way(job)

    def _stopped(self, job: Job) -> None:
        """A run that was told to stop has: the job goes on later, at once if it has been granted units again."""
        if not job.spec.requeue:
            self._over(job, "failed", reasons.not_again(job.reason))
        elif self.built is not None and self.built.kind == "nodes":
            self.pending.gone.append(job.job_id)
        else:
            self._log_waits(job)

    def _interrupted(self, job: Job, reason: dict[str, Any]) -> None:
        """A run has stopped before its end: the job is started again later, unless its submitter does not want that."""
        if job.spec.requeue:
            self._lose(job, reason)
        else:
            self._over(job, "failed", reasons.not_again(reason))

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
        by_at = self.now_at + job.spec.grace_s if not again else run.stop_by_at
        self._log_told(job, why, cause, by_at, reasons.told(why, by_at))
        if not again:
            self.effects.append(StopRun(RunId(job.job_id, run.number), job.spec.grace_s, why))

    def _log_told(
        self, job: Job, why: str, cause: str, by_at: float | None, reason: dict[str, Any], **more: Any
    ) -> None:
        data: dict[str, Any] = {"why": why, "stop_by_at": by_at, "reason": reason, **more}
        if job.account is not None and job.job_id in self.engine.slot_of:
            data["account"] = self._account(job.job_id)
        self._log("told", cause, job.job_id, **data)

    def _preempt(
        self, job: Job, grace_s: float, by_at: float, by: Sequence[int], more: dict[str, Any]
    ) -> None:
        """Tell a run to make room for other jobs, in whose stories it stands as well."""
        run = job.run
        if run is None:
            return
        policy = self.ledger.policy
        nodes = nodes_held(run.places, demand_of(job.spec), self.ledger.nodes)
        found = Preemption(run.number, tuple(by), policy, self.now_at, grace_s, nodes)
        reason = reasons.preempted(by, policy, grace_s, by_at)
        self._log_told(job, "preempted", "policy", by_at, reason, preemption=found.to_json(), **more)
        self.effects.append(StopRun(RunId(job.job_id, run.number), grace_s, "preempted"))
        for taker in by:
            self._log("displaces", "policy", taker, victim=job.job_id, run=run.number)

    def _cost_of_leaving(self, job: Job, worked_on: bool) -> dict[str, Any]:
        """What the end of a run adds to the account of its preemption, if it was told to make room."""
        found = job.preemption
        if found is None or job.run is None or found.run != job.run.number or found.left_at is not None:
            return {}
        return {"preemption": found.left(self.now_at, job.progress_frac, worked_on).to_json()}

    def _cost_of_resuming(self, job: Job, places: Places) -> dict[str, Any]:
        """What the start of a run adds to the account of the preemption that it follows."""
        found = job.preemption
        if found is None or found.resumed_at is not None or job.account is None:
            return {}
        nodes = nodes_held(places, demand_of(job.spec), self.ledger.nodes)
        return {"preemption": found.resumed(self.now_at, job.account.stall_s, nodes).to_json()}

    def _note_lost_work(self, job: Job, frac: float) -> None:
        """The first report of a run that follows a preempted one says where it goes on from."""
        found, run, account = job.preemption, job.run, job.account
        if found is None or found.resumed_at is None or found.lost_node_s is not None:
            return
        if run is None or run.number != found.run + 1 or account is None or found.had_frac is None:
            return
        pool = self.built is not None and self.built.kind == "pool"
        whole_s = account.size_s / (self._speed(job) if pool else 1.0)
        nodes = nodes_held(run.places, demand_of(job.spec), self.ledger.nodes)
        cost = found.goes_on(frac, whole_s, nodes).to_json()
        self._log("goes-on", "progress", job.job_id, number=run.number, frac=frac, preemption=cost)

    def _leave_engine(self, job: Job) -> None:
        number, pending = job.job_id, self.pending
        if number in self.agenda.entering:
            pending.wanted = [wanted for wanted in pending.wanted if wanted.job != number]
            self.agenda.entering.discard(number)
        pending.believed = [one for one in pending.believed if one[0] != number]
        pending.gone = [one for one in pending.gone if one != number]
        pending.widths = [one for one in pending.widths if one[0] != number]
        if job.account is not None:
            pending.done.append(number)
