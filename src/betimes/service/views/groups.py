"""The groups of users as the service lists them, with what they hold and have spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from betimes.service.views.listing import Listing
from betimes.service.views.models import HeldView, SpentView, View

if TYPE_CHECKING:
    from betimes.service.scheduling.scheduler import Scheduler

PERIODS: tuple[Literal["day", "month"], ...] = ("day", "month")


class GroupView(View):
    """A group of users, and what they have together of its limits and budgets; null: no limit."""

    name: str
    users: list[str]
    weight: float = 1.0
    max_running_jobs: int | None = None
    max_queued_jobs: int | None = None
    max_units: int | None = None
    default_time_s: float | None = None
    max_time_s: float | None = None
    max_array: int | None = None
    held: HeldView = HeldView()
    spent: tuple[SpentView, ...] = ()
    recent_frac: float | None = None  # of all that was held of late; null: nothing of anybody
    share_frac: float | None = None  # of those present, by weight


def _read(scheduler: Scheduler, now_at: float) -> list[GroupView]:
    """The groups in the order of the settings, with what each has of its limits, budgets and fair share."""
    from betimes.service.scheduling.users import held_now

    ledger, found = scheduler.ledger, list[GroupView]()
    users = {job.user for job in ledger.jobs.values()}
    standing = ledger.shares.standing(scheduler.weighted_users, users, now_at - ledger.epoch_at)
    for group in scheduler.settings.groups.all:
        each = [held_now(ledger, name) for name in group.users]
        held = HeldView(
            running_jobs=sum(one.running_jobs for one in each),
            queued_jobs=scheduler.users.queued(set(group.users)),
            units=sum(one.units for one in each),
            memory_gib=sum(one.memory_gib for one in each),
        )
        parts = [standing[name] for name in group.users if name in standing]
        found.append(
            GroupView(
                **group.model_dump(exclude={"usd_per_day", "usd_per_month"}),
                held=held,
                spent=spent_views(group.purse, scheduler, now_at),
                recent_frac=sum(one.recent_frac for one in parts) if parts else None,
                share_frac=sum(one.share_frac for one in parts) if parts else None,
            )
        )
    return found


def spent_views(whose: str, scheduler: Scheduler, now_at: float) -> tuple[SpentView, ...]:
    """What was spent on rented machines for a user, or for the group with this purse."""
    from betimes.service.scheduling.user_budgets import is_reached

    budgets, found = scheduler.budgets, list[SpentView]()
    for period in PERIODS:
        budget_usd = budgets.of(whose, period)
        is_held = is_reached(scheduler.ledger, whose, period, budget_usd, now_at)
        spent_usd = budgets.spent_usd(whose, period, max(0.0, now_at - scheduler.now_at))
        known_usd = budget_usd if budget_usd < math.inf else None
        found.append(SpentView(period=period, spent_usd=spent_usd, budget_usd=known_usd, is_spent=is_held))
    return tuple(found)


GROUPS = Listing(
    "groups",
    GroupView,
    _read,
    about="Every group of users, for operators; each other user sees the own one.",
    answer="Every group.",
    example=GroupView(name="physics", users=["ada", "bob"], weight=2, max_running_jobs=40),
    tag="users",
    is_of=lambda group, user: user in group.users,
)
