"""How wide a job of a pool can become at most, on nodes that are owned and machines that may be rented.

Admission of the service and the twin ask here alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from betimes.cluster import Cluster, Offer
from betimes.cluster.offer import MOST_MACHINES
from betimes.cluster.resources import PER_UNIT, whole_capacity
from betimes.kernels import Floats
from betimes.policies.pool.renting import RentingRule
from betimes.twin.nodes.tasks import Integers, held

SLACK = 1e-9  # of sums of prices


@dataclass(frozen=True)
class Reach:
    """The empty nodes of a pool and the machines that its policy may rent; by: the resource that is a unit.

    units: of the nodes. capacity (kinds, 3) and counts (kinds,): the nodes, in whole numbers; null: one pool without
    walls. rule: null: nothing is rented.
    """

    units: int
    by: int
    capacity: Integers | None = None
    counts: Integers | None = None
    rule: RentingRule | None = None
    offers: tuple[Offer, ...] = ()
    quota: int | None = None

    @classmethod
    def of(cls, units: int, cluster: Cluster | None, rule: RentingRule | None = None) -> Reach:
        """That of a pool of so many units, on the nodes of a cluster if one is given."""
        if cluster is None:
            return cls(units, 1)
        by = 0 if cluster.total[0] > 0 else 1
        return cls(units, by, *cluster.shapes(rents=False), rule, cluster.offers, cluster.quota)

    def most_units(self, demand: Integers) -> Integers:
        """The most units that can ever be held at once by a job of which each has such a demand, of (jobs, 3).

        No job becomes wider. Where several offers compete for one budget, not quite as many may be possible.
        """
        most = np.full(len(demand), self.units)
        if self.capacity is None or self.counts is None:
            return most
        nodes = held(demand, self.capacity, self.counts, self.units)
        if self.rule is None or not self.offers:
            return np.minimum(most, nodes)
        offered = whole_capacity([offer.amounts for offer in self.offers])
        one = np.ones(1, np.int64)
        units = offered[:, self.by] // PER_UNIT[self.by]
        holds = np.stack(
            [held(demand, offered[at : at + 1], one, int(units[at])) for at in range(len(units))], 1
        )
        return np.minimum(nodes + self._rented(holds), self.units + self._rented(units[None, :]))

    def why_no_more(self, demand: Integers, wanted: int) -> str | None:
        """Why a job whose units have such a demand, of (1, 3), never holds so many, and what to do; null: it can."""
        most = int(self.most_units(demand)[0])
        if wanted <= most:
            return None
        why = (
            f"{wanted} units can never be held at once: the nodes and all machines that may be rented hold {most} at "
            "most"
        )
        lifted = [(name, self._without(name)) for name in self._limits]
        by = [name for name, reach in lifted if wanted <= reach.most_units(demand)[0]][:1]
        if not by:
            free = reduce(Reach._without, self._limits, self)
            if wanted <= free.most_units(demand)[0]:
                by = list(self._limits)
        if not by:
            return f"{why}; ask for fewer (min_units), or for less in each"
        named = " and ".join(self._limits[name] for name in by)
        return f"{why}, by {named}; ask for fewer (min_units), or raise {'that' if len(by) == 1 else 'those'}"

    def _rented(self, holds: Integers) -> Integers:
        """The most units on rented machines, of which one of each offer holds so many, of (jobs, offers)."""
        rule = self.rule
        assert rule is not None, "machines are rented by a rule"
        usd_per_h = np.array([_least_usd_per_h(offer) for offer in self.offers])
        most = np.array([self._most_of(offer, rule) for offer in self.offers], np.int64)
        quota = math.inf if self.quota is None else float(self.quota)
        by_quota = _units_within(holds, most, np.ones(len(most)), quota)
        by_budget = _units_within(holds, most, usd_per_h, rule.most_usd_per_h)
        return np.floor(np.minimum(by_quota, by_budget) + SLACK).astype(np.int64)

    def _most_of(self, offer: Offer, rule: RentingRule) -> int:
        """The most machines of an offer, if no other is taken."""
        usd_per_h = _least_usd_per_h(offer)
        if usd_per_h > rule.most_usd_per_unit_h * int(offer.amounts[self.by]):
            return 0
        most = min(each for each in (MOST_MACHINES, offer.capacity, self.quota) if each is not None)
        if usd_per_h * most > rule.most_usd_per_h:
            most = min(most, int(rule.most_usd_per_h / usd_per_h + SLACK))
        return most

    @cached_property
    def _limits(self) -> dict[str, str]:
        """What limits the machines that are rented, and the words for it."""
        rule, found = self.rule, dict[str, str]()
        if rule is None:
            return found
        if self.quota is not None:
            found["quota"] = f"the quota (machines that are rented at once: {self.quota})"
        if any(offer.capacity is not None for offer in self.offers):
            found["capacity"] = "the capacity of the offers"
        if rule.most_usd_per_unit_h < math.inf:
            found["price"] = (
                f"rent_price of the policy (USD an hour for a unit: {rule.most_usd_per_unit_h:g})"
            )
        if rule.most_usd_per_h < math.inf:
            found["budget"] = f"rent_budget of the policy (USD an hour for all: {rule.most_usd_per_h:g})"
        return found

    def _without(self, limit: str) -> Reach:
        assert self.rule is not None, "without a rule there are no limits"
        if limit == "quota":
            return replace(self, quota=None)
        if limit == "capacity":
            return replace(self, offers=tuple(replace(offer, capacity=None) for offer in self.offers))
        if limit == "price":
            return replace(self, rule=replace(self.rule, most_usd_per_unit_h=math.inf))
        return replace(self, rule=replace(self.rule, most_usd_per_h=math.inf))


def _least_usd_per_h(offer: Offer) -> float:
    """The lowest price of a machine at any time."""
    return min(offer.prices.usd_per_h, *(usd for _, usd in offer.prices.changes), math.inf)


def _units_within(holds: Integers, most: Integers, each: Floats, limit: float) -> Floats:
    """The most units (jobs,) on machines of which so much of something is spent, the last machine taken in part."""
    worth = np.full(holds.shape, np.inf)
    np.divide(holds, each, out=worth, where=each > 0.0)
    order = np.argsort(-worth, axis=1, kind="stable")
    units = np.take_along_axis(holds * most, order, axis=1)
    spent = np.broadcast_to(most * each, holds.shape)
    spent = np.take_along_axis(spent, order, axis=1)
    before = np.cumsum(spent, axis=1) - spent
    part = np.ones(holds.shape)
    np.divide(limit - before, spent, out=part, where=spent > 0.0)
    total: Floats = (units * np.clip(part, 0.0, 1.0)).sum(axis=1)
    return total
