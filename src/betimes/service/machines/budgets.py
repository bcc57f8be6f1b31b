"""Limits for what is rented, whatever the policy: budgets, the size of the fleet, the length of a lease."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from betimes.cluster import Offer

NOTICE_S = 120.0  # from a limit's notice until machines are given back, as a cloud gives; of a short lease at most half
ANYBODY = "*"
MOST_USD = 1e9
DAY, MONTH = "day", "month"
DAY_S = 86400.0
_AMOUNT = re.compile(r"(?P<usd>[^/]*?)(usd)?(/(?P<period>day|month))?")


@dataclass(frozen=True)
class Budgets:
    """The most that rented machines may cost a `day` or a `month` (UTC), USD; without an entry any amount.

    usd_by_period: all of them together. usd_by_user: what they may cost for a user's jobs, by user and period; `*` is
    for each user without an entry for that period.
    """

    usd_by_user: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    usd_by_period: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, user: str, period: str) -> float:
        """A user's limit in a day or month, USD; infinity: any amount."""
        found = (self.usd_by_user.get(each, {}).get(period) for each in (user, ANYBODY))
        return next((usd for usd in found if usd is not None), math.inf)


@dataclass(frozen=True)
class FleetLimits:
    """The largest fleet, machines, and the longest lease of one of them, s; null: any."""

    most_machines: int | None = None
    longest_lease_s: float | None = None

    @property
    def notice_s(self) -> float:
        """From the notice of a machine until its longest lease is over."""
        return min(NOTICE_S, math.inf if self.longest_lease_s is None else self.longest_lease_s / 2.0)

    @property
    def takes_jobs_s(self) -> float:
        """For how long from its request on a machine takes jobs: those that are over by then. Infinity: no limit."""
        return math.inf if self.longest_lease_s is None else self.longest_lease_s - self.notice_s

    def longest_run_s(self, offers: Iterable[Offer]) -> float:
        """The longest run for which machines are rented: it is over in time if they boot no later than twice as late.

        Infinity: any.
        """
        ready_s = max((offer.boot_s + offer.setup_s for offer in offers), default=0.0)
        return max(0.0, self.takes_jobs_s - 2.0 * ready_s)


def parse_budgets(texts: Iterable[str]) -> Budgets:
    """`50usd/day`, `ann=20usd/day`, `ann=50` (a month), `*=20`.

    Raises ValueError for anything else, and for two of one user and period.
    """
    users: dict[str, dict[str, float]] = {}
    of_all: dict[str, float] = {}
    for text in texts:
        user, equals, amount = text.rpartition("=")
        found = _AMOUNT.fullmatch(amount)
        if found is None or bool(user) != bool(equals) or not (user or found["period"]):
            raise ValueError(
                f"{text[:60]}: expected USER=USD, as in ann=50 or ann=20usd/day, or *=20 for all others; or what all "
                "machines together may cost, as in 50usd/day or 500usd/month"
            )
        period = found["period"] or MONTH
        budgets = users.setdefault(user, {}) if user else of_all
        if period in budgets:
            whose = f"{user} has a budget a {period}" if user else f"a {period} has a budget"
            raise ValueError(f"{text[:60]}: {whose} already; give one of them")
        try:
            usd = float(found["usd"])
        except ValueError:
            usd = math.nan
        if not 0.0 <= usd <= MOST_USD:
            example = f"{user[:40]}=50" if user and not found["period"] else f"50usd/{period}"
            raise ValueError(
                f"{text[:60]}: {found['usd'][:40]!r} is not an amount of money; give USD a {period}, 0 or more, as in "
                f"{example}"
            )
        budgets[period] = usd
    return Budgets(users, of_all)


def period_name(period: str, at_s: float) -> str:
    """The day or the month of an instant, as `2026-11-26` or `2026-11`."""
    return f"{datetime.fromtimestamp(at_s, UTC):{'%Y-%m-%d' if period == DAY else '%Y-%m'}}"


def period_since(period: str, at_s: float) -> float:
    """The begin of the day or the month of an instant, seconds since 1970."""
    now = datetime.fromtimestamp(at_s, UTC)
    return datetime(now.year, now.month, now.day if period == DAY else 1, tzinfo=UTC).timestamp()


def period_until(period: str, at_s: float) -> float:
    """The end of the day or the month of an instant, seconds since 1970."""
    since_at = period_since(period, at_s)
    return since_at + DAY_S if period == DAY else period_since(MONTH, since_at + 31 * DAY_S)
