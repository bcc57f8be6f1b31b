"""How much work a set of trials has left: what its trials have reported, and what those that finished have taken."""

from __future__ import annotations

from betimes.service.scheduling.jobs.job import Job
from betimes.service.scheduling.state import SchedulerState
from betimes.twin.pool.trials import SLACK, usual_s, work_left


class TrialWork:
    """Work of sets, seconds on one unit."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def left(self, job: Job, at: float) -> float:
        """Work that the trials of a set have left at an instant, as far as is known."""
        if job.trials is None:
            raise ValueError(f"internal: job {job.job_id} is no set of trials")
        elements, begun = self._state.trial_index.of[job.job_id], list[tuple[float, float]]()
        for number in sorted(elements.begun):
            trial = self._state.ledger.jobs[number]
            ran_s = trial.has_run_s(at)
            if ran_s > 0.0:
                begun.append((ran_s, trial.progress_frac or 0.0))
        trials, untouched = job.trials, len(elements.live) - len(begun)
        return work_left(trials.told_s, trials.taken_s, trials.finished, begun, untouched)

    def left_at(self, number: int, at_s: float) -> float | None:
        """Work that is known to be left when a job outruns its estimate; null: it is no set, so nothing is known."""
        job = self._state.ledger.jobs[number]
        if job.trials is None:
            return None
        least_s = usual_s(job.trials.told_s, job.trials.taken_s, job.trials.finished)
        return max(self.left(job, at_s + self._state.ledger.epoch_at), least_s) * SLACK
