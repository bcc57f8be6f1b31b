"""The machines that a pool rents, while a driver goes on: ordered, up, looked at as each paid step ends, given back.

When jobs are submitted, machines are ordered for the units that `core.pool.backlog` asks for beyond those that are
there or on their way. A machine's units join the pool when it is up. It is looked at when time that is paid for ends,
and given back if the rest of the pool is enough; jobs that have units there go on elsewhere, as after a preemption.
A play-out has a copy of the machines, and does the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from betimes.cluster import Cluster, Offer
from betimes.cluster.billing import lease_usd
from betimes.cluster.resources import whole_capacity
from betimes.core.pool import backlog
from betimes.core.pool.columns import with_nodes
from betimes.core.status import NEED_SEGMENTS
from betimes.errors import ClusterError, PolicyError
from betimes.kernels import FloatTable, entry
from betimes.outcome import LeaseColumns
from betimes.policies.hooks import Prepared
from betimes.policies.pool.renting import RentingRule
from betimes.twin.pool import entries
from betimes.twin.pool.driver import Driver

LOOK_S = 60.0  # between two looks at a machine that is charged to the moment
STILL_THERE, RELEASED = -1, 0  # causes of a lease's end, as `outcome.LeaseColumns` has them
Prepare = Callable[[int, FloatTable], Prepared]
"""The inputs of the policy's hooks for a pool of so many units."""

units_for_work = entry(backlog.units_for_work)


@dataclass
class Machine:
    """A rented machine; times in s, infinity: not yet known."""

    offer: int
    serial: int  # in order of request
    requested_s: float
    up_s: float
    look_s: float  # when it is looked at next
    node: int = -1  # its number once it is up
    is_up: bool = False
    ended_s: float = math.inf


@dataclass
class RentedMachines:
    """The machines that a pool has rented by a rule, beside those of its cluster.

    Raises ClusterError for a cluster without offers, or with offers of machines that differ in more than size and
    price.
    """

    rule: RentingRule
    cluster: Cluster
    prepare: Prepare
    policy: str
    there: list[Machine] = field(default_factory=list[Machine])  # in order of request
    gone: list[Machine] = field(default_factory=list[Machine])
    unused: list[int] = field(default_factory=list[int])  # numbers of nodes whose machines are gone
    requested: int = 0  # in all

    def __post_init__(self) -> None:
        """Refuse offers that a pool cannot use."""
        if not self.cluster.offers:
            raise ClusterError(
                f"policy {self.policy}: it rents machines, and {self.cluster.name} offers none; describe some "
                "([[offers]]) in the cluster file, or leave rent_within out"
            )
        for offer in self.cluster.offers:
            odd = _not_for_pools(offer)
            if odd is not None:
                raise ClusterError(
                    f"policy {self.policy}: offer {offer.type} has {odd}, and a pool rents machines that are alike "
                    "and come up; leave it out, or choose a policy for nodes"
                )

    @property
    def next_s(self) -> float:
        """When a machine is up or looked at next; infinity: never."""
        return min((each.look_s if each.is_up else each.up_s for each in self.there), default=math.inf)

    def copy(self) -> RentedMachines:
        """The same, to be played forward."""
        return replace(self, there=[replace(each) for each in self.there], gone=[], unused=list(self.unused))

    def order(self, driver: Driver) -> None:
        """Order machines for the units that are missing now: those that cost least for each missing unit."""
        now_s = float(driver.state.pool[0].now)
        lacking = float(units_for_work(driver.state, self.rule.within_s)) - self._units(self.there)
        while lacking > 0.0:
            offer = self._cheapest(lacking, now_s)
            if offer is None:
                return
            terms = self.cluster.offers[offer]
            up_s = now_s + terms.boot_s + terms.setup_s
            machine = Machine(offer, self.requested, now_s, up_s, math.inf)
            self.requested += 1
            self.there.append(machine)
            lacking -= self._units_of(offer)

    def change(self, driver: Driver) -> None:
        """What is due at this instant: machines are up, or are given back; more are ordered. Raises PolicyError."""
        now_s, changed = float(driver.state.pool[0].now), False
        for machine in self.there:
            if not machine.is_up and machine.up_s <= now_s:
                self._add(driver, machine)
                changed = True
        for machine in [each for each in self.there if each.is_up and each.look_s <= now_s]:
            if self._is_needed(driver, machine, changed):
                machine.look_s = self._next_look_s(machine, now_s)
            else:
                self._remove(driver, machine, now_s)
                changed = True
        if changed:
            self._resize(driver)
        self.order(driver)

    def _is_needed(self, driver: Driver, machine: Machine, changed: bool) -> bool:
        """Whether the rest of the pool is not enough. Where nothing runs or boots, waiting jobs do not fit it."""
        comes = changed or any(not each.is_up for each in self.there)
        if driver.state.pool[0].holders == 0 and not comes:
            return False
        rest = self._units(each for each in self.there if each is not machine)
        return float(units_for_work(driver.state, self.rule.within_s)) > rest

    def _add(self, driver: Driver, machine: Machine) -> None:
        if not self.unused:
            self.unused.append(len(driver.state.nodes))
            driver.state = with_nodes(driver.state, np.zeros((1, 3), dtype=np.int64), 0)
        machine.node, machine.is_up = self.unused.pop(), True
        machine.look_s = self._next_look_s(machine, machine.up_s)
        amounts = whole_capacity(np.array([self.cluster.offers[machine.offer].amounts]))[0]
        node = driver.state.nodes[machine.node]
        node.gpu, node.cpu, node.memory = node.free_gpu, node.free_cpu, node.free_memory = amounts.tolist()
        node.up = 1

    def _remove(self, driver: Driver, machine: Machine, now_s: float) -> None:
        """Give a machine back; jobs that have units there hold nothing until the policy has been asked."""
        state = driver.state
        entries.settle_instant(state)
        if len(state.segments) > 0:
            driver.heed(NEED_SEGMENTS)
            state = driver.state
        holders = state.holders[: state.pool[0].holders].tolist()
        for slot in holders:
            if machine.node in _nodes_of(driver, slot):
                entries.lose(state, slot)
        node = state.nodes[machine.node]
        node.gpu = node.cpu = node.memory = node.free_gpu = node.free_cpu = node.free_memory = node.up = 0
        self.unused.append(machine.node)
        machine.ended_s = now_s + self.cluster.offers[machine.offer].release_s
        self.there.remove(machine)
        self.gone.append(machine)

    def _resize(self, driver: Driver) -> None:
        units = self._units(each for each in self.there if each.is_up)
        if not driver.resize(units, self.prepare):
            raise PolicyError(
                f"policy {self.policy}: it makes other classes of a pool of {units} units; state its classes, so that "
                "they stay as machines come and go"
            )
        driver.state.pool[0].pending = 1

    def _cheapest(self, lacking: float, now_s: float) -> int | None:
        """The offer of which a machine costs least for each unit that is lacking; null: none may be rented."""
        rule, offers = self.rule, self.cluster.offers
        if self.cluster.quota is not None and len(self.there) >= self.cluster.quota:
            return None
        rate = math.fsum(offers[each.offer].prices.at(each.requested_s) for each in self.there)
        best, least = None, math.inf
        for number, offer in enumerate(offers):
            units, usd_per_h = self._units_of(number), offer.prices.at(now_s)
            rented = sum(each.offer == number for each in self.there)
            if (
                units == 0
                or usd_per_h > rule.most_usd_per_unit_h * units
                or rate + usd_per_h > rule.most_usd_per_h
                or (offer.capacity is not None and rented >= offer.capacity)
            ):
                continue
            if best is None or usd_per_h / min(units, lacking) < least:
                best, least = number, usd_per_h / min(units, lacking)
        return best

    def _units(self, machines: Iterator[Machine] | list[Machine]) -> int:
        """The units of the cluster and of these machines."""
        return self.cluster.units + sum(self._units_of(each.offer) for each in machines)

    def _units_of(self, offer: int) -> int:
        """The units of a machine: its GPUs where the cluster has some, else its cores."""
        gpu, cpu, _ = self.cluster.offers[offer].amounts
        return int(gpu if self.cluster.total[0] > 0 else cpu)

    def _next_look_s(self, machine: Machine, now_s: float) -> float:
        """When time that is paid for ends next, by as much earlier as a machine takes to go."""
        offer = self.cluster.offers[machine.offer]
        since_s = offer.billing.since_s(machine.requested_s, machine.requested_s + offer.boot_s)
        step_s = offer.bill_step_s or LOOK_S
        first_s = math.ceil(offer.min_bill_s / step_s) * step_s if offer.bill_step_s else offer.min_bill_s
        steps = max(0, math.floor((now_s + offer.release_s - since_s - first_s) / step_s))
        while (look_s := since_s + first_s + steps * step_s - offer.release_s) <= now_s:
            steps += 1
        return look_s

    def leases(self, until_s: float) -> LeaseColumns:
        """All machines that were rented by then, in order of request."""
        found = sorted([*self.gone, *self.there], key=lambda each: each.serial)
        offers = [self.cluster.offers[each.offer] for each in found]
        booted_s = [each.requested_s + offer.boot_s for each, offer in zip(found, offers, strict=True)]
        usd = [
            float(_cost(each, offer, min(each.ended_s, max(until_s, each.requested_s))))
            for each, offer in zip(found, offers, strict=True)
        ]
        return LeaseColumns(
            instance_type=np.array([offer.type for offer in offers], dtype=np.str_),
            serial=np.array([each.serial for each in found]),
            requested_s=np.array([each.requested_s for each in found]),
            booted_s=np.array(booted_s),
            up_s=np.array([each.up_s for each in found]),
            ended_s=np.array([each.ended_s for each in found]),
            idle_s=np.full(len(found), math.nan),
            task_s=np.full(len(found), math.nan),
            cause=np.array([STILL_THERE if math.isinf(each.ended_s) else RELEASED for each in found]),
            job=np.full(len(found), -1),
            cost_usd=np.array(usd),
        )

    def unit_s(self, until_s: float) -> float:
        """Unit-seconds that the machines were up, up to an instant."""
        return math.fsum(
            self._units_of(each.offer) * max(0.0, min(each.ended_s, until_s) - each.up_s)
            for each in (*self.gone, *self.there)
        )


def _cost(machine: Machine, offer: Offer, until_s: float) -> Fraction:
    since_s = offer.billing.since_s(machine.requested_s, machine.requested_s + offer.boot_s)
    return lease_usd(offer.billing, offer.prices, since_s, until_s)


def _nodes_of(driver: Driver, slot: int) -> Iterator[int]:
    at = int(driver.state.footprints[slot].placed)
    while at >= 0:
        yield int(driver.state.placements[at].node)
        at = int(driver.state.placements[at].follows)


def _not_for_pools(offer: Offer) -> str | None:
    """What an offer has that a pool has no use for; null: nothing."""
    odd = {
        "spot": offer.spot is not None,
        "boot_sigma": offer.boot_sigma > 0.0,
        "boot_failure_frac": offer.boot_failure_frac > 0.0,
        "speeds": bool(offer.speeds),
    }
    return next((name for name, is_given in odd.items() if is_given), None)
