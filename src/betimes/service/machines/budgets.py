"""Budgets: each user's limit for rented machines in a calendar month (UTC)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

ANYBODY = "*"
MOST_USD = 1e9


@dataclass(frozen=True)
class Budgets:
    """USD a month by user; `*` is for each user without an entry. Without either there is no limit."""

    usd_by_user: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, user: str) -> float:
        """A user's limit in a month, USD; infinity: any amount."""
        return self.usd_by_user.get(user, self.usd_by_user.get(ANYBODY, math.inf))


def parse_budgets(texts: Iterable[str]) -> Budgets:
    """`ann=50`, `*=20`. Raises ValueError for anything else, and for two of one user."""
    found: dict[str, float] = {}
    for text in texts:
        user, equals, amount = text.partition("=")
        if not user or not equals:
            raise ValueError(f"{text[:60]}: expected USER=USD, as in ann=50, or *=20 for all others")
        if user in found:
            raise ValueError(f"{text[:60]}: {user} has a budget already; give one of them")
        try:
            usd = float(amount)
        except ValueError:
            usd = math.nan
        if not 0.0 <= usd <= MOST_USD:
            raise ValueError(
                f"{text[:60]}: {amount[:40]!r} is not an amount of money; give USD a month, 0 or more, as in "
                f"{user[:40]}=50"
            )
        found[user] = usd
    return Budgets(found)


def month_of(at_s: float) -> str:
    """The month of an instant, as `2026-11`."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m}"


def next_month_at(at_s: float) -> float:
    """When the month after that of an instant begins, seconds since 1970."""
    now = datetime.fromtimestamp(at_s, UTC)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=UTC).timestamp()
