"""Nodes that the service rents: asked for, seen to boot, lost to the cloud, and given back."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from betimes.cluster import Offer
from betimes.errors import CloudError, Conflict, Refused, Unknown
from betimes.service.engines.messages import RentMachine
from betimes.service.machines.machine import Kind, Machine
from betimes.service.machines.provider import (
    Billed,
    Booted,
    CloudEvent,
    Failed,
    NoCapacity,
    OpenCloud,
    PriceChanged,
    Reclaimed,
    ReclaimNotice,
    RequestId,
)
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import BOOTING, UP
from betimes.service.scheduling.scheduler import Scheduler

log = logging.getLogger(__name__)


class Rentals:
    """A cloud as the scheduler sees it. The log holds all rentals; nothing is requested of the cloud twice."""

    def __init__(self, open_cloud: OpenCloud) -> None:
        self._open = open_cloud
        self._cloud = open_cloud((), {})
        self._orders: dict[RequestId, _Order] = {}  # the policy's rentals
        self._refusals: list[_Refusal] = []
        self._news_at = math.inf  # of an answer not yet reported

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Machines on offer."""
        return tuple(self._cloud.offers())

    @property
    def kind(self) -> Kind:
        """The kind of its machines."""
        return self._cloud.kind

    @property
    def quota(self) -> int | None:
        """The most machines that can be held at once; null: any number."""
        return self._cloud.quota()

    def resume(self, ledger: Ledger) -> None:
        """Go on with the rentals in the log. Raises Conflict for a type that is no longer offered."""
        nodes = ledger.nodes.values()
        held = [(node.machine, node.rented_at) for node in nodes if node.rented_at is not None]
        self._orders, self._refusals, self._news_at = {}, [], math.inf
        try:
            self._cloud = self._open(held, ledger.rented)
        except Unknown as error:
            raise Conflict(
                f"the cloud does not offer what is rented ({error}); put it back into its file"
            ) from None

    def rent(self, scheduler: Scheduler, type: str, count: int, cause: str) -> list[str]:  # noqa: A002
        """Rent machines, all or none; the names of those that boot now. Raises Refused, Conflict."""
        nodes = scheduler.ledger.nodes.values()
        if any(node.machine.type == type and node.rented_at is None for node in nodes):
            raise Conflict(f"there are nodes of type {type} that are not rented; call the cloud's otherwise")
        why = self._limit(scheduler, type, count)
        if why is not None:
            raise Conflict(f"nothing is rented: {why}")
        try:
            answer = self._cloud.request(scheduler.now_at, type, count)
        except Unknown as error:
            raise Refused(str(error), "type") from None
        except CloudError as error:
            raise Conflict(f"nothing is rented: {error}") from None
        if isinstance(answer, NoCapacity):
            raise Conflict(f"{answer.text}; ask for fewer, or give some back (`betimes nodes drain`)")
        return self._boot(scheduler, cause)

    def order(self, scheduler: Scheduler, job: int, type: str, count: int) -> None:  # noqa: A002
        """Ask for machines for one job alone; `advance` reports the result."""
        self._order(scheduler, _ForJob(job, scheduler.now_at), type, count)

    def order_shared(self, scheduler: Scheduler, type: str, move: RentMachine) -> None:  # noqa: A002
        """Ask for a machine that the policy has decided to rent; `advance` reports the result."""
        self._order(scheduler, _ForPolicy(move, scheduler.now_at), type, 1)

    def _order(self, scheduler: Scheduler, order: _Order, type: str, count: int) -> None:  # noqa: A002
        self._news_at = scheduler.now_at
        why = self._limit(scheduler, type, count)
        if why is not None:
            self._refusals.append(_Refusal(order, type, why))
            return
        try:
            answer = self._cloud.request(scheduler.now_at, type, count)
        except (CloudError, Unknown) as error:
            self._refusals.append(_Refusal(order, type, str(error)))
            return
        if isinstance(answer, NoCapacity):
            self._refusals.append(_Refusal(order, type, answer.text))
        else:
            self._orders[answer] = order

    def _limit(self, scheduler: Scheduler, type: str, count: int) -> str | None:  # noqa: A002
        """Why the operator's limits allow no such machines; null: they do."""
        offer = next((each for each in self.offers if each.type == type), None)
        names = {machine.name for machine in (*self._cloud.machines(), *self._cloud.booting())}
        asked = sum(self._cloud.given_out(request) is None for request in self._orders)
        return scheduler.limits.why_no_more(offer, count, len(names) + asked)

    def give_back(self, node: str, now_at: float) -> None:
        """Give a node back. Raises CloudError, in which case it is still held."""
        try:
            self._cloud.release(now_at, node)
        except Unknown as error:
            log.info("nothing to give back: %s", error)  # a cloud that was resumed since knows the log alone

    def cost_usd(self, now_at: float) -> float:
        """The cloud's charges until now."""
        return self._cloud.cost_usd(now_at)

    def next_at(self) -> float:
        """The instant of the next news; infinity: not before the next request."""
        return min(self._news_at, self._cloud.next_at_s())

    def going(self) -> int:
        """The number of machines that are still being given back."""
        return self._cloud.going()

    def poll(self) -> bool:
        """Look after the machines, as is to be done each `POLL_S`; whether something has happened for `advance`."""
        return self._cloud.poll()

    def process_of(self, node: str) -> int | None:
        """The process of this machine with which a node's runs end; null: it has ended."""
        return self._cloud.process_of(node)

    def advance(self, scheduler: Scheduler) -> None:
        """Report the cloud's events until now to the scheduler."""
        events = self._cloud.advance(scheduler.now_at)
        self._answer(scheduler)
        for event in events:
            if isinstance(event, Failed) and event.node is None and event.request in self._orders:
                self._orders.pop(event.request).refused(scheduler, event.request.type, event.text)
                continue
            _tell(scheduler, event)
        self._boot(scheduler, "cloud")

    def _answer(self, scheduler: Scheduler) -> None:
        """Report the results of the orders."""
        self._news_at = math.inf
        refusals, self._refusals = self._refusals, []
        for one in refusals:
            one.order.refused(scheduler, one.type, one.text)
        for request, order in list(self._orders.items()):
            machines = self._cloud.given_out(request)
            if machines is not None:
                del self._orders[request]
                if machines or isinstance(order, _ForJob):
                    order.given_out(scheduler, machines)
                else:
                    order.refused(scheduler, request.type, f"the {request.type} ended before it was a node")

    def _boot(self, scheduler: Scheduler, cause: str) -> list[str]:
        """Add booting machines as nodes; the names of the new ones."""
        ordered = {
            machine.name for request in self._orders for machine in self._cloud.given_out(request) or ()
        }
        known = ordered | set(scheduler.ledger.nodes)
        new = [machine for machine in self._cloud.booting() if machine.name not in known]
        scheduler.nodes.rent(new, cause)
        return [machine.name for machine in new]


@dataclass(frozen=True, slots=True)
class _ForJob:
    """An order of machines for one job alone."""

    job: int
    asked_at: float

    def given_out(self, scheduler: Scheduler, machines: Sequence[Machine]) -> None:
        scheduler.rentals.given_out(self.job, machines, self.asked_at)

    def refused(self, scheduler: Scheduler, type: str, text: str) -> None:  # noqa: A002
        scheduler.rentals.refused(self.job, type, text)


@dataclass(frozen=True, slots=True)
class _ForPolicy:
    """An order of a machine for several jobs."""

    move: RentMachine
    asked_at: float

    def given_out(self, scheduler: Scheduler, machines: Sequence[Machine]) -> None:
        for machine in machines:
            scheduler.machines.given_out(self.move, machine, self.asked_at)

    def refused(self, scheduler: Scheduler, type: str, text: str) -> None:  # noqa: A002
        scheduler.machines.refused(self.move, type, text)


_Order = _ForJob | _ForPolicy


@dataclass(frozen=True, slots=True)
class _Refusal:
    order: _Order
    type: str
    text: str


def _tell(scheduler: Scheduler, event: CloudEvent) -> None:
    """Report an event of the cloud, perhaps reported before a restart, or of a node given up meanwhile."""
    nodes, at = scheduler.ledger.nodes, event.at_s
    if isinstance(event, Failed) and event.node in nodes and nodes[event.node].up_at is not None:
        event = Reclaimed(at, event.node)  # it was up before a start, of which the cloud knows nothing
    match event:
        case Booted(machine=machine):
            if machine.name not in nodes:
                scheduler.nodes.rent([machine], "cloud", UP)
            elif not nodes[machine.name].is_shared:
                scheduler.rentals.up(machine.name, at)
            elif nodes[machine.name].status == BOOTING:
                scheduler.nodes.booted(machine.name, at)
        case Failed(node=None):
            scheduler.nodes.not_rented(event.request.type, event.text)
        case Failed(node=str(name)) if name in nodes and not nodes[name].is_shared:
            scheduler.rentals.never_booted(name, event.request.type, event.text, at)
        case Failed(node=str(name)) if name in nodes:
            scheduler.nodes.never_booted(name, at)
        case ReclaimNotice(reclaimed_at_s=goes_at) if goes_at < scheduler.now_at:
            pass  # it is gone, which is reported next
        case ReclaimNotice(node=name, reclaimed_at_s=goes_at) if name in nodes:
            scheduler.nodes.noticed(name, goes_at)
        case Reclaimed(node=name) if name in nodes and not nodes[name].is_shared:
            scheduler.rentals.reclaimed(name, at)
        case Reclaimed(node=name) if name in nodes:
            scheduler.nodes.reclaimed(name, at)
        case PriceChanged(type=type, usd_per_h=usd_per_h):
            scheduler.nodes.reprice(type, usd_per_h)
        case Billed(node=name, type=type, since_s=since_at):
            scheduler.nodes.billed(name, type, since_at, at)
        case _:
            log.info("the cloud speaks of a node that is gone: %s", event)
