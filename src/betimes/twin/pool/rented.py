"""The machines that a pool rents, while a driver goes on: ordered, up, looked at as each paid step ends, given back.

When jobs are submitted, machines are ordered for the units that `core.pool.backlog` asks for beyond those that are
there or on their way. A machine's units join the pool when it is up. It is looked at when time that is paid for ends,
and given back if the rest of the pool is enough; jobs that have units there go on elsewhere, as after a preemption.
A play-out has a copy of the machines, and does the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from betimes.cluster import Offer
from betimes.cluster.billing import lease_usd
from betimes.cluster.resources import whole_capacity
from betimes.core.pool import backlog
from betimes.core.status import NEED_SEGMENTS
from betimes.errors import PolicyError
from betimes.kernels import FloatTable, entry
from betimes.outcome import LeaseColumns
from betimes.policies.hooks import Prepared
from betimes.policies.pool.renting import RentingRule
from betimes.twin.pool import entries
from betimes.twin.pool.driver import Driver

LOOK_S = 60.0  # the least between two looks at a machine
LATE_S = 1.0  # within which a machine that should be up by now is expected
STILL_THERE, RELEASED = -1, 0  # causes of a lease's end, as `outcome.LeaseColumns` has them
Prepare = Callable[[int, FloatTable], Prepared]
"""The inputs of the policy's hooks for a pool of so many units."""

units_for_work = entry(backlog.units_for_work)


@dataclass
class Machine:
    """A rented machine; times in s, infinity: not yet known.

    node: its number, from its request on. is_open: it takes new units; kept: units that jobs hold on one that does not.
    left_by: the slots of the jobs that had units on it when it went.
    """

    offer: int
    serial: int  # in order of request
    node: int
    requested_s: float
    up_s: float
    look_s: float = math.inf  # when it is looked at next
    is_up: bool = False
    is_open: bool = True
    kept: int = 0
    ended_s: float = math.inf
    left_by: list[int] = field(default_factory=list[int])


@dataclass
class RentedMachines:
    """The machines that a pool has rented by a rule, beside those that do not come and go by it.

    owned: units of these. by: the resource that is a unit, 0: GPUs, 1: cores. awaits_reports: a machine is up when that
    is reported (`Machine.up_s`), and not as its offer has it. order_s: when machines are ordered though nothing is
    submitted. refused_until_s: of offers, by number.
    """

    rule: RentingRule
    offers: Sequence[Offer]
    quota: int | None
    owned: int
    by: int
    prepare: Prepare
    policy: str
    awaits_reports: bool = False
    there: list[Machine] = field(default_factory=list[Machine])  # in order of request
    gone: list[Machine] = field(default_factory=list[Machine])
    requested: int = 0  # in all
    order_s: float = math.inf
    refused_until_s: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def next_s(self) -> float:
        """When a machine is up or looked at next, or ordered without a submission; infinity: never."""
        machines = min((each.look_s if each.is_up else each.up_s for each in self.there), default=math.inf)
        return min(machines, self.order_s)

    @property
    def units(self) -> int:
        """The units of the pool now: of all machines that are up, and those that jobs hold on machines that close."""
        up = [each for each in self.there if each.is_up]
        return self._units(up) + sum(each.kept for each in self.there if not each.is_open)

    def copy(self) -> RentedMachines:
        """The same, to be played forward."""
        there = [replace(each) for each in self.there]
        return replace(self, there=there, gone=[], refused_until_s=dict(self.refused_until_s))

    def expect(self, now_s: float) -> None:
        """From now on machines are up as their offers have it; one that should be already, any moment."""
        self.awaits_reports = False
        for each in self.there:
            if each.up_s == math.inf:
                each.up_s = max(each.requested_s + self._boots_in_s(each.offer), now_s + LATE_S)

    def order(self, driver: Driver) -> None:
        """Order machines for the units that are missing now: those that cost least for each missing unit."""
        now_s = float(driver.state.pool[0].now)
        lacking = float(units_for_work(driver.state, self.rule.within_s)) - self._units(self.there)
        while lacking > 0.0:
            offer = self._cheapest(lacking, now_s)
            if offer is None:
                return
            up_s = math.inf if self.awaits_reports else now_s + self._boots_in_s(offer)
            self.request(driver, offer, now_s, up_s)
            lacking -= self._units_of(offer)

    def request(self, driver: Driver, offer: int, requested_s: float, up_s: float) -> Machine:
        """A machine has been requested, and is not up yet."""
        machine = Machine(offer, self.requested, driver.take_node(), requested_s, up_s)
        self.requested += 1
        self.there.append(machine)
        return machine

    def change(self, driver: Driver) -> None:
        """What is due at this instant: machines are up, or are given back; more are ordered. Raises PolicyError."""
        now_s, changed, in_vain = float(driver.state.pool[0].now), False, False
        for machine in self.there:
            if not machine.is_up and machine.up_s <= now_s:
                self.open(driver, machine)
                changed = True
        for machine in [each for each in self.there if each.is_up and each.look_s <= now_s]:
            idle = driver.state.pool[0].holders == 0 and not (changed or any(not e.is_up for e in self.there))
            if not idle and self._is_needed(driver, machine):
                machine.look_s = self._next_look_s(machine, now_s)
                continue
            in_vain = in_vain or idle
            self.remove(driver, machine, now_s + self.offers[machine.offer].release_s)
            changed = True
        if changed:
            self.resize(driver)
        self.refused_until_s = {at: s for at, s in self.refused_until_s.items() if s > now_s}
        self.order_s = min(self.refused_until_s.values(), default=math.inf)
        if not in_vain:  # jobs that wait where nothing runs do not fit these machines
            self.order(driver)

    def _is_needed(self, driver: Driver, machine: Machine) -> bool:
        """Whether the rest of the pool is not enough."""
        rest = self._units(each for each in self.there if each is not machine)
        return float(units_for_work(driver.state, self.rule.within_s)) > rest

    def open(self, driver: Driver, machine: Machine) -> None:
        """A machine is up; `resize` follows."""
        machine.is_up = True
        machine.look_s = self._next_look_s(machine, float(driver.state.pool[0].now))
        gpu, cpu, memory = whole_capacity(np.array([self.offers[machine.offer].amounts]))[0].tolist()
        driver.equip(machine.node, (gpu, cpu, memory))

    def let_in(self, driver: Driver, machine: Machine, is_open: bool) -> None:
        """A machine takes new units from now on, or only keeps those that jobs hold; the policy is to be asked."""
        machine.is_open = is_open
        machine.kept = 0 if is_open else sum(held_on(driver, machine.node).values())
        now_s = float(driver.state.pool[0].now)
        machine.look_s = self._next_look_s(machine, now_s) if is_open and machine.is_up else math.inf
        driver.state.nodes[machine.node].up = int(is_open and machine.is_up)
        self.resize(driver)

    def remove(self, driver: Driver, machine: Machine, ended_s: float) -> None:
        """A machine goes; jobs that have units there hold nothing until the policy has been asked. `resize` follows."""
        state = driver.state
        entries.settle_instant(state)
        if len(state.segments) > 0:
            driver.heed(NEED_SEGMENTS)
            state = driver.state
        for slot in held_on(driver, machine.node):
            entries.lose(state, slot)
            machine.left_by.append(slot)
        driver.clear_node(machine.node)
        if not self.awaits_reports:  # else it is there until the cloud says that it is gone
            driver.unused_nodes.append(machine.node)
        machine.ended_s = ended_s
        self.there.remove(machine)
        self.gone.append(machine)

    def resize(self, driver: Driver) -> None:
        """The pool has the units that it now has; the policy is to be asked. Raises PolicyError."""
        units = self.units
        if not driver.resize(units, self.prepare):
            raise PolicyError(
                f"policy {self.policy}: it makes other classes of a pool of {units} units; state its classes, so that "
                "they stay as machines come and go"
            )
        driver.state.pool[0].pending = 1

    def _cheapest(self, lacking: float, now_s: float) -> int | None:
        """The offer of which a machine costs least for each unit that is lacking; null: none may be rented."""
        rule, offers = self.rule, self.offers
        if self.quota is not None and len(self.there) >= self.quota:
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
                or self.refused_until_s.get(number, 0.0) > now_s
            ):
                continue
            if best is None or usd_per_h / min(units, lacking) < least:
                best, least = number, usd_per_h / min(units, lacking)
        return best

    def _units(self, machines: Iterable[Machine]) -> int:
        """The units that are owned, and those of these machines that take new ones."""
        return self.owned + sum(self._units_of(each.offer) for each in machines if each.is_open)

    def _units_of(self, offer: int) -> int:
        return int(self.offers[offer].amounts[self.by])

    def _boots_in_s(self, offer: int) -> float:
        return self.offers[offer].boot_s + self.offers[offer].setup_s

    def _next_look_s(self, machine: Machine, now_s: float) -> float:
        """When time that is paid for ends next, by as much earlier as a machine takes to go.

        Of shorter steps than `LOOK_S` several are taken together.
        """
        offer = self.offers[machine.offer]
        since_s = offer.billing.since_s(machine.requested_s, machine.requested_s + offer.boot_s)
        step_s = offer.bill_step_s or LOOK_S
        step_s *= math.ceil(LOOK_S / step_s)
        first_s = math.ceil(offer.min_bill_s / step_s) * step_s if offer.bill_step_s else offer.min_bill_s
        steps = max(0, math.floor((now_s + offer.release_s - since_s - first_s) / step_s))
        while (look_s := since_s + first_s + steps * step_s - offer.release_s) <= now_s:
            steps += 1
        return look_s

    def leases(self, until_s: float) -> LeaseColumns:
        """All machines that were rented by then, in order of request."""
        found = sorted([*self.gone, *self.there], key=lambda each: each.serial)
        offers = [self.offers[each.offer] for each in found]
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


def held_on(driver: Driver, node: int) -> dict[int, int]:
    """The slots of the jobs that hold units on a node, and how many."""
    state, found = driver.state, dict[int, int]()
    for slot in state.holders[: state.pool[0].holders].tolist():
        at = int(state.footprints[slot].placed)
        while at >= 0:
            if state.placements[at].node == node:
                found[slot] = found.get(slot, 0) + int(state.placements[at].tasks)
            at = int(state.placements[at].follows)
    return found
