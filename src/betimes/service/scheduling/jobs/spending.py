"""What users spend on machines that are rented for their jobs alone, against their budgets."""

from __future__ import annotations

from typing import Any

from betimes.cluster import Offer
from betimes.cluster.billing import Prices, lease_usd
from betimes.cluster.tasks import job_tasks
from betimes.service.engines.dedicated_machines import machines_holding, rooms_of, shapes_of
from betimes.service.machines.budgets import month_of
from betimes.service.scheduling.decisions.policy_engine import PolicyEngine
from betimes.service.scheduling.jobs import reasons
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.job_spec import JobSpec


class Spending:
    """Counts what machines that have gone have cost in this month, and what those that are rented now are to cost."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine

    def spent_usd(self, user: str) -> float:
        """What a user's jobs have spent in this month, with what is expected of the machines that they have now."""
        ledger = self._state.ledger
        rentals = [job.rental.expected_usd for job in ledger.jobs.values() if job.rental and job.user == user]
        return ledger.spent_usd.get(user, {}).get(month_of(self._state.now_at), 0.0) + sum(rentals)

    def over_budget(self, user: str, usd: float) -> dict[str, Any] | None:
        """Why nothing more is rented for a user that is expected to cost so much; null: it is within the budget."""
        budget_usd = self._engine.settings.budgets.of(user)
        spent_usd = self.spent_usd(user)
        if spent_usd + usd <= budget_usd:
            return None
        return reasons.over_budget(user, budget_usd, spent_usd, usd, month_of(self._state.now_at))


def rented_usd(spec: JobSpec, offer: Offer, run_s: float) -> float:
    """What machines for one job alone cost that run it for `run_s`, from the request until they are gone."""
    (machine,) = rooms_of(shapes_of([offer]))
    count = machines_holding(job_tasks(spec.unit, spec.max_units, spec.task_choice, (machine,)), machine)
    until_s = offer.boot_s + offer.setup_s + run_s + offer.release_s
    since_s = offer.billing.since_s(0.0, offer.boot_s)
    return float(count * lease_usd(offer.billing, Prices(offer.charged_usd_per_h), since_s, until_s))
