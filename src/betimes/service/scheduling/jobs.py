"""Transitions of jobs, and what users do with them.

A job waits for others, queues, ends, is retried, or goes on later. Users cancel, hold, release, requeue, suspend and
resume jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Literal

from betimes.errors import Conflict
from betimes.service.machines.machine import RENTED
from betimes.service.scheduling import reasons
from betimes.service.scheduling.broken_promises import note_end
from betimes.service.scheduling.effects import SignalRun
from betimes.service.scheduling.events import Ended, RunId, Signalled
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.policy_engine import WATCHES, PolicyEngine
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.spelling import signal_number

Action = Literal["cancel", "hold", "release", "requeue", "suspend", "resume", "signal"]
_DONE: dict[Action, str] = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "requeue": "requeued",
    "suspend": "suspended",
    "resume": "resumed",
    "signal": "signalled",
}


class Jobs:
    """The transitions of jobs, each of which is an event.

    A set of trials is a job without runs, and its trials are jobs that the engine does not know: what changes a trial
    marks its set (`trial_index`), and the engine is not informed.
    """

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        runs: Runs,
        keeps_from_queueing: Callable[[Job, float], dict[str, Any] | None],
    ) -> None:
        self._state, self._engine, self._runs = state, engine, runs
        self._keeps_from_queueing = keeps_from_queueing
        self._let_on: list[Iterator[int]] = []  # jobs that may go on as others do not hold them up any more

    # --- before it queues -------------------------------------------------------------------------------------

    def admit(self, job: Job) -> None:
        """Queue a job that waits for nothing but the policy; end one whose wait is in vain."""
        self._state.take_step("admit", job.job_id, partial(self._admit, job))

    def _admit(self, job: Job) -> None:
        if job.set_id is not None:
            self._admit_trial(job)
            return
        state, index = self._state, self._state.job_index
        if job.status is not Status.BLOCKED or job.job_id in index.entering:
            return
        why = self._keeps_from_queueing(job, state.now_at)
        if why is None:
            self._engine.enter(job)
        elif why["code"] == "dependency-failed":
            self.end(job, "cancelled", why, "policy")
        elif not (job.attempt and why["code"] == "begin" and job.not_before_at != job.spec.begin_at):
            self._block(job, why)  # else it has the reason of its retry

    def entered(self, number: int) -> None:
        """The policy knows of a job from now on."""
        job = self._state.ledger.jobs[number]
        self._state.job_index.entering.discard(number)
        account, runtime_estimate_s, basis = (
            self._engine.account_row(number),
            job.runtime_estimate_s,
            job.basis,
        )
        self._state.log(
            "queued", "policy", number, account=account, believed_s=runtime_estimate_s, basis=basis
        )

    def make_way(self, job: Job) -> None:
        """A job no longer counts against its array's limit, and has no resources: the next ones may queue."""
        self._admit_each(self._next_for_room_of(job))

    def _next_for_room_of(self, job: Job) -> Iterator[int]:
        index, trials = self._state.job_index, self._state.trial_index
        for name in index.claims(job):
            yield from index.next_for(name)
        if job.set_id is not None:
            trials.to_review.add(job.set_id)
        elif job.array_most and job.array_id is not None:
            yield from index.next_of_array(job.array_id, job.array_most)
        if job.trials is not None:
            trials.to_share.setdefault(job.job_id, ())

    def _admit_each(self, numbers: Iterator[int]) -> None:
        """Admit jobs, and those that may go on as one of these is over, and so forth, before the next of these.

        A loop: users decide how long such a chain is, and Python how deep a function may call itself.
        """
        if self._let_on:
            self._let_on.append(numbers)
            return
        jobs, left = self._state.ledger.jobs, self._let_on
        left.append(numbers)
        try:
            while left:
                depth = len(left)
                number = next(left[-1], None)
                if number is None:
                    left.pop()
                elif number in jobs:
                    self.admit(jobs[number])
                    left[depth:] = reversed(left[depth:])  # of a set that is over, its trials' first
        finally:
            left.clear()

    def _admit_trial(self, job: Job) -> None:
        if job.status is Status.BLOCKED and job.not_before_at <= self._state.now_at:
            runtime_estimate_s, basis = job.runtime_estimate_s, job.basis
            self._state.log("queued", "policy", job.job_id, believed_s=runtime_estimate_s, basis=basis)
            self.make_way(job)

    def _block(self, job: Job, reason: dict[str, Any]) -> None:
        if job.reason != reason:
            self._state.log("blocked", "policy", job.job_id, reason=reason)

    # --- when it is over --------------------------------------------------------------------------------------

    def finish(self, job: Job, rate: float, slack_s: float) -> None:
        """Its command has succeeded; its run time on max_units feeds the estimate for the next one like it.

        rate: of its last run, work a second. slack_s: time counted by its account in which it did not run.
        """
        if job.set_id is not None:
            self._log_finished(job, job.ran_s)
            self.after(job)
            return
        work_s = max(0.0, self._engine.done_s(job) - slack_s * rate)
        if job.lost_s > 0.0:  # its account counts that, too
            work_s = min(work_s, job.ran_s * rate)
        run_s = work_s / self._engine.rate(job, job.spec.max_units)
        self._engine.withdraw(job)
        self._log_finished(job, run_s)
        user, key = job.user, job.spec.history_key
        learnt = self._state.ledger.runtime_estimates.learnt(user, key)
        self._state.siblings.finished(user, key, learnt)
        self.after(job)

    def finish_set(self, job: Job, taken_s: float) -> None:
        """All trials of a set have finished; taken_s: their run times together."""
        self._engine.withdraw(job)
        self._log_finished(job, taken_s)
        self.after(job)

    def end(self, job: Job, kind: str, reason: dict[str, Any] | None, cause: str = "executor") -> None:
        """A job has failed or is cancelled; of a set, its trials end first."""
        if job.trials is not None:
            for number in sorted(self._state.trial_index.of[job.job_id].live):
                self._end_one(self._state.ledger.jobs[number], kind, reason, cause)
        self._end_one(job, kind, reason, cause)

    def end_cancelled(self, job: Job) -> None:
        """A job cancelled by a user is over: nothing of its run is left."""
        whole = self._state.ledger.jobs.get(job.set_id) if job.set_id is not None else None
        cause = job.cancelled_by or (whole.cancelled_by if whole is not None else None) or "executor"
        user = cause.removeprefix("user:") if cause.startswith("user:") else None
        self.end(job, "cancelled", reasons.cancelled(user), cause)

    def after(self, job: Job) -> None:
        """A job is over: those that waited for it may go on."""
        followers = self._state.job_index.followers(job.job_id)
        next_named = self._next_named(job.user, job.spec.title)
        self._admit_each(chain(followers, next_named, self._next_for_room_of(job)))

    def started(self, job: Job) -> None:
        """A job has started: those that waited for that may go on."""
        self._admit_each(iter(self._state.job_index.followers(job.job_id)))

    def renamed(self, user: str, name: str) -> None:
        """A user has given another name to a job of this one."""
        self._admit_each(self._next_named(user, name))

    def _next_named(self, user: str, name: str) -> Iterator[int]:
        """The job that is now the first of its user and name."""
        if (first := self._state.job_index.first_named(user, name)) is not None:
            yield first

    def _end_one(self, job: Job, kind: str, reason: dict[str, Any] | None, cause: str) -> None:
        self._engine.withdraw(job)
        self._state.log(kind, cause, job.job_id, reason=reason)
        self.after(job)

    def _log_finished(self, job: Job, run_s: float) -> None:
        note_end(self._state, job)
        more: dict[str, Any] = {"lost_s": job.lost_s} if job.lost_s > 0.0 else {}
        if job.preemptions > 0:
            # What it did before counts as waiting, as in a simulation.
            ended_at = self._state.now_at if job.left_at is None else job.left_at
            more["waited_s"] = ended_at - run_s - job.submitted_at
        self._state.log("finished", "executor", job.job_id, run_s=run_s, **more)

    # --- when its run is over, but the job is not --------------------------------------------------------------

    def retry(self, job: Job, report: Ended) -> None:
        """Its command has failed, and attempts are left."""
        delay_s = job.spec.backoff_s * 2.0**job.failures
        how = report.message if report.why == "out-of-memory" else None
        reason = reasons.retry(
            job.failures + 1, job.spec.retries, report.exit_code, report.signal, delay_s, how
        )
        self._engine.withdraw(job)
        not_before_at = self._state.now_at + max(delay_s, 1e-3)
        self._state.log("retries", "executor", job.job_id, not_before_at=not_before_at, reason=reason)
        self.make_way(job)

    def stopped(self, job: Job) -> None:
        """A run has stopped as asked: the job goes on later, at once if it has been granted units again."""
        if not job.spec.requeue:
            self.end(job, "failed", reasons.not_again(job.reason))
        elif self._engine.is_nodes:
            self._engine.vacate(job.job_id)
        else:
            self.requeue(job)

    def interrupted(self, job: Job, reason: dict[str, Any], *, has_begun: bool = True) -> None:
        """A run has been cut short: the job is started again later, unless submitted with requeue = false.

        has_begun: its command has; one that has not is started again in any case.
        """
        if has_begun and not job.spec.requeue:
            self.end(job, "failed", reasons.not_again(reason))
            return
        if job.set_id is None:
            self._engine.lose(job)
            self._engine.look()
            if job.rental is not None:
                account = self._engine.account_row(job.job_id)
                self._state.log("unrented", "cloud", job.job_id, account=account, reason=reason)
        self.requeue(job, reason)

    def start_again(self, job: Job, reason: dict[str, Any]) -> None:
        """A run has vanished from machines rented for its job alone: start it there again."""
        if not job.spec.requeue:
            self.end(job, "failed", reasons.not_again(reason))
            return
        account = self._engine.account_row(job.job_id)
        self._state.log(
            "requeued", "executor", job.job_id, account=account, keeps_units=job.units > 0, reason=reason
        )

    def requeue(self, job: Job, reason: dict[str, Any] | None = None, *, keeps: bool = False) -> None:
        """The job waits, at its place; in a pool, it may have been granted units again before its run ended.

        keeps: on nodes likewise.
        """
        why = reason or job.reason
        if job.set_id is not None:
            keeps = reason is None and job.units > 0
            self._state.log("requeued", "executor", job.job_id, keeps_units=keeps, reason=why)
            self._state.trial_index.to_share.setdefault(job.set_id, ())
            return
        keeps = keeps or (reason is None and self._engine.is_pool and job.units > 0)
        account = self._engine.account_row(job.job_id)
        self._state.log("requeued", "executor", job.job_id, account=account, keeps_units=keeps, reason=why)

    # --- what users may do with a job that they have submitted --------------------------------------------------

    def check(self, action: Action, number: int) -> Job:
        """The job, if the action is possible now. Raises Unknown, Conflict."""
        if self._engine.watches:
            raise Conflict(WATCHES)
        if action == "requeue":
            return self._check_requeue(number)
        if action in ("suspend", "resume"):
            return self._check_suspension(action, number)
        job = self._state.live_job(number, _DONE[action])
        if action == "signal":
            if job.trials is not None:
                raise Conflict(
                    f"job {number} is a set of trials; give the numbers of trials that run instead"
                )
            if job.run is None or job.run.started_at is None:
                raise Conflict(f"job {number} is {_status_of(job)}; only a job that runs can get a signal")
            return job
        if action != "cancel" and job.set_id is not None:
            text = f"job {number} is a trial of job {job.set_id}, and is {job.status.value} with it"
            raise Conflict(f"{text}; `betimes {action} {job.set_id}` means all of them")
        if action == "hold" and job.status not in (Status.HELD, Status.QUEUED, Status.BLOCKED):
            raise Conflict(f"job {number} is {job.status.value} and cannot be held; cancel it instead")
        if action == "release" and job.status is not Status.HELD:
            raise Conflict(f"job {number} is {job.status.value}, not held; there is nothing to release")
        return job

    def cancel(self, number: int, user: str) -> None:
        """End a job. Raises Unknown, Conflict."""
        job = self.check("cancel", number)
        self._state.log("cancel-requested", f"user:{user}", number)
        if job.trials is not None:
            self._cancel_set(job, user)
        elif job.run is not None and job.run.launched:
            self._runs.stop(job, "cancelled", f"user:{user}")
        else:
            self._engine.withdraw(job)
            self._state.log("cancelled", f"user:{user}", number, reason=reasons.cancelled(user))
            self.after(job)

    def hold(self, number: int, user: str) -> None:
        """Keep a job from starting. Raises Unknown, Conflict."""
        job = self.check("hold", number)
        if job.status is Status.HELD:
            return
        self._engine.withdraw(job)
        self._state.log("held", f"user:{user}", number, reason=reasons.by_user(user))
        self.make_way(job)

    def release(self, number: int, user: str) -> None:
        """Let a held job start. Raises Unknown, Conflict."""
        job = self.check("release", number)
        self._state.log("released", f"user:{user}", number)
        self.admit(job)

    def requeue_run(self, number: int, user: str) -> None:
        """Stop a job's run: it starts again, from its checkpoint if it has one. Raises Unknown, Conflict."""
        self._runs.stop(self.check("requeue", number), "requeued", f"user:{user}")

    def suspend(self, number: int, user: str) -> None:
        """Suspend a job's run, which keeps its units. Raises Unknown, Conflict."""
        self._runs.suspend(self.check("suspend", number), user)

    def resume(self, number: int, user: str) -> None:
        """Let a suspended run go on. Raises Unknown, Conflict."""
        self._runs.resume(self.check("resume", number), user)

    def signal(self, number: int, user: str, name: str, to: Signalled) -> None:
        """Send a signal to a job's run; what becomes of it is the run's. Raises Unknown, Conflict."""
        job = self.check("signal", number)
        if job.run is not None:
            run = job.run.number
            self._state.log("signalled", f"user:{user}", number, number=run, signal=name, to=to)
            self._state.effects.append(SignalRun(RunId(number, run), signal_number(name), to))

    def _check_suspension(self, action: Action, number: int) -> Job:
        job = self._state.live_job(number, _DONE[action])
        run = job.run
        if job.trials is not None:
            raise Conflict(f"job {number} is a set of trials, and trials cannot be {_DONE[action]}")
        if run is None or run.started_at is None or run.stopping is not None:
            instead = (
                f"; `betimes hold {number}` keeps it from starting" if job.status is Status.QUEUED else ""
            )
            raise Conflict(
                f"job {number} is {_status_of(job)}; only a job that runs can be {_DONE[action]}{instead}"
            )
        if action == "resume":
            if run.suspended_at is None:
                raise Conflict(f"job {number} is not suspended; there is nothing to resume")
            return job
        if run.suspended_at is not None:
            raise Conflict(f"job {number} is suspended already; `betimes resume {number}` lets it go on")
        if job.set_id is not None:
            raise Conflict(f"job {number} is a trial of job {job.set_id}, and trials cannot be suspended")
        if job.spec.min_units < job.spec.max_units:
            raise Conflict(
                f"job {number} may be given more or fewer units while it runs, so that it cannot be suspended; "
                f"`betimes requeue {number}` stops it"
            )
        if any(self._state.ledger.nodes[name].machine.kind in ("ray", *RENTED) for name, _ in run.places):
            raise Conflict(
                f"job {number} runs on {run.places[0][0]}, and only jobs on the service's own machine can be "
                f"suspended; `betimes requeue {number}` stops it"
            )
        return job

    def _check_requeue(self, number: int) -> Job:
        ended = self._state.ended_as(number)
        if ended is not None:
            raise Conflict(
                f"job {number} is {ended}; `betimes rerun {number}` submits it again, under a new number"
            )
        job = self._state.live_job(number, "requeued")
        if job.trials is not None:
            raise Conflict(f"job {number} is a set of trials; give the numbers of trials that run instead")
        if job.run is None or not job.run.launched or job.run.stopping is not None:
            raise Conflict(f"job {number} is {job.status.value}; only a job that runs can be requeued")
        if not job.spec.requeue:
            raise Conflict(
                f"job {number} was submitted with requeue = false, so that it is not started again; "
                f"`betimes cancel {number}` ends it, and `betimes rerun {number}` then submits it anew"
            )
        return job

    def _cancel_set(self, job: Job, user: str) -> None:
        """End the rest of a set: it is over when the last of its runs has exited."""
        state = self._state
        live = state.trial_index.of[job.job_id].live
        trials = [state.ledger.jobs[number] for number in sorted(live)]
        running = [each for each in trials if each.run is not None and each.run.launched]
        for each in trials:
            if each not in running:
                self.end(each, "cancelled", reasons.cancelled(user), f"user:{user}")
        if not running:
            state.trial_index.to_review.add(job.job_id)
            return
        by_at = state.now_at + job.spec.grace_s
        reason = reasons.stopping("cancelled", by_at)
        self._runs.log_stopping(job, "cancelled", f"user:{user}", by_at, reason)
        for each in running:
            self._runs.stop(each, "cancelled", f"user:{user}")


def _status_of(job: Job) -> str:
    """A job's status in words: one whose command has not begun, as during a prolog, does not run yet."""
    if job.status is Status.RUNNING and job.run is not None and job.run.started_at is None:
        return "being started"
    return job.status.value
