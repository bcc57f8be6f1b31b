"""The account of a job's last preemption, as far as it is known when a run is asked to stop, ends, or is launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.jobs.job import Job, Places
from betimes.service.scheduling.runs.preemption_record import Preemption, nodes_held
from betimes.service.scheduling.state import SchedulerState


class PreemptionCosts:
    """What events add to that account."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine

    def of_stopping(self, job: Job, grace_s: float, by: Sequence[int]) -> dict[str, Any]:
        """A run is asked to make room for other jobs."""
        run, ledger = job.run, self._state.ledger
        if run is None:
            return {}
        nodes = self._nodes(job, run.places)
        found = Preemption(run.number, tuple(by), ledger.policy, self._state.now_at, grace_s, nodes)
        return {"preemption": found.to_json()}

    def of_leaving(self, job: Job, at: float, *, worked_on: bool) -> dict[str, Any]:
        """A run has ended; worked_on: by itself, so that no time was wasted."""
        found = job.preemption
        if found is None or job.run is None or found.run != job.run.number or found.left_at is not None:
            return {}
        return {"preemption": found.left(at, job.progress_frac, worked_on).to_json()}

    def of_resuming(self, job: Job, places: Places) -> dict[str, Any]:
        """The run that follows a preempted one is launched."""
        found = job.preemption
        if found is None or found.resumed_at is not None or job.account is None:
            return {}
        nodes = self._nodes(job, places)
        return {"preemption": found.resumed(self._state.now_at, job.account.stall_s, nodes).to_json()}

    def log_lost_work(self, job: Job, frac: float) -> None:
        """The first report of a run that follows a preempted one says where it goes on from."""
        found, run, account = job.preemption, job.run, job.account
        if found is None or found.resumed_at is None or found.lost_node_s is not None:
            return
        if run is None or run.number != found.run + 1 or account is None or found.had_frac is None:
            return
        whole_s = account.size_s / (self._engine.speed(job) if self._engine.is_pool else 1.0)
        cost = found.goes_on(frac, whole_s, self._nodes(job, run.places)).to_json()
        self._state.log("work-lost", "progress", job.job_id, number=run.number, frac=frac, preemption=cost)

    def _nodes(self, job: Job, places: Places) -> float:
        return nodes_held(places, job.spec.unit, self._state.ledger.nodes)
