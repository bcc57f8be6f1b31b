"""Users cancel, hold and release jobs."""

from __future__ import annotations

from typing import Literal

from betimes.errors import Conflict
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.jobs import reasons
from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.jobs.job_lifecycle import JobLifecycle
from betimes.service.scheduling.jobs.job_states import Status
from betimes.service.scheduling.runs.runs import Runs
from betimes.service.scheduling.state import SchedulerState

Action = Literal["cancel", "hold", "release"]
_DONE: dict[Action, str] = {"cancel": "cancelled", "hold": "held", "release": "released"}


class JobControl:
    """What users may do with a job that they have submitted."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine, jobs: JobLifecycle, runs: Runs) -> None:
        self._state, self._engine, self._jobs, self._runs = state, engine, jobs, runs

    def check(self, action: Action, number: int) -> Job:
        """The job, if that can be done with it now. Raises Unknown, Conflict."""
        job = self._state.live_job(number, _DONE[action])
        if action != "cancel" and job.set_id is not None:
            text = f"job {number} is a trial of job {job.set_id}, and is {job.status.value} with it"
            raise Conflict(f"{text}; `betimes {action} {job.set_id}` means all of them")
        if action == "hold" and job.status not in (Status.HELD, Status.QUEUED, Status.BLOCKED):
            raise Conflict(f"job {number} is {job.status.value} and cannot be held; cancel it instead")
        if action == "release" and job.status is not Status.HELD:
            raise Conflict(f"job {number} is {job.status.value}, not held; there is nothing to release")
        return job

    def apply(self, action: Action, number: int, user: str) -> None:
        """Do it. Raises Unknown, Conflict."""
        match action:
            case "cancel":
                self.cancel(number, user)
            case "hold":
                self.hold(number, user)
            case "release":
                self.release(number, user)

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
            self._jobs.after(job)

    def hold(self, number: int, user: str) -> None:
        """Keep a job from starting. Raises Unknown, Conflict."""
        job = self.check("hold", number)
        if job.status is Status.HELD:
            return
        self._engine.withdraw(job)
        self._state.log("held", f"user:{user}", number, reason=reasons.by_user(user))
        self._jobs.make_way(job)

    def release(self, number: int, user: str) -> None:
        """Let a held job start. Raises Unknown, Conflict."""
        job = self.check("release", number)
        self._state.log("released", f"user:{user}", number)
        self._jobs.admit(job)

    def _cancel_set(self, job: Job, user: str) -> None:
        """End what is left of a set: it is over when the last of its runs has left."""
        state = self._state
        live = state.trial_index.of[job.job_id].live
        trials = [state.ledger.jobs[number] for number in sorted(live)]
        running = [each for each in trials if each.run is not None and each.run.launched]
        for each in trials:
            if each not in running:
                self._jobs.end(each, "cancelled", reasons.cancelled(user), f"user:{user}")
        if not running:
            state.trial_index.to_review.add(job.job_id)
            return
        by_at = state.now_at + job.spec.grace_s
        reason = reasons.told("cancelled", by_at)
        self._runs.log_stopping(job, "cancelled", f"user:{user}", by_at, reason)
        for each in running:
            self._runs.stop(each, "cancelled", f"user:{user}")
