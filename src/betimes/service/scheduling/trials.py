"""Sets of trials: the policy gives units to the set, and here they become runs of its trials.

The trials that started last give their units up first, and the next ones in order take free ones. To the engine, a set
follows its trials: how many units it can use, and how much work is left (docs/notes/trials.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from betimes.service.scheduling.job import Job, TrialSet
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.node import UP
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.sets import not_all_finished
from betimes.service.scheduling.state import SchedulerState
from betimes.twin.pool.trials import SLACK, is_news


class TrialSets(Part):
    """Keeps what the engine knows of sets up to date, and shares their units out among their trials."""

    name = "trials"

    def __init__(self, state: SchedulerState, engine: PolicyEngine, jobs: Jobs, runs: Runs) -> None:
        self._state, self._engine = state, engine
        self._jobs, self._runs = jobs, runs
        self._index = state.trial_index

    # --- from trials to the engine ----------------------------------------------------------------------------

    def before_decision(self) -> None:
        """End sets with their last trial, or change their widths."""
        for number in sorted(self._index.to_review):
            job = self._state.ledger.jobs.get(number)
            if job is not None and job.trials is not None and not job.status.is_over:
                self._state.take_step("trials", number, partial(self._review, job, job.trials))
        self._index.to_review.clear()

    def _review(self, job: Job, trials: TrialSet) -> None:
        if trials.left == 0:
            self._end(job, trials)
            return
        self._note_progress(job, trials)
        self._note_work_left(job)
        self._note_width(job, trials)
        self._index.to_share.setdefault(job.job_id, ())

    def note_progress_of(self, trial: Job) -> None:
        """A trial has reported progress: its set has progressed, too."""
        job = self._state.ledger.jobs[trial.set_id or 0]
        if job.trials is not None:
            self._note_progress(job, job.trials)
        self._note_work_left(job)

    def _end(self, job: Job, trials: TrialSet) -> None:
        if trials.end != "finished":
            self._jobs.end(job, trials.end, not_all_finished(trials), job.cancelled_by or "executor")
        else:
            self._jobs.finish_set(job, trials.taken_s)

    def _note_width(self, job: Job, trials: TrialSet) -> None:
        """Log a new width; if all trials wait for a retry the set keeps a unit."""
        width = max(1, min(trials.most, len(self._index.of[job.job_id].able)))
        if width == trials.width:
            return
        self._state.log("parallelism-changed", "policy", job.job_id, units=width)
        if job.account is not None:
            self._engine.set_width(job.job_id, width)
        elif job.job_id in self._state.job_index.entering:
            self._engine.enter_anew({job.job_id})

    def _note_work_left(self, job: Job) -> None:
        if job.account is None:
            return
        left_s = self._engine.set_left_s(job, self._state.now_at)
        self._engine.retract_belief(job.job_id)
        if is_news(left_s, self._engine.believed_left_s(job)):
            self._engine.believe(job.job_id, left_s * SLACK)

    def _note_progress(self, job: Job, trials: TrialSet) -> None:
        jobs, begun = self._state.ledger.jobs, self._index.of[job.job_id].begun
        done = trials.finished + math.fsum(jobs[number].progress_frac or 0.0 for number in begun)
        if done > 0.0:
            job.progress_frac = done / trials.count
            self._state.note_changed(job)

    # --- from the units of a set to runs of its trials --------------------------------------------------------

    def after_decision(self) -> None:
        """Every unit of a set is some trial's, whose runs are launched."""
        to_share, self._index.to_share = self._index.to_share, {}
        for number in sorted(to_share):
            job = self._state.ledger.jobs.get(number)
            if job is not None and not job.status.is_over:
                self._share(job, to_share[number])

    def take_unit(self, trial: Job, by: Sequence[int] = ()) -> None:
        """Take a trial's unit, for other jobs if some are named."""
        self._state.log("granted", "policy", trial.job_id, units=0, places=[])
        run = trial.run
        if run is not None and run.launched and run.stopping is None:
            self._runs.preempt(trial, by)

    def shed(self) -> bool:
        """Let sets give up units that no trial uses on nodes that take nothing new; whether any did."""
        has_shed = False
        for number in sorted(self._index.of):
            job = self._state.ledger.jobs.get(number)
            if job is None or job.account is None:
                continue
            places = [(node, self._in_use(job, node, units)) for node, units in job.places]
            places = [(node, units) for node, units in places if units]
            if places != job.places:
                units = sum(held for _, held in places)
                account = self._engine.account_row(job.job_id)
                self._state.log("granted", "policy", job.job_id, units=units, places=places, account=account)
                self._index.to_share.setdefault(job.job_id, ())
                has_shed = True
        return has_shed

    def hold_in_vain(self) -> bool:
        """Whether a set has units that no trial may take."""
        for number in self._index.to_share:
            job = self._state.ledger.jobs.get(number)
            if job is not None and any(self._in_use(job, node, units) < units for node, units in job.places):
                return True
        return False

    def _share(self, job: Job, by: Sequence[int]) -> None:
        elements, held = self._index.of[job.job_id], dict(job.places)
        holding = [self._state.ledger.jobs[number] for number in elements.holding]
        for each in sorted(holding, key=_begun_at):
            node = each.places[0][0]
            if held.get(node, 0) > 0:
                held[node] -= 1
            else:
                self.take_unit(each, by)
        for node, free in held.items():
            if self._state.ledger.nodes[node].status != UP or self._closes(job, node):
                continue
            for _ in range(free):
                number = elements.next()
                if number is None:
                    return
                self._state.log("granted", "policy", number, units=1, places=[(node, 1)])

    def _closes(self, job: Job, name: str) -> bool:
        """Whether a node closes before another trial of the set would be over."""
        now_at, limit_s = self._state.now_at, job.spec.time_limit_s
        if job.trials is None:
            return False
        ends_at = now_at + (job.trials.runtime_estimate_s if limit_s is None else limit_s + job.spec.grace_s)
        closings = self._engine.closings_on(self._state.ledger.nodes[name], job.user)
        return any(from_at < ends_at and now_at < to_at for from_at, to_at in closings)

    def _in_use(self, job: Job, name: str, units: int) -> int:
        node = self._state.ledger.nodes.get(name)
        if node is not None and node.status == UP:
            return units
        trials = (self._state.ledger.jobs[number] for number in self._index.of[job.job_id].holding)
        return sum(
            1 for each in trials if each.places[0][0] == name and each.run is not None and each.run.launched
        )


def _begun_at(trial: Job) -> tuple[float, int]:
    """The trial that started first comes first; one that is to start again, once it has stopped, comes last."""
    run = trial.run
    goes_on = run is not None and run.stopping is None
    return (run.decided_at if goes_on and run is not None else math.inf), trial.job_id
