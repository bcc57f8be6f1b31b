"""Limits for what is rented, whatever the policy: budgets, the size of the fleet, the length of a lease."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

ANYBODY = "*"
MOST_USD = 1e9
DAY, MONTH = "day", "month"
_OF_ALL = re.compile(r"(?P<usd>[0-9.]+)(usd)?/(?P<period>day|month)")


@dataclass(frozen=True)
class Budgets:
    """USD a month by user, for machines rented for one job alone; `*` is for each user without an entry.

    usd_by_period: for all machines together, a `day` or a `month` (UTC). Without an entry there is no limit.
    """

    usd_by_user: dict[str, float] = field(default_factory=dict[str, float])
    usd_by_period: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, user: str) -> float:
        """A user's limit in a month, USD; infinity: any amount."""
        return self.usd_by_user.get(user, self.usd_by_user.get(ANYBODY, math.inf))


@dataclass(frozen=True)
class FleetLimits:
    """The largest fleet, machines, and the longest lease of one of them, s; null: any."""

    most_machines: int | None = None
    longest_lease_s: float | None = None


def parse_budgets(texts: Iterable[str]) -> Budgets:
    """`ann=50`, `*=20`, `50usd/day`. Raises ValueError for anything else, and for two of one user or period."""
    users: dict[str, float] = {}
    periods: dict[str, float] = {}
    for text in texts:
        user, equals, amount = text.partition("=")
        if (of_all := _OF_ALL.fullmatch(text)) is not None:
            period = of_all["period"]
            found, key, whose, example = periods, period, f"a {period}", f"50usd/{period}"
            amount = of_all["usd"]
        elif user and equals:
            period = MONTH
            found, key, whose, example = users, user, user, f"{user[:40]}=50"
        else:
            raise ValueError(
                f"{text[:60]}: expected USER=USD, as in ann=50, or *=20 for all others; or what all machines together "
                "may cost, as in 50usd/day or 500usd/month"
            )
        if key in found:
            raise ValueError(f"{text[:60]}: {whose} has a budget already; give one of them")
        try:
            usd = float(amount)
        except ValueError:
            usd = math.nan
        if not 0.0 <= usd <= MOST_USD:
            raise ValueError(
                f"{text[:60]}: {amount[:40]!r} is not an amount of money; give USD a {period}, 0 or more, as in "
                f"{example}"
            )
        found[key] = usd
    return Budgets(users, periods)


def month_of(at_s: float) -> str:
    """The month of an instant, as `2026-11`."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m}"


def next_month_at(at_s: float) -> float:
    """When the month after that of an instant begins, seconds since 1970."""
    now = datetime.fromtimestamp(at_s, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()


def period_since(period: str, at_s: float) -> float:
    """When the day or the month of an instant began, seconds since 1970."""
    now = datetime.fromtimestamp(at_s, UTC)
    return datetime(now.year, now.month, now.day if period == DAY else 1, tzinfo=UTC).timestamp()
