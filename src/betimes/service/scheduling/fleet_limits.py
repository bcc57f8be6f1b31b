"""The limits that an operator sets for the rented fleet: they hold, whatever the policy decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from betimes.cluster import Offer
from betimes.cluster.billing import Prices, lease_usd
from betimes.service.machines.budgets import DAY, MONTH, NOTICE_S, period_name, period_since, period_until
from betimes.service.scheduling.charges import Charge
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import Node, charges_until
from betimes.service.scheduling.node_events import budget_key
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.state import SchedulerState

LOOK_S = 10.0  # between two looks at a budget while something is rented
LEAST_USE_S = NOTICE_S + 60.0  # that a machine is rented for


class Ending(NamedTuple):
    """A machine that has to go by a limit: draining from `notice_at` on, gone by `end_at`."""

    node: str
    notice_at: float
    end_at: float
    text: str
    budget: dict[str, Any] | None = None  # that is at its end, as `reached` has it; null: another limit


def reached(user: str | None, period: str, budget_usd: float, now_at: float) -> dict[str, Any]:
    """A budget at its end, as the log has it; user: null for that of all rented machines together."""
    until_at = period_until(period, now_at)
    return {"user": user, "period": period, "budget_usd": budget_usd, "until_at": until_at}


def is_reached(ledger: Ledger, user: str | None, period: str, budget_usd: float, now_at: float) -> bool:
    """Whether a budget was at its end in the present period, and is no larger since.

    Spending that was foreseen falls when what spends is stopped: without this it would start again.
    """
    found = ledger.reached.get(budget_key(user, period))
    return found is not None and now_at < found["until_at"] and budget_usd <= found["budget_usd"]


class Short(NamedTuple):
    """A budget of a user's that does not suffice for the present day or month."""

    user: str
    period: str
    budget_usd: float
    spent_usd: float
    name: str  # of the day or month
    until_at: float  # its end

    @property
    def text(self) -> str:
        """The sentence that users read."""
        return f"{self.user}'s budget of ${self.budget_usd:g} a {self.period} for rented machines is spent"

    def reached(self, now_at: float) -> dict[str, Any]:
        """It as the log has it."""
        return reached(self.user, self.period, self.budget_usd, now_at)


class UserBudgets:
    """Compares what users spend on rented machines with what they may spend.

    A machine that is rented for one job alone is paid for by that job's user. Of one that jobs share each run pays its
    share while it is there (`charges`); what nobody holds of it counts for no user.
    """

    def __init__(self, state: SchedulerState, engine: PolicyEngine) -> None:
        self._state, self._engine = state, engine
        # Users whose jobs may not begin to use shared rented machines, as of the last look.
        self.spent: dict[str, Short] = {}
        self.stops: set[str] = set()  # of them, those whose runs have to leave such machines

    @property
    def are_given(self) -> bool:
        """Whether any user has one."""
        users = self._state.ledger.users.values()
        return bool(self._engine.settings.budgets.usd_by_user) or any(
            user.limits.max_usd_per_day is not None for user in users
        )

    def of(self, user: str, period: str) -> float:
        """A user's budget of a day or a month, by the settings and the user's limits, USD; infinity: any amount."""
        known = self._state.ledger.users.get(user)
        limit = known.limits.max_usd_per_day if known is not None and period == DAY else None
        return min(self._engine.settings.budgets.of(user, period), math.inf if limit is None else limit)

    def spent_usd(self, user: str, period: str, ahead_s: float = 0.0, *, to_come: bool = False) -> float:
        """A user's spending in the present day or month, if all is kept for so much longer.

        to_come: with the rest of what the machines rented for the user's jobs alone are expected to cost.
        """
        ledger, now_at = self._state.ledger, self._state.now_at
        until_at, since_at = now_at + ahead_s, period_since(period, now_at)
        offers = self._engine.settings.offers
        spent = ledger.spent_usd.get(user, {}).get(period_name(period, now_at), 0.0)
        alone: dict[int, float] = {}
        for node in ledger.nodes.values():
            held = node.account.holdings.values()
            if node.for_user != user and not any(each.user == user for each in held):
                continue
            for charge in charges(node, offers, until_at):
                if charge.user == user:
                    spent += charge.usd_in(since_at)
                if node.for_job is not None:
                    alone[node.for_job] = alone.get(node.for_job, 0.0) + charge.usd
        for job in ledger.jobs.values() if to_come else ():
            if job.user == user and job.rental is not None:
                spent += max(0.0, job.rental.expected_usd - alone.get(job.job_id, 0.0))
        return spent

    def short_of(self, user: str, usd: float) -> Short | None:
        """The budget that does not allow machines expected to cost so much, for one job alone; null: none."""
        for period in (DAY, MONTH):
            if (budget_usd := self.of(user, period)) < math.inf:
                spent = self.spent_usd(user, period, to_come=True)
                if spent + usd > budget_usd or self._is_held(user, period, budget_usd):
                    return self._short(user, period, budget_usd, spent)
        return None

    def _is_held(self, user: str, period: str, budget_usd: float) -> bool:
        return is_reached(self._state.ledger, user, period, budget_usd, self._state.now_at)

    def held(self, users: Iterable[str]) -> Iterator[Short]:
        """The budgets of these users that were at their end in the present period."""
        for user in users:
            for period in (DAY, MONTH):
                if (budget_usd := self.of(user, period)) < math.inf and self._is_held(
                    user, period, budget_usd
                ):
                    yield self._short(user, period, budget_usd, self.spent_usd(user, period))

    def gone(self, users: Iterable[str], ahead_s: float) -> Iterator[Short]:
        """The budgets of these users that are spent if all is kept for so much longer."""
        for user in users:
            for period in (DAY, MONTH):
                if (budget_usd := self.of(user, period)) < math.inf:
                    spent = self.spent_usd(user, period, ahead_s)
                    if spent >= budget_usd:
                        yield self._short(user, period, budget_usd, spent)

    def look(self) -> dict[str, Short]:
        """Find out whose budgets are spent, under a policy whose rented machines jobs share; returns the new ones.

        As with machines nothing more begins `NOTICE_S` before, and what runs is stopped when it is spent.
        """
        self.spent, self.stops = {}, set()
        if not (self.are_given and self._engine.shared_offers):
            return {}
        users = sorted({job.user for job in self._state.ledger.jobs.values()})
        held = {short.user: short for short in self.held(users)}
        new = {short.user: short for short in self.gone(users, NOTICE_S) if short.user not in held}
        self.spent = held | new
        self.stops = {short.user for short in self.gone(sorted(self.spent), LOOK_S)}
        return new

    def next_at(self) -> float:
        """The instant to look next; infinity: not before something happens."""
        if not self.are_given:
            return math.inf
        rents = any(node.rented_at is not None for node in self._state.nodes_in_brief.others)
        due = [self._state.now_at + LOOK_S] if rents else []
        return min([*due, *(short.until_at for short in self.spent.values())], default=math.inf)

    def _short(self, user: str, period: str, budget_usd: float, spent_usd: float) -> Short:
        now_at = self._state.now_at
        name, until_at = period_name(period, now_at), period_until(period, now_at)
        return Short(user, period, budget_usd, spent_usd, name, until_at)


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
        spent = {short.user for short in self._users.gone(set(alone.values()), LOOK_S)}
        for short in self._users.gone(sorted(set(alone.values())), NOTICE_S):
            end_at = now_at if short.user in spent else now_at + NOTICE_S - LOOK_S
            for name in (name for name, user in alone.items() if user == short.user):
                yield Ending(name, now_at, end_at, short.text, short.reached(now_at))

    def next_at(self) -> float:
        """The instant to look at a limit next; infinity: not before a machine comes."""
        now_at, rented = self._state.now_at, self._rented
        has_budget = bool(self._engine.settings.budgets.usd_by_period) and bool(rented)
        due = [now_at + LOOK_S] if has_budget else [self._users.next_at()]
        if self._engine.settings.fleet.longest_lease_s is not None:
            for one in self.endings():
                is_noticed = rented[one.node].goes_at is not None
                due.append(one.end_at if is_noticed else one.notice_at)
        return min(due, default=math.inf)


def charges(node: Node, offers: Sequence[Offer], until_at: float) -> list[Charge]:
    """The charge for a rented machine that is kept until an instant, beside what has been charged."""
    return charges_until(node, charged_usd(node, offers, until_at), until_at)


def charged_usd(
    node: Node,
    offers: Sequence[Offer],
    until_at: float,
    *,
    releases: bool = False,
    usd_per_h: float | None = None,
    since_at: float | None = None,
) -> float:
    """The charge for a rented machine until an instant; releases: it is given back then, which takes a while.

    usd_per_h: at this price; null: at its price of each moment. since_at: null: from its request or boot on.
    """
    offer = next((each for each in offers if each.type == node.machine.type), None)
    if offer is None or node.rented_at is None:
        return 0.0
    booted_at = math.inf if node.up_at is None else node.up_at - offer.setup_s
    if since_at is None:
        since_at = offer.billing.since_s(node.rented_at, booted_at)
    if usd_per_h is None and node.machine.usd_per_h is None:
        usd_per_h = offer.charged_usd_per_h
    prices = node.prices if usd_per_h is None else Prices(usd_per_h)
    return float(
        lease_usd(offer.billing, prices, since_at, until_at + (offer.release_s if releases else 0.0))
    )


def _least_usd(offer: Offer) -> float:
    """The least that a machine costs that is of some use."""
    since_s = offer.billing.since_s(0.0, offer.boot_s)
    until_s = offer.boot_s + offer.setup_s + LEAST_USE_S + offer.release_s
    return float(lease_usd(offer.billing, Prices(offer.charged_usd_per_h), since_s, until_s))
