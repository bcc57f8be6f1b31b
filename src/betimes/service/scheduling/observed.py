"""Jobs about which another scheduler decides: what is seen of them becomes the events that a decision here would be."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from betimes.errors import Refused
from betimes.service.scheduling.engine_factory import Observed
from betimes.service.scheduling.events import Ended, RunId
from betimes.service.scheduling.job import Job, Places
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import WATCHES, PolicyEngine
from betimes.service.scheduling.promises import PLANNED
from betimes.service.scheduling.reasons import reason
from betimes.service.scheduling.reports import ReportHandling
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.job_spec import JobSpec

_NOT_SEEN = "it has not been seen since this service started"


class Element(NamedTuple):
    """An element of an array."""

    array: int
    place: int


class ObservedJobs(Part):
    """Jobs are logged here as they were seen, in place of what a policy decides; nothing is asked of an executor.

    A job is submitted, starts on nodes, is changed, and ends; what it waits for besides nodes keeps it from queueing.
    """

    name = "observed"

    def __init__(
        self, state: SchedulerState, engine: PolicyEngine, jobs: Jobs, runs: Runs, reports: ReportHandling
    ) -> None:
        self._state, self._engine = state, engine
        self._jobs, self._runs, self._reports = jobs, runs, reports
        # By job, why its end is not foreseen; null: nothing was seen.
        self._kept: Mapping[int, str] | None = None

    def refuses(self, spec: JobSpec, user: str) -> None:
        """Raise Refused for every job: another scheduler takes them."""
        if self._engine.watches:
            raise Refused(WATCHES)

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """The reason of a job that waits for something else than nodes, as far as was seen."""
        if not self._engine.watches:
            return None
        if self._kept is None:
            return job.reason or reason("observed", _NOT_SEEN)
        why = self._kept.get(job.job_id)
        return None if why is None else reason("observed", why)

    def learned(self, model: bytes, jobs: int) -> None:
        """Promises begin from what so many finished jobs teach."""
        self._state.log("history-learned", "slurm", model=base64.b64encode(model).decode(), jobs=jobs)

    def keep(self, kept: Mapping[int, str]) -> None:
        """These jobs wait for something else than nodes, and no others do."""
        self._kept = kept
        for job in list(self._state.ledger.jobs.values()):
            why = self.keeps_from_queueing(job, self._state.now_at)
            if job.status is Status.BLOCKED:
                self._jobs.admit(job)
            elif job.status is Status.QUEUED and why is not None:
                self._engine.withdraw(job)
                self._state.log("blocked", "slurm", job.job_id, reason=why)

    def submitted(
        self,
        number: int,
        spec: JobSpec,
        user: str,
        submitted_at: float,
        element: Element | None = None,
        runs: int = 0,
    ) -> None:
        """A job is seen for the first time, or again after it was over; runs: that it had by then."""
        more: dict[str, Any] = {"runs": runs} if runs else {}
        if element is not None:
            more |= {"array_id": element.array, "array_index": element.place}
        self._state.log(
            "submitted",
            "slurm",
            number,
            spec=spec.model_dump(mode="json", exclude_defaults=True),
            user=user,
            believed_s=spec.time_limit_s,
            basis=PLANNED,
            submitted_at=submitted_at,
            **more,
        )

    def planned(self, number: int, start_at: float) -> None:
        """Slurm plans to start a job that waits at an instant; its first answer counts, until the job is changed."""
        if self._state.ledger.jobs[number].slurm_start_at is None:
            self._state.log("slurm-planned", "slurm", number, start_at=start_at)

    def changed(self, number: int, spec: JobSpec) -> None:
        """A job asks for something else than before: what it was promised is void."""
        job = self._state.ledger.jobs[number]
        before, after = (one.model_dump(mode="json") for one in (job.spec, spec))
        changes = {name: value for name, value in after.items() if before[name] != value}
        self._state.forget_spec(job)
        self._state.log(
            "edited",
            "slurm",
            number,
            spec=spec.model_dump(mode="json", exclude_defaults=True),
            believed_s=spec.time_limit_s,
            basis=PLANNED,
            changes=changes,
            leaves=False,
            voids=bool(changes.keys() - {"name", "labels"}),
        )

    def started(self, number: int, places: Places, started_at: float) -> None:
        """A job is seen to run on these nodes since an instant; one that waited for something else waits no more."""
        state, engine = self._state, self._engine.engine
        job = state.ledger.jobs[number]
        if job.status is Status.BLOCKED:
            self._engine.withdraw(job)
            engine.enter(number, job.runtime_estimate_s, state.now_s)
            self._jobs.entered(number)
        assert isinstance(engine, Observed), "nothing else watches"
        units, since_at = sum(held for _, held in places), min(started_at, state.now_at)
        account = engine.begin(number, units, since_at - state.ledger.epoch_at)
        state.log(
            "granted",
            "slurm",
            number,
            before=0,
            units=units,
            places=places,
            units_per_task=1,
            account=account.row(),
        )
        run = job.run
        assert run is not None, "it was granted just now"
        if state.occupancy.reserve(RunId(number, run.number), job) is None:
            state.occupancy.overbook(RunId(number, run.number), job)
        state.log("launched", "slurm", number, number=run.number, units=units, places=places)
        state.log("started", "slurm", number, number=run.number, adopted=False, started_at=since_at)
        state.note_run(job)

    def ended(
        self,
        number: int,
        how: Literal["finished", "failed", "cancelled", "lost", "time-limit", "requeued"],
        ended_at: float,
        text: str,
    ) -> None:
        """A job is seen to be over since an instant, or to wait again; lost: how it ended is unknown."""
        state, job = self._state, self._state.ledger.jobs[number]
        code, cause = (how, how) if how in ("lost", "time-limit") else ("observed", "stopped")
        why, run, now_at = reason(code, text), job.run, self._state.now_at
        ended_at = min(ended_at, now_at)
        if run is not None:
            began_at = run.started_at or ended_at
            ran_s = max(0.0, ended_at - began_at)
            of = RunId(number, run.number)
            if how == "finished":
                self._reports.ended(Ended(of, ended_at, 0, ago_s=now_at - ended_at, run_s=ran_s))
                return
            state.note_run(
                job,
                Ended(of, ended_at, None, why=cause, message=text),
                how,
                ended_at=ended_at,
                ran_s=ran_s,
            )
            state.log(
                "ended",
                "slurm",
                number,
                number=run.number,
                outcome=cause,
                exit_code=None,
                signal=None,
                message=text,
                ended_at=ended_at,
                run_s=ran_s,
            )
            self._runs.release(of)
        if how == "requeued":
            self._engine.engine.lose(number, state.now_s)
            state.log("requeued", "slurm", number, reason=why, account=self._engine.account_row(number))
        elif run is None:  # it can only have been cancelled
            self._jobs.end(job, "cancelled", why, "slurm")
        else:
            self._jobs.end(job, "failed" if code == how else how, why, "slurm")
