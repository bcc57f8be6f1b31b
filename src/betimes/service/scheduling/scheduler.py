"""The service's decisions, without a clock, a socket, a database or a process.

Whatever happens outside is told by a method; `turn` lets the policy decide. What comes of it is a list of events, to
be stored, and of effects, to be carried out once they are: the ledger has seen the events already.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from betimes.errors import Conflict, Unavailable, Unknown
from betimes.foresight.engines import NODES
from betimes.service import reasons
from betimes.service.building import kind_of
from betimes.service.engines.moves import (
    Happened,
    Play,
    Round,
)
from betimes.service.events import Event
from betimes.service.job import Job
from betimes.service.scheduling.admission import check_possible
from betimes.service.scheduling.effects import Effect
from betimes.service.scheduling.engine_job import wanted_for
from betimes.service.scheduling.node_lifecycle import NodeLifecycle
from betimes.service.scheduling.progress_rate import ProgressRate, differs
from betimes.service.scheduling.run_reports import Ended, Started, Trouble
from betimes.service.spec import JobSpec, parse_after, parse_array
from betimes.service.trial_set import full_run_s, set_spec
from betimes.service.views import Status

MOST_LOSSES = 10  # of a job's runs, one after the other, each with the machine that it ran on


class Scheduler(NodeLifecycle):
    """One cluster under one policy. Instants are seconds since 1970 (`_at`); engines count from `ledger.epoch_at`."""

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
        self._log("recovered", "recovery")
        self._rebuild(self.ledger.policy)
        for job in list(self.ledger.jobs.values()):
            self._admit(job)
            if job.trials is not None:
                self.changed.add(job.job_id)
        self.pending.look = True

    def take_over(self) -> None:
        """The policy in force is compiled: it decides from now on, first about what has come meanwhile."""
        if self.stands_by:
            self._settle_up()
            self._rebuild(self.ledger.policy)
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

    def submit(self, spec: JobSpec, user: str) -> list[int]:
        """Take a job, or an array of them; returns the numbers. Raises Refused, Unknown."""
        self.check(spec)
        if spec.as_one:
            return self._submit_set(spec, user)
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
            if spec.hold and job is not None:
                self._log("held", f"user:{user}", number, reason=reasons.by_user(user))
        for number in numbers:
            self._admit(self.ledger.jobs[number])
        return numbers

    def may(self, what: Literal["cancel", "hold", "release"], number: int) -> Job:
        """The job, if that can be done with it now. Raises Unknown, Conflict."""
        job = self._job(number, {"cancel": "cancelled", "hold": "held", "release": "released"}[what])
        if what != "cancel" and job.set_id is not None:
            text = f"job {number} is a trial of job {job.set_id}, and is {job.status.value} with it"
            raise Conflict(f"{text}; `betimes {what} {job.set_id}` means all of them")
        if what == "hold" and job.status not in (Status.HELD, Status.QUEUED, Status.BLOCKED):
            raise Conflict(f"job {number} is {job.status.value} and cannot be held; cancel it instead")
        if what == "release" and job.status is not Status.HELD:
            raise Conflict(f"job {number} is {job.status.value}, not held; there is nothing to release")
        return job

    def cancel(self, number: int, user: str) -> None:
        """End a job. Raises Unknown, Conflict."""
        job = self.may("cancel", number)
        self._log("cancel-asked", f"user:{user}", number)
        if job.trials is not None:
            self._cancel_set(job, user)
            return
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
        pace = self.paces.setdefault(job.job_id, ProgressRate())
        pace.begin(self.now_at, self._speed(job))
        self._run_row(job, limited_by=report.memory_limited_by)
        if job.progress_frac is None:  # else it gets on when it reports how far it is
            self._restarted(job)

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
            **self._cost_of_leaving(job, worked_on=report.why == "exited"),
        )
        self.rooms.leave(report.run)
        self.resizing.pop(report.run, None)
        if asked == "cancelled":
            self._cancelled(job)
        elif report.why == "node-lost" and asked is None and job.losses < MOST_LOSSES:
            self._interrupted(job, reasons.lost(report.message))
        elif report.why == "node-lost" and asked is None:
            self._over(job, "failed", reasons.lost_again(job.losses + 1, report.message))
        elif report.why == "stopped" or (asked is not None and report.why in ("lost", "node-lost")):
            self._stopped(job)
        elif report.exit_code == 0 and report.why == "exited":
            self._finish(job)
        elif report.why == "lost" and not (job.spec.requeue and job.failures < job.spec.retries):
            self._over(job, "failed", reasons.unknown_end(report.message, job.spec.requeue))
        elif report.why in ("exited", "out-of-memory", "lost") and job.failures < job.spec.retries:
            self._retry(job, report)
        else:
            self._over(
                job, "failed", reasons.failed(report.why, report.exit_code, report.signal, report.message)
            )

    def troubled(self, report: Trouble) -> None:
        """The executor says something of a run that belongs into its job's story."""
        job = self._running(report.run)
        if job is not None:
            self._log("trouble", "executor", job.job_id, number=report.run.number, message=report.message)

    def progressed(self, number: int, attempt: int, done: float, total: float) -> None:
        """A run says how far it has come. Raises Unknown, Conflict."""
        job = self._job(number, "told about")
        if job.run is None or job.run.number != attempt:
            raise Conflict(
                f"job {number}, attempt {attempt} is over; only the present attempt reports progress"
            )
        left_s = self.paces.setdefault(number, ProgressRate()).report(self.now_at, done, total)
        self._restarted(job)
        frac = min(1.0, done / total)
        self._note_lost_work(job, frac)
        if job.progress_frac is None or abs(frac - job.progress_frac) >= 0.001:
            job.progress_frac = frac
            self.touched[number] = job
        if job.set_id is not None:
            self._set_progressed(job)
        if left_s is None or job.account is None or job.status is not Status.RUNNING:
            return
        if self.built is not None and self.built.kind == "nodes":
            left_s /= self._speed(job)
        if differs(left_s, self._believed_left(job)):
            self.pending.believed.append((number, left_s))

    def set_policy(
        self, text: str, user: str, front: dict[str, Any] | None = None, cause: str | None = None
    ) -> None:
        """Decide by another policy from now on; what runs goes on. Raises PolicyError.

        front: the point of a front that it is; cause: if it is not the user.
        """
        kind, _ = kind_of(text)
        whole = next((job.job_id for job in self.ledger.jobs.values() if job.trials is not None), None)
        if kind == NODES and whole is not None:
            raise Conflict(
                f"policy {text}: job {whole} is a set of trials, which needs a policy for a pool; "
                f"wait for it, or `betimes cancel {whole}`"
            )
        before = self.ledger.policy or None
        self._settle_up()
        if self.built is not None and kind != self.built.kind:
            self._hand_over(kind)
        self._rebuild(text, before)
        accounts = {
            str(number): asdict(account)
            for number, account in (self.built.accounts if self.built else {}).items()
        }
        cause = cause or (f"user:{user}" if user != "operator" else user)
        said: Any = {} if front is None else {"front": front}
        self._log("policy-set", cause, policy=text, accounts=accounts, **said)
        self.pending.look = True

    def note_tuning(self, kind: str, cause: str, **data: Any) -> int:
        """A search has begun or ended: `tuning`, `tuned` or `not-tuned`; returns the event's number."""
        number = self.ledger.next_event
        self._log(kind, cause, **data)
        return number

    # --- the decision -------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let the policy decide about what has happened."""
        self._wake_up()
        self._let_go()
        self._look_at_sets()
        if self._holds_in_vain():
            self._nodes_changed()
        reported = [number for number, _ in self.pending.believed]
        learnt = self._learn()
        what, self.pending = self.pending, Happened()
        if self.stands_by:  # what has come waits for the policy
            self.pending.wanted, what.wanted = what.wanted, []
        rounds: list[Round] = self.engine.happen(self.now_s, what)
        for wanted in what.wanted:
            self.agenda.entering.discard(wanted.job)
            account = asdict(self.engine.account(wanted.job))
            job = self.ledger.jobs[wanted.job]
            self._log(
                "queued", "policy", wanted.job, account=account, believed_s=job.believed_s, basis=job.basis
            )
        for news in learnt:
            self._log_news(news)
        for number in reported:
            if number in self.ledger.jobs:
                self._log("believed", "progress", number, account=self._account(number), basis="progress")
        for number in what.gone:
            self._log_waits(self.ledger.jobs[number])
        self._note(rounds)
        self._share_sets()
        self._launch()
        self._say_if_idle(rounds)

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
        """The state to be played forward in any thread; with one more job, number 0, and what its run time rests on.

        Raises Refused or Unknown for the job, Unavailable while the policy is being compiled.
        """
        now_s = max(now_at, self.now_at) - self.ledger.epoch_at
        if spec is not None:
            self.check(spec)
        if self.stands_by:
            raise Unavailable(
                f"compiling policy {self.ledger.policy}: nothing can be foreseen until that is done; "
                "ask again in a moment"
            )
        if spec is None:
            return self.engine.foresee(now_s), ""
        believed = self.ledger.run_times.believed(user, spec.title, spec.told_s)
        run_s = full_run_s(believed.seconds, spec) if spec.as_one else believed.seconds
        wanted = wanted_for(0, set_spec(spec) if spec.as_one else spec, run_s)
        return self.engine.foresee(now_s, wanted), believed.basis

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
