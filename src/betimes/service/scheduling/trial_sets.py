"""Sets of trials: the policy gives units to the set, and here they become runs of its trials.

The trials that started last give their units up first, and the next ones in order take what is free. What a set is to
the engine follows its trials: how many units it can use, and how much work is left (docs/notes/trials.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from betimes.service import reasons
from betimes.service.engines.moves import Wanted
from betimes.service.job import Job
from betimes.service.node import UP
from betimes.service.scheduling.job_lifecycle import JobLifecycle
from betimes.service.spec import JobSpec, parse_after, parse_array
from betimes.service.trial_set import TrialSet, full_run_s, set_spec, trial_spec
from betimes.service.views import Status
from betimes.twin.trials import SLACK, is_news, usual_s, work_left


class TrialSets(JobLifecycle):
    """What becomes of sets and of their trials."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.changed: set[int] = set()  # sets of which a trial is over, or may run again
        self.to_share: dict[int, tuple[int, ...]] = {}  # sets to look at; who takes what they give up

    # --- what users want -----------------------------------------------------------------------------------------

    def _submit_set(self, spec: JobSpec, user: str) -> list[int]:
        """Take an array as one job; its trials have the numbers that follow."""
        number, whole = self.ledger.next_job, set_spec(spec)
        believed = self.ledger.run_times.believed(user, spec.title, spec.told_s)
        indices, _ = parse_array(spec.array or "")
        common: dict[str, Any] = {"user": user, "basis": believed.basis, "array_id": number}
        trials = TrialSet(len(indices), believed.seconds, whole.max_units, whole.max_units)
        data: dict[str, Any] = {
            **common,
            "spec": _text(whole),
            "believed_s": full_run_s(believed.seconds, spec),
            "trials": asdict(trials),
        }
        follows = next((n for n, _ in map(parse_after, spec.after) if self._ended_as(n) is None), None)
        if follows is not None:
            data["reason"] = reasons.after(follows)
        job = self._log("submitted", f"user:{user}", number, **data)
        each = {**common, "spec": _text(trial_spec(spec)), "believed_s": believed.seconds, "set_id": number}
        for index in indices:
            self._log("submitted", f"user:{user}", self.ledger.next_job, **each, array_index=index)
        for trial in range(number + 1, self.ledger.next_job):
            self._admit(self.ledger.jobs[trial])
        if spec.hold:
            self._log("held", f"user:{user}", number, reason=reasons.by_user(user))
        elif job is not None:
            self._admit(job)
        return [number]

    def _cancel_set(self, job: Job, user: str) -> None:
        """End what is left of a set: it is over when the last of its runs has left."""
        trials = [self.ledger.jobs[number] for number in sorted(self.sets.of[job.job_id].live)]
        running = [each for each in trials if each.run is not None and each.run.launched]
        for each in trials:
            if each not in running:
                self._over(each, "cancelled", reasons.cancelled(user), f"user:{user}")
        if not running:
            self.changed.add(job.job_id)
            return
        by_at = self.now_at + job.spec.grace_s
        self._log_told(job, "cancelled", f"user:{user}", by_at, reasons.told("cancelled", by_at))
        for each in running:
            self._stop(each, "cancelled", f"user:{user}")

    def _set_progressed(self, trial: Job) -> None:
        """A trial says how far it has come."""
        job = self.ledger.jobs[trial.set_id or 0]
        self._note_progress(job)
        self._note_belief(job)

    # --- the ways of trials --------------------------------------------------------------------------------------

    def _admit(self, job: Job) -> None:
        if job.set_id is None:
            super()._admit(job)
        elif job.status is Status.BLOCKED and job.not_before_at <= self.now_at:
            self._log("queued", "policy", job.job_id, believed_s=job.believed_s, basis=job.basis)
            self._make_way(job)

    def _wanted(self, job: Job) -> Wanted:
        wanted = super()._wanted(job)
        if job.trials is None:
            return wanted
        left_s = self._left(job, self.now_at)
        if job.trials.left == 1:  # as any other job
            return replace(wanted, believed_s=left_s)
        return replace(wanted, work_s=left_s)

    def _finish(self, job: Job) -> None:
        if job.set_id is None:
            super()._finish(job)
            return
        self._log("finished", "executor", job.job_id, run_s=job.ran_s)
        self._after(job)

    def _make_way(self, job: Job) -> None:
        if job.set_id is not None:
            self.changed.add(job.set_id)
            return
        super()._make_way(job)
        if job.trials is not None:
            self.to_share.setdefault(job.job_id, ())

    def _over(self, job: Job, kind: str, reason: dict[str, Any] | None, cause: str = "executor") -> None:
        if job.trials is not None:
            for number in sorted(self.sets.of[job.job_id].live):  # what it was to follow did not succeed
                super()._over(self.ledger.jobs[number], kind, reason, cause)
        super()._over(job, kind, reason, cause)

    def _lose(self, job: Job, reason: dict[str, Any]) -> None:
        if job.set_id is None:
            super()._lose(job, reason)
        else:
            self._log_waits(job, reason)

    def _log_waits(self, job: Job, reason: dict[str, Any] | None = None) -> None:
        if job.set_id is None:
            super()._log_waits(job, reason)
            return
        keeps = reason is None and job.units > 0
        self._log("waits", "executor", job.job_id, keeps_units=keeps, reason=reason or job.reason)
        self.to_share.setdefault(job.set_id, ())

    # --- what becomes of sets ------------------------------------------------------------------------------------

    def _look_at_sets(self) -> None:
        """Before the policy decides: sets are over with their last trial, or can use more units, or fewer."""
        for number in sorted(self.changed):
            job = self.ledger.jobs.get(number)
            if job is None or job.trials is None or job.status.is_over:
                continue
            if job.trials.left == 0:
                self._set_over(job, job.trials)
                continue
            self._note_progress(job)
            self._note_belief(job)
            self._note_width(job)
            self.to_share.setdefault(number, ())
        self.changed.clear()

    def _set_over(self, job: Job, trials: TrialSet) -> None:
        if trials.end != "finished":
            self._over(job, trials.end, reasons.trials(trials), job.cancelled_by or "executor")
            return
        self._leave_engine(job)
        self._log("finished", "executor", job.job_id, run_s=trials.taken_s)
        self._after(job)

    def _note_width(self, job: Job) -> None:
        """A set with nothing but trials that wait for a retry keeps a unit for them."""
        width = (
            max(1, min(job.trials.most, len(self.sets.of[job.job_id].able))) if job.trials is not None else 0
        )
        if job.trials is None or width == job.trials.width:
            return
        self._log("width", "policy", job.job_id, units=width)
        if job.account is not None:
            self.pending.widths.append((job.job_id, width))
        elif job.job_id in self.agenda.entering:
            self.pending.wanted = [
                self._wanted(job) if wanted.job == job.job_id else wanted for wanted in self.pending.wanted
            ]

    def _note_belief(self, job: Job) -> None:
        if job.account is None:
            return
        left_s = self._left(job, self.now_at)
        self.pending.believed = [one for one in self.pending.believed if one[0] != job.job_id]
        if is_news(left_s, self._believed_left(job)):
            self.pending.believed.append((job.job_id, left_s * SLACK))

    def _note_progress(self, job: Job) -> None:
        if job.trials is None:
            return
        jobs, begun = self.ledger.jobs, self.sets.of[job.job_id].begun
        done = job.trials.finished + math.fsum(jobs[number].progress_frac or 0.0 for number in begun)
        if done > 0.0:
            job.progress_frac = done / job.trials.count
            self.touched[job.job_id] = job

    def _left_at(self, number: int, at_s: float) -> float | None:
        job = self.ledger.jobs[number]
        if job.trials is None:
            return None
        least_s = usual_s(job.trials.told_s, job.trials.taken_s, job.trials.finished)
        return max(self._left(job, at_s + self.ledger.epoch_at), least_s) * SLACK

    def _left(self, job: Job, at: float) -> float:
        """Work that its trials have left at an instant, as far as is known, seconds on one unit."""
        if job.trials is None:
            raise ValueError(f"internal: job {job.job_id} is no set of trials")
        elements, begun = self.sets.of[job.job_id], list[tuple[float, float]]()
        for number in sorted(elements.begun):
            trial = self.ledger.jobs[number]
            ran_s = trial.has_run_s(at)
            if ran_s > 0.0:
                begun.append((ran_s, trial.progress_frac or 0.0))
        trials, untouched = job.trials, len(elements.live) - len(begun)
        return work_left(trials.told_s, trials.taken_s, trials.finished, begun, untouched)

    # --- from units to runs --------------------------------------------------------------------------------------

    def _share_sets(self) -> None:
        """After the policy has decided: every unit of a set is some trial's."""
        to_share, self.to_share = self.to_share, {}
        for number in sorted(to_share):
            job = self.ledger.jobs.get(number)
            if job is not None and not job.status.is_over:
                self._share(job, to_share[number])

    def _share(self, job: Job, by: Sequence[int]) -> None:
        elements, held = self.sets.of[job.job_id], dict(job.places)
        holding = [self.ledger.jobs[number] for number in elements.holding]
        for each in sorted(holding, key=_begun_at):
            node = each.places[0][0]
            if held.get(node, 0) > 0:
                held[node] -= 1
            else:
                self._take_unit(each, by)
        for node, free in held.items():
            if self.ledger.nodes[node].status != UP:
                continue
            for _ in range(free):
                number = elements.next()
                if number is None:
                    return
                self._log("granted", "policy", number, units=1, places=[(node, 1)])

    def _take_unit(self, trial: Job, by: Sequence[int]) -> None:
        self._log("granted", "policy", trial.job_id, units=0, places=[])
        run, grace_s = trial.run, trial.spec.grace_s
        if run is not None and run.launched and run.stopping is None:
            self._preempt(trial, grace_s, self.now_at + grace_s, by, {})

    def _shed(self) -> None:
        """Sets give up units on nodes that take nothing new, where none of their trials runs any more."""
        for job in list(self.ledger.jobs.values()):
            if job.trials is None or job.account is None:
                continue
            places = [(node, self._in_use(job, node, units)) for node, units in job.places]
            places = [(node, units) for node, units in places if units]
            if places != job.places:
                units = sum(held for _, held in places)
                account = self._account(job.job_id)
                self._log("granted", "policy", job.job_id, units=units, places=places, account=account)
                self.to_share.setdefault(job.job_id, ())

    def _in_use(self, job: Job, name: str, units: int) -> int:
        node = self.ledger.nodes.get(name)
        if node is not None and node.status == UP:
            return units
        trials = (self.ledger.jobs[number] for number in self.sets.of[job.job_id].holding)
        return sum(
            1 for each in trials if each.places[0][0] == name and each.run is not None and each.run.launched
        )

    def _holds_in_vain(self) -> bool:
        """Whether a set has units that no trial may take."""
        for number in self.to_share:
            job = self.ledger.jobs.get(number)
            if job is not None and any(self._in_use(job, node, units) < units for node, units in job.places):
                return True
        return False


def _begun_at(trial: Job) -> tuple[float, int]:
    """Who started first; one that is to start again, once it has stopped, comes last."""
    run = trial.run
    goes_on = run is not None and run.stopping is None
    return (run.decided_at if goes_on and run is not None else math.inf), trial.job_id


def _text(spec: JobSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude_defaults=True)
