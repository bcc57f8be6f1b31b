"""Reports of executors and jobs about runs: started, ended, resized, and how far they have got."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from betimes.errors import Conflict
from betimes.service.scheduling import reasons
from betimes.service.scheduling.beliefs import ProgressRate, differs
from betimes.service.scheduling.engine_renewal import EngineRenewal
from betimes.service.scheduling.events import Ended, NodeFault, Report, RunId, Started
from betimes.service.scheduling.job import Job, Places, Run
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.run_ends import Next, what_follows
from betimes.service.scheduling.runs import Restated, Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.throughputs import LEAST_BESIDE_S, SAME_FRAC, RelativeThroughput
from betimes.service.scheduling.trials import TrialSets

MOST_LOSSES = 10  # of a job's runs in a row, each with its machine
NOTICED_S = 1.0  # the service's clock and a supervisor's may differ by less unnoticed
LEAST_PROGRESS_FRAC = 0.001  # that is worth a row


class ReportHandling:
    """From reports to transitions of jobs. A report of any but the job's present run has no effect."""

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        jobs: Jobs,
        runs: Runs,
        sets: TrialSets,
        renewal: EngineRenewal,
        drain: Callable[[NodeFault], None],
    ) -> None:
        self._state, self._engine = state, engine
        self._jobs, self._runs = jobs, runs
        self._sets, self._renewal, self._drain = sets, renewal, drain
        self._rates: dict[int, ProgressRate] = {}  # by job
        self._throughputs: dict[int, RelativeThroughput] = {}  # by job, under policies that learn them
        self._repaced: set[int] = set()

    def take(self, report: Report) -> None:
        """Handle an executor's report."""
        if isinstance(report, Started):
            self.started(report)
        elif isinstance(report, Ended):
            self.ended(report)
        elif (job := self._state.job_of(report.run)) is not None:
            number, message = report.run.number, report.message
            self._state.log("trouble", "executor", job.job_id, number=number, message=message)

    def started(self, report: Started) -> None:
        """A run's command runs."""
        job = self._state.job_of(report.run)
        if job is None or job.run is None or job.run.started_at is not None:
            return
        more: dict[str, Any] = {}
        if report.ago_s >= NOTICED_S:
            more["started_at"] = max(job.run.decided_at, self._state.now_at - report.ago_s)
        self._state.log(
            "started", "executor", job.job_id, number=report.run.number, adopted=report.adopted, **more
        )
        self._rate_of(job.job_id).begin(self._state.now_at, self._engine.speed(job) * self._engine.pace(job))
        self._state.note_run(job, limited_by=report.memory_limited_by)
        if job.progress_frac is None:  # else it gets on when it reports progress
            self._renewal.note_restart(job)
        self._jobs.started(job)

    def ended(self, report: Ended) -> None:
        """Nothing of a run is left."""
        job = self._state.job_of(report.run)
        if job is None or job.run is None:
            return
        for fault in report.faults:  # first, so that the job does not start there again
            self._drain(fault)
        run, asked = job.run, job.run.stopping
        outcome = {"stopped": asked or "stopped"}.get(report.why, report.why)
        ended_at, slack_s, more = self._when(run, report)
        rate = self._engine.rate(job)
        self._runs.expect_again(job, "executor")
        ran_s = more.get("run_s", run.ran_s(ended_at))
        self._state.note_run(job, report, outcome, ended_at=ended_at, ran_s=ran_s)
        self._state.log(
            "ended",
            "executor",
            job.job_id,
            number=run.number,
            outcome=outcome,
            exit_code=report.exit_code,
            signal=report.signal,
            message=report.message,
            **more,
            **self._runs.cost_of_leaving(job, ended_at, worked_on=report.why == "exited"),
        )
        self._runs.log_move_over(job)
        self._runs.release(report.run)
        self._go_on(job, report, asked, rate, slack_s)

    def give_up(self, of: RunId, error: str) -> None:
        """End a run whose end could not be handled: its nodes are free, and its job is over, as failed or cancelled.

        error: why it could not. Nothing is learned from such a run.
        """
        job = self._state.job_of(of)
        if job is None or job.run is None:
            return
        run, now_at, reason = job.run, self._state.now_at, reasons.end_not_handled(error)
        report = Ended(of, now_at, None, why="lost", message=reason["text"])
        self._state.note_run(job, report, report.why, ended_at=now_at, ran_s=run.ran_s(now_at))
        how = {"outcome": report.why, "exit_code": None, "signal": None, "message": report.message}
        self._state.log("ended", "recovery", job.job_id, number=run.number, **how)
        self._runs.release(of)
        if run.stopping == "cancelled":
            self._jobs.end_cancelled(job)
        else:
            self._jobs.end(job, "failed", reason, "recovery")

    def _when(self, run: Run, report: Ended) -> tuple[float, float, dict[str, Any]]:
        """A run's end, the time by which it ran less than the service's clock shows, and data for its event.

        The supervisor's record counts where it differs noticeably.
        """
        now_at, more = self._state.now_at, dict[str, Any]()
        ended_at = now_at
        if report.ago_s >= NOTICED_S:
            if run.started_at is None and report.run_s is not None:
                run.started_at = more["started_at"] = max(
                    run.decided_at, now_at - report.ago_s - report.run_s
                )
            took_s = report.run_s or 0.0  # it began a little before the service knew
            least_at = min(now_at, (run.started_at or run.decided_at) + took_s)
            ended_at = more["ended_at"] = max(least_at, now_at - report.ago_s)
        if report.run_s is None or run.started_at is None:
            return ended_at, now_at - ended_at + run.paused_s(now_at), more
        slack_s = now_at - run.started_at - report.run_s
        if slack_s < NOTICED_S:
            return ended_at, 0.0, more
        return ended_at, slack_s, more | {"run_s": report.run_s}

    def resized(self, run: RunId, units: int, places: Places, done: bool) -> None:
        """The executor has given a run its new width, or reports that it must be restarted."""
        job = self._runs.resized(run, units, places, done)
        if job is None:
            return
        if (rate := self._rates.get(job.job_id)) is not None:
            rate.resize(self._state.now_at, self._engine.speed(job) * self._engine.pace(job))
        self._state.note_run(job)

    def progressed(self, number: int, attempt: int, done: float, total: float) -> None:
        """A run reports its progress. Raises Unknown, Conflict."""
        job = self._state.live_job(number, "updated")
        if job.run is None or job.run.number != attempt:
            raise Conflict(
                f"job {number}, attempt {attempt} is over; only the present attempt reports progress"
            )
        now_at = self._state.now_at
        self._measure(job, attempt, done)
        left_s = self._rate_of(number).report(now_at - job.run.paused_s(now_at), done, total)
        self._renewal.note_restart(job)
        frac = min(1.0, done / total)
        self._runs.log_lost_work(job, frac)
        if job.progress_frac is None or abs(frac - job.progress_frac) >= LEAST_PROGRESS_FRAC:
            job.progress_frac = frac
            self._state.note_changed(job)
        if job.set_id is not None:
            self._sets.note_progress_of(job)
        if left_s is None or job.account is None or job.status is not Status.RUNNING:
            return
        if job.is_suspended:
            return  # the report was under way
        if self._engine.is_nodes:
            left_s /= self._engine.speed(job)
        if differs(left_s, self._engine.believed_left_s(job)):
            self._engine.believe(number, left_s)

    def forget(self, number: int) -> None:
        """A job is over."""
        self._rates.pop(number, None)
        self._throughputs.pop(number, None)

    def _measure(self, job: Job, attempt: int, done: float) -> None:
        """Pass a job's throughput beside those that share its machines to a planner."""
        if not self._engine.learns_throughputs or job.run is None:
            return
        occupancy, nodes, number = self._state.occupancy, self._state.ledger.nodes, job.job_id
        beside = {run.job for name, _ in job.run.places for run in occupancy.runs_on(name)} - {number}
        on = tuple(sorted({nodes[name].machine.type for name, _ in job.run.places if name in nodes}))
        seen = self._throughputs.setdefault(number, RelativeThroughput.of(job.alone_per_s, job.alone_on))
        pace_on = partial(self._engine.pace_on, job)
        throughput = seen.report(self._state.now_at, attempt, done, frozenset(beside), on, pace_on)
        alone_per_s, known_per_s = seen.alone_per_s(on), job.alone_per_s if job.alone_on == on else None
        if (
            not beside
            and alone_per_s is not None
            and not math.isclose(alone_per_s, known_per_s or 0.0, rel_tol=SAME_FRAC)
        ):
            self._state.log("measured", "executor", number, alone_per_s=alone_per_s, on=on)
            self._learn_speeds()
        if throughput is not None:
            self._engine.measure(number, throughput, frozenset(beside))

    def _learn_speeds(self) -> None:
        """Types of machines may have turned out to be faster or slower: jobs there are expected to end accordingly.

        Work that a job is believed to have left by its reports was counted at the speed before.
        """
        now_at = self._state.now_at
        for number, ratio in self._engine.learn_speeds().items():
            job = self._state.ledger.jobs[number]
            left_s = self._engine.believed_left_s(job)
            self._engine.believe(number, left_s * ratio if job.basis == "progress" else left_s)
            self._repaced.add(number)
            if number in self._rates and job.run is not None:
                self._rates[number] = rate = ProgressRate(LEAST_BESIDE_S)  # until then the belief is good
                rate.begin(
                    now_at - job.run.paused_s(now_at), self._engine.speed(job) * self._engine.pace(job)
                )

    def take_repaced(self) -> dict[int, Restated]:
        """The jobs whose speed has turned out to be another since the last call."""
        repaced, self._repaced = self._repaced, set()
        return dict.fromkeys(repaced, Restated("progress"))

    def _rate_of(self, number: int) -> ProgressRate:
        return self._rates.setdefault(number, ProgressRate())

    def _go_on(self, job: Job, report: Ended, asked: str | None, rate: float, slack_s: float) -> None:
        """Carry out what follows for a job.

        asked: why the run was stopping, if it was. rate, slack_s: as of `Jobs.finish`.
        """
        jobs = self._jobs
        match what_follows(report, asked):
            case Next.FINISHED:
                jobs.finish(job, rate, slack_s)
            case Next.CANCELLED:
                jobs.end_cancelled(job)
            case Next.STOPPED:
                jobs.stopped(job)
            case Next.SPECULATED:
                jobs.requeue(job, keeps=job.units > 0)
            case Next.REQUEUED:
                jobs.interrupted(job, reasons.requeued())
            case Next.MOVED:
                jobs.interrupted(job, job.reason or reasons.requeued())
            case Next.NOT_BEGUN if job.losses >= MOST_LOSSES:
                jobs.end(job, "failed", reasons.not_begun_again(job.losses + 1, report.message))
            case Next.NOT_BEGUN:
                jobs.interrupted(job, reasons.not_begun(report.message), has_begun=False)
            case Next.LOST if job.losses >= MOST_LOSSES:
                jobs.end(job, "failed", reasons.lost_again(job.losses + 1, report.message))
            case Next.LOST if job.rental is not None:
                jobs.start_again(job, reasons.lost(report.message))
            case Next.LOST:
                jobs.interrupted(job, reasons.lost(report.message))
            case Next.RETRIED if job.failures < job.spec.retries:
                jobs.retry(job, report)
            case Next.RETRIED_IF_ASKED if job.spec.requeue and job.failures < job.spec.retries:
                jobs.retry(job, report)
            case Next.RETRIED_IF_ASKED:
                jobs.end(job, "failed", reasons.unknown_end(report.message, job.spec.requeue))
            case Next.RETRIED | Next.FAILED:
                how = reasons.failed(report.why, report.exit_code, report.signal, report.message)
                jobs.end(job, "failed", how)
