"""The cost of rented machines by job and user, for budgets and for `betimes usage` alike: charges add up to the bill.

A machine that is rented for one job alone is charged to that job's user. On one that jobs share, each run pays its
share of the price of every moment, all runs together at most the whole; the rest of the lease (boot, idle time, the
end of a billing step) is charged to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from betimes.cluster.billing import Prices
from betimes.units import S_PER_H


class Charge(NamedTuple):
    """A part of the cost of a lease, and the time that it is for."""

    node: str
    job: int | None  # null: no job held it
    user: str | None  # likewise
    since_at: float
    until_at: float
    usd: float

    def usd_in(self, since_at: float, until_at: float = math.inf) -> float:
        """Its part within a period, by time; `store.queries.charged` is the same in SQL."""
        if self.until_at <= self.since_at:
            return self.usd if since_at <= self.since_at <= until_at else 0.0
        within_s = min(self.until_at, until_at) - max(self.since_at, since_at)
        return self.usd * max(0.0, within_s) / (self.until_at - self.since_at)

    def row(self, event: int, number: int) -> dict[str, Any]:
        """The row of table `charges`; number: which of its event's it is."""
        job, user = self.job, self.user
        known = {"node": self.node, "job_id": job, "user": user, "since_at": self.since_at}
        return {"event_id": event, "number": number, **known, "until_at": self.until_at, "usd": self.usd}


@dataclass
class Holding:
    """A run's part of a machine, and its cost until the account was last settled."""

    user: str
    frac: float  # the largest share that it holds of any resource
    since_at: float
    usd: float = 0.0


@dataclass
class LeaseAccount:
    """Divides the price of a machine that jobs share among the runs that are on it."""

    holdings: dict[int, Holding] = field(default_factory=dict[int, Holding])  # by job
    settled_at: float = 0.0
    charged_usd: float = 0.0  # to runs that have left

    def hold(self, prices: Prices, job: int, user: str, frac: float, at: float) -> None:
        """A run begins to hold a part of the machine, or another part than before."""
        self._settle(prices, at)
        known = self.holdings.get(job)
        if known is None:
            self.holdings[job] = Holding(user, frac, self.settled_at)
        else:
            known.frac = frac

    def leave(self, prices: Prices, node: str, job: int, at: float) -> Charge | None:
        """A job's run is over; null: it held nothing."""
        self._settle(prices, at)
        held = self.holdings.pop(job, None)
        if held is None:
            return None
        self.charged_usd += held.usd
        return Charge(node, job, held.user, held.since_at, max(at, held.since_at), held.usd)

    def close(
        self, prices: Prices, node: str, since_at: float, until_at: float, lease_usd: float
    ) -> Iterator[Charge]:
        """The charges that are left once the lease has cost this in all: of the runs there, and nobody's."""
        for job in list(self.holdings):
            if (charge := self.leave(prices, node, job, until_at)) is not None:
                yield charge
        yield Charge(node, None, None, since_at, until_at, lease_usd - self.charged_usd)

    def copied(self) -> LeaseAccount:
        """The same apart from this one."""
        return deepcopy(self)

    def _settle(self, prices: Prices, at: float) -> None:
        if at <= self.settled_at:
            return
        whole = max(1.0, sum(held.frac for held in self.holdings.values()))
        if self.holdings:
            hours = (
                (to_at - from_at) / S_PER_H * usd
                for from_at, to_at, usd in prices.pieces(self.settled_at, at)
            )
            usd = sum(hours)
            for held in self.holdings.values():
                held.usd += usd * held.frac / whole
        self.settled_at = at
