"""Changes of jobs by their users: all that a waiting one asks for, and of a running one what still can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from betimes.errors import Conflict, Refused
from betimes.service.scheduling.admission import Admission
from betimes.service.scheduling.beliefs import LEARNT
from betimes.service.scheduling.effects import LimitRun
from betimes.service.scheduling.engine_factory import request_of
from betimes.service.scheduling.engine_renewal import EngineRenewal
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import Job, spec_text
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.policy_engine import WATCHES, PolicyEngine
from betimes.service.scheduling.queues import Queues
from betimes.service.scheduling.runs import Restated
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.job_changes import ALWAYS, RUNNING, UNFORESEEN, JobChanges
from betimes.service.spec.job_spec import JobSpec, parse_after, split_after
from betimes.units import humanise_s

STATED = (*LEARNT, "estimate")
"""Bases of beliefs that follow a job's estimate, its time limit, or jobs like it, and not the run itself."""
RESTATING = {"estimate_s", "time_limit_s", "min_units", "max_units"}
"""Fields on which the work of a job rests."""
LIMITED = {"time_limit_s", "priority"}
"""Fields of a job that runs which its queue limits."""


class Edits:
    """Checks changes of jobs, and makes them. A job keeps its place in the queue, unless it has to wait for others."""

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        jobs: Jobs,
        admission: Admission,
        queues: Queues,
        renewal: EngineRenewal,
    ) -> None:
        self._state, self._engine = state, engine
        self._jobs, self._admission, self._queues, self._renewal = jobs, admission, queues, renewal
        self._restated: dict[int, Restated] = {}  # jobs with another estimate since the last decision
        self._renews = False

    def check(self, number: int, changes: JobChanges) -> JobSpec:
        """The job as changed. Raises Unknown, Conflict, Refused."""
        if self._engine.watches:
            raise Conflict(WATCHES)
        job = self._state.live_job(number, "changed")
        self._check_state(job, changes)
        spec = changes.changed(job.spec)
        self._queues.check_stays(spec)
        run = job.run
        if spec.time_limit_s is not None and run is not None and run.started_at is not None:
            ran_s = run.ran_s(self._state.now_at)
            if changes.time_limit_s is not None and spec.time_limit_s <= ran_s:
                raise Refused(
                    f"job {number} has run for {humanise_s(ran_s)} already; give more, or `betimes cancel {number}`",
                    "time_limit_s",
                )
        if changes.after is not None:
            self._check_after(number, spec)
        if not set(changes.given) <= set(RUNNING):
            self._admission.check(spec, job.user)
        elif run is None and not RESTATING.isdisjoint(changes.given):
            self._admission.refuse(spec, job.user)
        elif not LIMITED.isdisjoint(changes.given):
            self._queues.refuses(spec, job.user)
        return spec

    def edit(self, numbers: Iterable[int], changes: JobChanges, user: str) -> None:
        """Change jobs that `check` allows."""
        for number in numbers:
            job, spec = self._state.ledger.jobs[number], self.check(number, changes)
            if spec == job.spec:
                continue
            before = request_of(job)
            self._log(job, spec, changes, user)
            if job.account is None:
                self._admit(job)
                continue
            request = request_of(job)
            if (
                replace(before, runtime_estimate_s=request.runtime_estimate_s, limit_s=request.limit_s)
                != request
            ):
                self._renews = True
            if before.limit_s != request.limit_s:
                self._engine.set_limit(job)
            if not RESTATING.isdisjoint(changes.given) and job.trials is None:
                self._restated[number] = Restated(f"user:{user}")

    def hand_over(self) -> dict[int, Restated]:
        """Pass the changes since the last decision to the engine; the jobs with another belief, and why.

        An engine takes a job's request once. One that is made anew keeps the order of the queue.
        """
        if self._renews:
            self._renewal.renew()
        restated, self._renews, self._restated = self._restated, False, {}
        jobs = self._state.ledger.jobs
        for number in restated:
            job = jobs.get(number)
            if job is None or job.account is None or (job.run is not None and job.run.stopping is not None):
                continue
            left_s = self._engine.believed_left_s(job)
            if job.basis in STATED:
                left_s = self._engine.rest_s(job, job.runtime_estimate_s)
            self._engine.believe(number, left_s)
        return restated

    def _check_state(self, job: Job, changes: JobChanges) -> None:
        number, status = job.job_id, job.status.value
        if job.set_id is not None:
            raise Conflict(
                f"job {number} is a trial of job {job.set_id}, and is changed with it: `betimes edit {job.set_id}`"
            )
        if job.is_suspended and not RESTATING.isdisjoint(changes.given):
            raise Conflict(f"job {number} is suspended; `betimes resume {number}` first, and change it then")
        begins = job.units > 0 or job.rental is not None
        if job.trials is not None:
            possible, state = ALWAYS, "is a set of trials"
        elif job.run is not None and job.run.launched:
            possible, state = RUNNING, f"is {status}"
        elif begins:
            possible, state = RUNNING, "is about to start"
        else:
            return
        wrong = [name for name in changes.given if name not in possible]
        if wrong:
            raise Conflict(
                f"job {number} {state}, so that {' and '.join(wrong)} cannot be changed, but {', '.join(possible)} "
                f"can; for the rest, cancel it and submit it again"
            )

    def _check_after(self, number: int, spec: JobSpec) -> None:
        jobs = self._state.ledger.jobs
        waited_for = list[int]()
        for text in spec.after:
            first, on = split_after(text)
            if isinstance(first, str):
                raise Refused(f"{first[:60]!r} is a name; give the job's number", "after")
            if on == "corr":
                raise Refused(
                    "corr: goes with the submission of an array; give the numbers of elements", "after"
                )
            ended = self._state.ended_as(first)
            if self._state.is_met(first, on) is False:
                raise Refused(
                    f"job {first} is {ended}, so that job {number} would wait in vain; write {first}:any to wait for "
                    "its end only",
                    "after",
                )
            waited_for.append(first)
        seen = set[int]()
        while waited_for:
            first = waited_for.pop()
            if first == number:
                raise Refused(f"job {number} would wait for itself, by way of others or at once", "after")
            if first in jobs and first not in seen:
                seen.add(first)
                waited_for += [parse_after(text)[0] for text in jobs[first].spec.after]

    def _log(self, job: Job, spec: JobSpec, changes: JobChanges, user: str) -> None:
        state, number, given, title = self._state, job.job_id, changes.given, job.spec.title
        seconds, basis = job.runtime_estimate_s, job.basis
        if changes.estimate_s is not None or (changes.time_limit_s is not None and basis in STATED):
            seconds, basis = state.ledger.runtime_estimates.believed(job.user, spec)
        leaves = job.account is not None and (
            any(state.is_met(*parse_after(text)) is None for text in spec.after if "after" in given)
            or ("begin_at" in given and (spec.begin_at or 0.0) > state.now_at)
            or (spec.singleton and (state.job_index.first_named(job.user, spec.title) or number) < number)
        )
        if job.binding is not None and not set(given) <= set(RUNNING):
            state.log("unbound", "policy", number)
        state.forget_spec(job)
        if leaves:
            self._engine.withdraw(job)
        state.log(
            "edited",
            f"user:{user}",
            number,
            changes=given,
            spec=spec_text(spec),
            believed_s=seconds,
            basis=basis,
            leaves=leaves,
            voids=not set(given) <= set(UNFORESEEN),
        )
        if leaves:
            self._jobs.make_way(job)
        if job.spec.title != title:
            self._jobs.renamed(job.user, title)
        run = job.run
        limit_s = job.run_limit_s if "time_limit_s" in given else None
        if limit_s is not None and run is not None and run.launched and run.stopping is None:
            state.effects.append(LimitRun(RunId(number, run.number), limit_s))

    def _admit(self, job: Job) -> None:
        """Let a job that waited for something else queue if it waits for nothing any more."""
        if job.job_id in self._state.job_index.entering:
            self._engine.withdraw(job)
        self._jobs.admit(job)
