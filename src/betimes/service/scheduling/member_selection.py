"""Selections of a portfolio's member: asked for when due, and put in force or refused as an event.

A selection is made outside, in a thread, while the last decision holds. One that comes too late, or for a policy that
is no longer in force, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from betimes.cluster.billing import Prices, lease_usd
from betimes.kernels import Floats
from betimes.service.engines.selection import MemberRules
from betimes.service.scheduling.effects import SelectMember
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.policy_record import PolicyRecord
from betimes.service.scheduling.state import SchedulerState
from betimes.units import S_PER_H


@dataclass(frozen=True)
class Selection:
    """The result of a selection based on the state at `at_s`. problem: why there is no choice."""

    policy: str
    at_s: float
    member: MemberRules | None = None
    problem: str | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    """The event's data; jobs: since when each waits."""


class MemberSelection(Part):
    """Asks for selections of the portfolio in force, one at a time, and puts what they choose in force."""

    name = "portfolio"

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine
        self._pending_since_s: float | None = None
        self._is_late = False

    @property
    def member(self) -> str | None:
        """The member that decides; null: none has been chosen yet, and the first does."""
        return self._state.ledger.member

    def _promised_s(self, numbers: Sequence[int]) -> Floats:
        """The first promise to each job, s; NaN: it has none."""
        ledger = self._state.ledger
        jobs = (ledger.jobs.get(number) for number in numbers)
        at = [
            math.nan if job is None or job.promised_finish_at is None else job.promised_finish_at
            for job in jobs
        ]
        return np.array(at) - ledger.epoch_at

    def after_decision(self) -> None:
        """Ask for a selection if one is due and the one before is finished."""
        snapshot, policy = self._engine.take_selection(), self._state.ledger.policy
        if snapshot is None:
            return
        if self._pending_since_s is None:
            self._pending_since_s, self._is_late = snapshot.at_s, False
            epoch_at = self._state.ledger.epoch_at
            snapshot = replace(snapshot, promised_s=self._promised_s(snapshot.job_ids))
            asked = SelectMember(policy, snapshot, self._record(), epoch_at)
            self._state.effects.append(asked)
        elif not self._is_late:
            self._is_late = True
            took_s = self._state.now_s - self._pending_since_s
            self._refuse(
                f"the selection that began {took_s:.0f} s ago is not finished", self._pending_since_s
            )

    def _record(self) -> PolicyRecord:
        """The record of the policy so far, present machines included."""
        ledger, now_at = self._state.ledger, self._state.now_at
        so_far, machine_s = ledger.record, 0.0
        offers = {offer.type: offer for offer in self._engine.settings.offers}
        for node in ledger.nodes.values():
            offer, is_its = offers.get(node.machine.type), node.by_policy or not node.is_shared
            if is_its and offer is not None and node.rented_at is not None:
                # The bill may begin with the boot, which nobody reports before the set-up is over.
                booted_at = (
                    node.rented_at + offer.boot_s if node.up_at is None else node.up_at - offer.setup_s
                )
                since_at = offer.billing.since_s(node.rented_at, booted_at)
                machine_s += float(lease_usd(offer.billing, Prices(1.0), since_at, now_at)) * S_PER_H
        return PolicyRecord(so_far.jobs, so_far.job_s, so_far.machine_s + machine_s, so_far.slowdown)

    def take(self, found: Selection) -> None:
        """Put the choice of a finished selection in force, or refuse it."""
        self._pending_since_s = None
        ledger, period_s = self._state.ledger, self._engine.selection_period_s
        if found.policy != ledger.policy or period_s is None:
            self._refuse(f"it was for policy {found.policy}, which is not in force any more", found.at_s)
        elif found.member is None:
            self._refuse(found.problem or "it has brought no choice", found.at_s)
        elif self._state.now_s > found.at_s + period_s:
            late_s = self._state.now_s - found.at_s
            self._refuse(
                f"it has taken {late_s:.0f} s, and the next is due after {period_s:.0f} s", found.at_s
            )
        else:
            name = found.member.name
            epoch_at = ledger.epoch_at
            jobs = [[number, since_s + epoch_at] for number, since_s in found.data["jobs"]]
            said = {**found.data, "jobs": jobs, "before": self.member, "from_at": found.at_s + epoch_at}
            if not found.data["shadow"] and (waits := self._engine.put_in_force(found.member)):
                said["waits_until_s"] = list(waits.items())
            self._state.log("selected", "policy", member=name, **said)

    def _refuse(self, text: str, at_s: float) -> None:
        stays = f"{self.member} stays" if self.member is not None else "the first member stays"
        at_at = at_s + self._state.ledger.epoch_at
        self._state.log("not-selected", "policy", problem=f"{text}; {stays} in force", from_at=at_at)
