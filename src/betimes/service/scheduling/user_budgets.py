"""Users' budgets for rented machines, of a day and a month: their jobs wait once these are spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from betimes.errors import Refused
from betimes.service.machines.budgets import DAY, MONTH, NOTICE_S, period_name, period_since, period_until
from betimes.service.scheduling.admission import can_be_rented, rented_usd
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Jobs
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import charges
from betimes.service.scheduling.node_events import budget_key
from betimes.service.scheduling.part import Part
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.scheduling.reasons import reason
from betimes.service.scheduling.runs import Runs
from betimes.service.scheduling.state import SchedulerState
from betimes.service.spec.job_spec import JobSpec
from betimes.units import instant

LOOK_S = 10.0  # between two looks at a budget while something is rented


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
    """A budget that does not suffice for the present day or month; user: or the purse of a group."""

    user: str
    period: str
    budget_usd: float
    spent_usd: float
    name: str  # of the day or month
    until_at: float  # its end

    @property
    def text(self) -> str:
        """The sentence that users read."""
        return f"{self._whose}'s budget of ${self.budget_usd:g} a {self.period} for rented machines is spent"

    @property
    def _whose(self) -> str:
        return f"group {self.user[1:]}" if self.user.startswith("@") else self.user

    def reached(self, now_at: float) -> dict[str, Any]:
        """It as the log has it."""
        return reached(self.user, self.period, self.budget_usd, now_at)

    def forbids(self, usd: float) -> dict[str, Any]:
        """The reason of a job for which no machine is rented that is expected to cost so much."""
        when = f"{'on' if self.period == DAY else 'in'} {self.name}"
        text = (
            f"{self._whose} has spent ${self.spent_usd:,.2f} of ${self.budget_usd:,.2f} on rented machines {when}, and "
            f"this would cost about ${usd:,.2f}"
        )
        evidence = {"user": self.user, "budget_usd": self.budget_usd, "spent_usd": self.spent_usd, "usd": usd}
        return reason("budget", text, **evidence, **{self.period: self.name})

    @property
    def keeps_waiting(self) -> dict[str, Any]:
        """The reason of a job whose user may use no machines for now that the policy rents for all jobs."""
        evidence = {"user": self.user, "budget_usd": self.budget_usd, "until_at": self.until_at}
        return reason("budget", f"{self.text}; it waits until {instant(self.until_at)}", **evidence)


class UserBudgets(Part):
    """Compares what users spend on rented machines with what they may spend, and keeps their jobs to it.

    A machine that is rented for one job alone is paid for by that job's user. Of one that jobs share each run pays its
    share while it is there (`charges`); what nobody holds of it counts for no user.
    """

    name = "budgets"

    def __init__(self, state: SchedulerState, engine: PolicyEngine, jobs: Jobs, runs: Runs) -> None:
        self._state, self._engine, self._jobs, self._runs = state, engine, jobs, runs
        # Users whose jobs may not begin to use shared rented machines, as of the last look.
        self.spent: dict[str, Short] = {}
        self.stops: set[str] = set()  # of them, those whose runs have to leave such machines

    @property
    def are_given(self) -> bool:
        """Whether any user has one."""
        users = self._state.ledger.users.values()
        groups = self._engine.settings.groups.all
        return (
            bool(self._engine.settings.budgets.usd_by_user)
            or any(user.limits.max_usd_per_day is not None for user in users)
            or any(group.budget_usd(period) is not None for group in groups for period in (DAY, MONTH))
        )

    def of(self, user: str, period: str) -> float:
        """A user's or group's budget of a day or a month, by settings and user's limits, USD; infinity: any amount."""
        if (group := self._engine.settings.groups.with_purse(user)) is not None:
            usd = group.budget_usd(period)
            return math.inf if usd is None else usd
        known = self._state.ledger.users.get(user)
        limit = known.limits.max_usd_per_day if known is not None and period == DAY else None
        return min(self._engine.settings.budgets.of(user, period), math.inf if limit is None else limit)

    def spent_usd(self, user: str, period: str, ahead_s: float = 0.0, *, to_come: bool = False) -> float:
        """A user's or group's spending in the present day or month, if all is kept for so much longer.

        to_come: with the rest of what the machines rented for the user's jobs alone are expected to cost.
        """
        ledger, now_at = self._state.ledger, self._state.now_at
        until_at, since_at = now_at + ahead_s, period_since(period, now_at)
        offers = self._engine.settings.offers
        group = self._engine.settings.groups.with_purse(user)
        users = {user} if group is None else set(group.users)
        now = period_name(period, now_at)
        spent = sum(ledger.spent_usd.get(each, {}).get(now, 0.0) for each in sorted(users))
        alone: dict[int, float] = {}
        for node in ledger.nodes.values():
            held = node.account.holdings.values()
            if node.for_user not in users and not any(each.user in users for each in held):
                continue
            for charge in charges(node, offers, until_at):
                if charge.user in users:
                    spent += charge.usd_in(since_at)
                if node.for_job is not None:
                    alone[node.for_job] = alone.get(node.for_job, 0.0) + charge.usd
        for job in ledger.jobs.values() if to_come else ():
            if job.user in users and job.rental is not None:
                spent += max(0.0, job.rental.expected_usd - alone.get(job.job_id, 0.0))
        return spent

    def short_of(self, user: str, usd: float) -> Short | None:
        """The budget that does not allow machines expected to cost so much, for one job alone; null: none."""
        for whose, period, budget_usd in self._budgets_for(user):
            spent = self.spent_usd(whose, period, to_come=True)
            if spent + usd > budget_usd or self._is_held(whose, period, budget_usd):
                return self._short(whose, period, budget_usd, spent)
        return None

    def _budgets_for(self, user: str) -> Iterator[tuple[str, str, float]]:
        """The budgets for a user's jobs: whose each is, the period, USD."""
        group = self._engine.settings.groups.of(user)
        for whose in (user,) if group is None else (user, group.purse):
            for period in (DAY, MONTH):
                if (budget_usd := self.of(whose, period)) < math.inf:
                    yield whose, period, budget_usd

    def _is_held(self, user: str, period: str, budget_usd: float) -> bool:
        return is_reached(self._state.ledger, user, period, budget_usd, self._state.now_at)

    def held(self, users: Iterable[str]) -> Iterator[tuple[str, Short]]:
        """The budgets for these users that were at their end in the present period."""
        for user in users:
            for whose, period, budget_usd in self._budgets_for(user):
                if self._is_held(whose, period, budget_usd):
                    yield user, self._short(whose, period, budget_usd, self.spent_usd(whose, period))

    def gone(self, users: Iterable[str], ahead_s: float) -> Iterator[tuple[str, Short]]:
        """The budgets for these users that are spent if all is kept for so much longer."""
        for user in users:
            for whose, period, budget_usd in self._budgets_for(user):
                spent = self.spent_usd(whose, period, ahead_s)
                if spent >= budget_usd:
                    yield user, self._short(whose, period, budget_usd, spent)

    def look(self) -> dict[str, Short]:
        """Find out whose budgets are spent, under a policy whose rented machines jobs share; returns the new ones.

        As with machines nothing more begins `NOTICE_S` before, and what runs is stopped when it is spent.
        """
        self.spent, self.stops = {}, set()
        if not (self.are_given and self._engine.shared_offers):
            return {}
        users = sorted({job.user for job in self._state.ledger.jobs.values()})
        held = dict(self.held(users))
        new = {user: short for user, short in self.gone(users, NOTICE_S) if user not in held}
        self.spent = held | new
        self.stops = {user for user, _ in self.gone(sorted(self.spent), LOOK_S)}
        return new

    def refuses(self, spec: JobSpec, user: str) -> None:
        """A job that is to have a machine rented at once, which its user's budget does not allow."""
        if spec.rent == "now" and (why := self.forbid(spec, user)) is not None:
            raise Refused(f"{why['text']}; leave it out, or ask for a larger budget", "rent")

    def forbid(self, spec: JobSpec, user: str) -> dict[str, Any] | None:
        """Why no machine is rented for a job alone, its user's budget being spent; null: one may be, or none would."""
        offers = self._engine.offers_for_jobs
        if not offers:
            return None
        run_s = self._state.ledger.runtime_estimates.believed(user, spec).seconds
        holding = [offer for offer in offers if can_be_rented(spec, [offer])]
        usd = min((rented_usd(spec, offer, run_s) for offer in holding), default=0.0)
        short = self.short_of(user, usd)
        return None if short is None else short.forbids(usd)

    def afforded(self, job: Job) -> Job:
        """A job that is not submitted: without a machine of its own, if its user's budget allows none."""
        if job.spec.rent != "auto" or self.forbid(job.spec, job.user) is None:
            return job
        return replace(job, spec=job.spec.model_copy(update={"rent": "never"}))

    def keeps_from_queueing(self, job: Job, now_at: float) -> dict[str, Any] | None:
        """A spent budget, until it is renewed."""
        short = self.spent.get(job.user)
        return None if short is None else short.keeps_waiting

    def before_decision(self) -> None:
        """Users whose budget is spent use no rented machines that jobs share: their jobs wait until it is renewed."""
        had_spent, index = bool(self.spent), self._state.job_index
        for user, short in self.look().items():
            text = f"{short.text}; {user}'s jobs wait until {instant(short.until_at)}"
            budget = short.reached(self._state.now_at)
            self._state.log(
                "limit-reached", "limit", user=user, text=text, until_at=short.until_at, budget=budget
            )
        nodes = self._state.ledger.nodes
        for job in list(self._state.ledger.jobs.values()) if self.spent or had_spent else ():
            short, run = self.spent.get(job.user), job.run
            if short is None or job.rental is not None:
                if job.status is Status.BLOCKED and (job.reason or {}).get("code") == "budget":
                    self._jobs.admit(job)
            elif job.set_id is None and (job.status is Status.QUEUED or job.job_id in index.entering):
                self._engine.withdraw(job)
                self._state.log("blocked", "limit", job.job_id, reason=short.keeps_waiting)
                self._jobs.make_way(job)
            elif (
                run is not None
                and job.user in self.stops
                and run.launched
                and run.stopping is None
                and any(nodes[name].rented_at is not None for name, _ in run.places)
            ):
                self._runs.stop_for_now(job, "limit", job.spec.grace_s, short.keeps_waiting)

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
