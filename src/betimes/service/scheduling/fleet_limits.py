"""The limits that an operator sets for the rented fleet: they hold, whatever the policy decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from betimes.cluster import Offer
from betimes.cluster.billing import Prices, lease_usd
from betimes.errors import Refused
from betimes.service.machines.budgets import NOTICE_S, period_since
from betimes.service.scheduling.admission import check_nodes
from betimes.service.scheduling.charges import Charge
from betimes.service.scheduling.node import DRAINING, LOST, Node, charges
from betimes.service.scheduling.nodes import Nodes
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.reasons import reason
from betimes.service.scheduling.renting import JobRentals
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.user_budgets import LOOK_S, UserBudgets, is_reached, reached
from betimes.service.spec.job_spec import JobSpec
from betimes.units import humanise_s, instant

LEAST_USE_S = NOTICE_S + 60.0  # that a machine is rented for


class Ending(NamedTuple):
    """A machine that has to go by a limit: draining from `notice_at` on, gone by `end_at`."""

    node: str
    notice_at: float
    end_at: float
    text: str
    budget: dict[str, Any] | None = None  # that is at its end, as `reached` has it; null: another limit


class LimitsOfFleet:
    """Compares the fleet with the operator's limits."""

    def __init__(self, state: SchedulerState, engine: PolicyEngine, users: UserBudgets) -> None:
        self._state, self._engine = state, engine
        self._users = users

    @property
    def _rented(self) -> dict[str, Node]:
        others = self._state.nodes_in_brief.others
        return {node.machine.name: node for node in others if node.rented_at is not None}

    def charges(self, until_at: float) -> list[Charge]:
        """The charge for the fleet if it is kept until an instant, beside what has been charged."""
        offers = self._engine.settings.offers
        return [each for node in self._rented.values() for each in charges(node, offers, until_at)]

    def spent_usd(self, period: str, now_at: float, ahead_s: float = 0.0) -> float:
        """The cost of all rented machines in the day or month of an instant, if all is kept for so much longer."""
        since_at = period_since(period, now_at)
        charged = self._state.ledger.gone_usd.get(f"{period} {since_at:.0f}", 0.0)
        return charged + sum(each.usd_in(since_at) for each in self.charges(now_at + ahead_s))

    def why_no_more(self, offer: Offer | None = None, count: int = 1, held: int | None = None) -> str | None:
        """Why machines may not be rented now; null: they may.

        offer: of these machines; null: of the cheapest. held: how many there are; null: those in the log.
        """
        settings = self._engine.settings
        most, held = settings.fleet.most_machines, len(self._rented) if held is None else held
        if most is not None and held + count > most:
            return f"the largest fleet is {most} machine{'' if most == 1 else 's'} (--most-machines); {held} rented"
        return self.why_spent(offer, count, held)

    def why_spent(self, offer: Offer | None = None, count: int = 1, held: int = 0) -> str | None:
        """Why the fleet's budgets do not allow for so many machines more; null: they do. As `why_no_more`."""
        settings = self._engine.settings
        if not settings.budgets.usd_by_period:
            return None
        least_usd = {each.type: _least_usd(each) for each in settings.offers}
        new_usd = min(least_usd.values(), default=0.0) if offer is None else least_usd[offer.type]
        # Those that boot, and those asked for a moment ago, have cost nothing so far.
        booting = [node.machine.type for node in self._rented.values() if node.up_at is None]
        to_come_usd = sum(least_usd.get(type_, 0.0) for type_ in booting)
        to_come_usd += new_usd * (count + max(0, held - len(self._rented)))
        now_at = self._state.now_at
        for period, budget_usd in settings.budgets.usd_by_period.items():
            holds = is_reached(self._state.ledger, None, period, budget_usd, now_at)
            if holds or self.spent_usd(period, now_at, NOTICE_S) + to_come_usd > budget_usd:
                return f"the budget of ${budget_usd:g} a {period} is spent"
        return None

    def endings(self) -> Iterator[Ending]:
        """The machines that have to go, now or at a known time."""
        settings, rented = self._engine.settings, self._rented
        longest_s = settings.fleet.longest_lease_s
        if longest_s is not None:
            text = f"the longest lease of {longest_s:g} s (--longest-lease) is over"
            for name, node in rented.items():
                end_at = (node.rented_at or 0.0) + longest_s
                yield Ending(name, end_at - settings.fleet.notice_s, end_at, text)
        for period, budget_usd in settings.budgets.usd_by_period.items():
            now_at = self._state.now_at
            if not 0.0 < budget_usd <= self.spent_usd(period, now_at, NOTICE_S):
                continue
            is_spent = self.spent_usd(period, now_at, LOOK_S) >= budget_usd
            end_at = now_at if is_spent else now_at + NOTICE_S - LOOK_S  # or later, as others go
            budget = reached(None, period, budget_usd, now_at)
            for name in rented:
                yield Ending(
                    name, now_at, end_at, f"the budget of ${budget_usd:g} a {period} is spent", budget
                )
        yield from self._endings_for_users()

    def _endings_for_users(self) -> Iterator[Ending]:
        """Those rented for one job alone whose user's budget is at its end."""
        alone = {name: node.for_user for name, node in self._rented.items() if node.for_user is not None}
        if not alone or not self._users.are_given:
            return
        now_at = self._state.now_at
        spent = {user for user, _ in self._users.gone(set(alone.values()), LOOK_S)}
        for user, short in self._users.gone(sorted(set(alone.values())), NOTICE_S):
            end_at = now_at if user in spent else now_at + NOTICE_S - LOOK_S
            for name in (name for name, each in alone.items() if each == user):
                yield Ending(name, now_at, end_at, short.text, short.reached(now_at))

    def next_at(self) -> float:
        """The instant to look at a limit next; infinity: not before a machine comes."""
        now_at, rented = self._state.now_at, self._rented
        has_budget = bool(self._engine.settings.budgets.usd_by_period) and bool(rented)
        due = [now_at + LOOK_S] if has_budget else []
        if self._engine.settings.fleet.longest_lease_s is not None:
            for one in self.endings():
                is_noticed = rented[one.node].goes_at is not None
                due.append(one.end_at if is_noticed else one.notice_at)
        return min(due, default=math.inf)


class Leases(Part):
    """Ends leases of rented machines: when a limit of the operator's says so, or somebody."""

    name = "leases"

    def __init__(
        self,
        state: SchedulerState,
        engine: PolicyEngine,
        limits: LimitsOfFleet,
        nodes: Nodes,
        rentals: JobRentals,
    ) -> None:
        self._state, self._engine = state, engine
        self._limits, self._nodes, self._rentals = limits, nodes, rentals

    def refuses(self, spec: JobSpec, user: str) -> None:
        """A job that is longer than the lease of any machine, and asks for one at once or fits no owned one."""
        why = self.why_too_long(spec, user)
        if why is None:
            return
        if spec.rent == "now":
            rest = ", and it asks for one at once. State a shorter time, leave --rent now out, or ask for longer leases"
        elif not self._is_held_by_owned(spec):
            rest = "; no owned machine holds it. State a shorter time, or ask for longer leases"
        else:
            return
        raise Refused(why + rest, "estimate_s" if spec.time_limit_s is None else "time_limit_s")

    def _is_held_by_owned(self, spec: JobSpec) -> bool:
        nodes = self._state.ledger.nodes.values()
        owned = Counter(node.shape for node in nodes if node.rented_at is None and node.status != LOST)
        if not owned:
            return False
        try:
            check_nodes(spec, owned, self._engine.kind or "pool")
        except Refused:
            return False
        return True

    def why_too_long(self, spec: JobSpec, user: str) -> str | None:
        """Why no rented machine takes a job, by its length; null: one may, or there is no cloud."""
        longest_s = self._engine.longest_run_s if self._engine.settings.offers else math.inf
        lasts_s, basis = self._state.ledger.runtime_estimates.believed(user, spec)
        if spec.time_limit_s is not None:
            lasts_s = spec.time_limit_s + spec.grace_s
        return too_long(lasts_s, longest_s, basis) if lasts_s > longest_s else None

    def next_at(self) -> float:
        """The instant to look at a limit next."""
        return self._limits.next_at()

    def before_decision(self) -> None:
        """Let machines drain, and then give them back, that have to go by a limit."""
        ledger, now_at = self._state.ledger, self._state.now_at
        for one in list(self._limits.endings()):
            node = ledger.nodes.get(one.node)
            if node is not None and one.notice_at <= now_at and node.goes_at is None:
                goes_at = max(one.end_at, now_at)
                budget: dict[str, Any] = {} if one.budget is None else {"budget": one.budget}
                self._state.log(
                    "limit-reached", "limit", node=one.node, text=one.text, goes_at=goes_at, **budget
                )
                self._nodes.set_status(one.node, DRAINING, "limit")
            if one.node in ledger.nodes and one.end_at <= now_at:
                self.end(one.node, "limit", one.text)

    def end(self, name: str, cause: str, why: str) -> None:
        """Give a machine back with what runs there, which is requeued; why: completes `given back, since`."""
        whose = self._nodes if self._state.ledger.nodes[name].is_shared else self._rentals
        whose.end_lease(name, cause, why)


def too_long(lasts_s: float, longest_run_s: float, basis: str) -> str:
    """Why no machine is rented for a job; completes `since`. basis: where its run time is from (`Basis`)."""
    takes = f"takes jobs of at most {humanise_s(longest_run_s)}" if longest_run_s else "takes no jobs"
    may_take = f"it may take {humanise_s(lasts_s)}"
    if basis == "default":
        may_take = f"it states no run time (--estimate), so that {humanise_s(lasts_s)} is assumed"
    return f"{may_take}, and a rented machine {takes} (--longest-lease)"


def outlasts(lasts_s: float, until_at: Mapping[str, float], more: str) -> dict[str, Any]:
    """The reason of a job that would not be over when the leases of these nodes end; more: what the policy may do."""
    name = max(until_at, key=until_at.__getitem__)
    text = (
        f"may take {humanise_s(lasts_s)}, and node {name} takes jobs that are over by {instant(until_at[name])}, as "
        f"its lease then ends (--longest-lease){more}"
    )
    return reason("lease", text, nodes=sorted(until_at), until_at=until_at[name])


def _least_usd(offer: Offer) -> float:
    """The least that a machine costs that is of some use."""
    since_s = offer.billing.since_s(0.0, offer.boot_s)
    until_s = offer.boot_s + offer.setup_s + LEAST_USE_S + offer.release_s
    return float(lease_usd(offer.billing, Prices(offer.charged_usd_per_h), since_s, until_s))
