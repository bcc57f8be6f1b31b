"""The instant before which a job certainly does not begin, whatever was learned of others.

What it says is the present state's: an edit, a release, or maintenance that is called off makes it another one.
"""

from __future__ import annotations

import math

from betimes.cluster.cluster import first_opening
from betimes.cluster.labels import suits
from betimes.cluster.shapes import Room
from betimes.service.engines.dedicated_machines import times_on
from betimes.service.scheduling.admission import can_be_rented
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.user_budgets import UserBudgets
from betimes.service.spec.job_spec import parse_after


class EarliestStarts:
    """Of jobs that are there, and of ones that are not submitted."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine, budgets: UserBudgets) -> None:
        self._state, self._engine, self._budgets = state, engine, budgets

    def of(self, job: Job, now_at: float) -> float:
        """The earliest instant at which the job may begin; now, where it runs or nothing keeps it."""
        earliest_at: dict[int, float] = {}
        path, jobs = {job.job_id: job}, self._state.ledger.jobs
        while path:  # a loop: dependencies may be a chain of any length
            number, last = next(reversed(path.items()))
            waits_for = [] if self._has_begun(last) else self._waits_for(last)
            next_ = next((n for n in waits_for if n in jobs and n not in earliest_at and n not in path), None)
            if next_ is not None:
                path[next_] = jobs[next_]
                continue
            del path[number]
            first_at = max((earliest_at[n] for n in waits_for if n in earliest_at), default=now_at)
            earliest_at[number] = self._itself(last, max(now_at, first_at))
        return earliest_at[job.job_id]

    def _waits_for(self, job: Job) -> list[int]:
        found = [parse_after(text)[0] for text in job.spec.after]
        if job.spec.singleton and (first := self._state.job_index.first_named(job.user, job.spec.title)):
            found.append(first)
        return found

    def _has_begun(self, job: Job) -> bool:
        return job.status in (Status.RUNNING, Status.STOPPING) or job.run is not None

    def _itself(self, job: Job, from_at: float) -> float:
        if self._has_begun(job) or job.status.is_over:
            return from_at
        short = self._budgets.spent.get(job.user)
        spent_until_at = short.until_at if short is not None and job.rental is None else from_at
        # Only the specification has it of a job that is not submitted yet.
        begin_at = max(job.not_before_at, job.spec.begin_at or 0.0)
        return self._opening(job, max(from_at, begin_at, spent_until_at))

    def _opening(self, job: Job, from_at: float) -> float:
        """The instant at which a node takes it; one to be rented takes it at any time. Where none ever will, now."""
        if not self._engine.may_close:
            return from_at
        spec, lasts_s = job.spec, self._engine.lasts_s(job)
        offers = (*(self._engine.offers_for_jobs or ()), *self._engine.shared_offers)
        if lasts_s <= self._engine.longest_run_s and spec.rent != "never" and can_be_rented(spec, offers):
            return from_at
        closings = (
            self._engine.closings_on(node, job.user)
            for node in self._state.ledger.nodes.values()
            if node.takes_work
            and suits(node.labels, spec.required)
            and times_on(Room(node.capacity, node.family), spec.unit.amounts_on(node.family))
        )
        opens_at = first_opening(closings, from_at, lasts_s)
        return from_at if opens_at == math.inf else opens_at
