"""A node as the service keeps it in memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, TypeAdapter

from betimes.cluster import Offer
from betimes.cluster.billing import Prices, lease_usd
from betimes.cluster.checks import family_of
from betimes.cluster.labels import Labels
from betimes.cluster.resources import Amounts, capacity_amounts
from betimes.cluster.shapes import Shape
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.charges import Charge, LeaseAccount

BOOTING, UP, DRAINING, DRAINED, LOST, GONE = "booting", "up", "draining", "drained", "lost", "gone"
EARLY_S = 2.0  # before a node goes, its runs are to have ended


def _with_labels(machine: Machine | dict[str, Any]) -> Machine | dict[str, Any]:
    """A machine of a snapshot or an event, which has its labels by their keys."""
    if isinstance(machine, Machine) or "labels" not in machine:
        return machine
    return {**machine, "labels": sorted(machine["labels"].items())}


@dataclass
class Node:
    """A machine and whether it takes work; another machine is another node."""

    machine: Annotated[Machine, BeforeValidator(_with_labels)]
    status: str = UP
    rented_at: float | None = None  # when it was requested; null: the operator owns it
    for_job: int | None = None  # the job that it is rented for alone; null: several may share it
    for_user: str | None = None  # that job's user
    by_policy: bool = False  # the policy rents it for several jobs, and gives it back
    up_at: float | None = None  # of a rented node: since when it is up
    watched: bool = False  # it has sent a heartbeat, and must go on
    last_seen_at: float | None = None
    goes_at: float | None = None  # it has notice: it is taken away or given back then
    goes_since: str | None = None  # the limit that it has to go by; null: the cloud takes it away
    since_at: float | None = None
    """The instant since which it drains, has drained, or is lost; null: it does not, and is not."""
    drained_by: str | None = None  # the user who has it drained
    drain_reason: str = ""  # that user's words
    earlier_prices: tuple[tuple[float, float], ...] = ()  # since it was rented: until when, and USD an hour
    account: LeaseAccount = field(default_factory=LeaseAccount)  # of a rented one that jobs share

    @property
    def is_there(self) -> bool:
        """Whether its runs go on."""
        return self.status in (UP, DRAINING, DRAINED)

    @property
    def takes_work(self) -> bool:
        """Whether jobs start on it, now or as soon as it has booted."""
        return self.status in (UP, BOOTING)

    @property
    def is_away(self) -> bool:
        """Whether it takes no work against the plan: a drained or lost node, or a rented one that has notice."""
        is_planned = self.rented_at is not None and self.goes_at is None
        return self.status == LOST or (self.status in (DRAINING, DRAINED) and not is_planned)

    @property
    def is_shared(self) -> bool:
        """Whether the policy places jobs on it; else it is rented for one job alone."""
        return self.for_job is None

    @cached_property
    def capacity(self) -> Amounts:
        """Thousandths of GPUs, thousandths of cores, MiB."""
        return capacity_amounts(self.machine.gpu, self.machine.cpu, self.machine.memory_gib)

    @property
    def labels(self) -> Labels:
        """Its labels, which jobs may require."""
        return self.machine.labels

    @property
    def family(self) -> str:
        """Its family, by which a task's demand can differ."""
        return self.machine.family

    @cached_property
    def shape(self) -> Shape:
        """Decides which jobs it can hold."""
        return Shape(self.capacity, self.labels, self.family)

    @property
    def prices(self) -> Prices:
        """Its price over time; 0 where none is known."""
        usd_per_h = [*(usd for _, usd in self.earlier_prices), self.machine.usd_per_h or 0.0]
        since_at = (at for at, _ in self.earlier_prices)
        return Prices(usd_per_h[0], tuple(zip(since_at, usd_per_h[1:], strict=True)))

    def row(self) -> dict[str, Any]:
        """The row of table `nodes`."""
        machine = self.machine
        return {
            "name": machine.name,
            "kind": machine.kind,
            "type": machine.type,
            "status": self.status,
            "cpu": machine.cpu,
            "memory_gib": machine.memory_gib,
            "gpu": machine.gpu,
            "usd_per_h": machine.usd_per_h,
            "last_seen_at": self.last_seen_at,
        }

    def to_json(self) -> dict[str, Any]:
        """All of it but the account of its lease, for a snapshot or an event."""
        machine = asdict(self.machine)
        if labels := dict(machine.pop("labels")):
            machine["labels"] = labels
        if machine["family"] == family_of(machine["type"]):
            del machine["family"]
        found: dict[str, Any] = {
            "machine": machine,
            "status": self.status,
            "rented_at": self.rented_at,
            "watched": self.watched,
        }
        known: dict[str, Any] = {"for_job": self.for_job, "for_user": self.for_user, "up_at": self.up_at}
        known |= {"goes_at": self.goes_at, "goes_since": self.goes_since, "since_at": self.since_at}
        known |= {"drained_by": self.drained_by, "drain_reason": self.drain_reason or None}
        known["earlier_prices"] = self.earlier_prices or None
        found |= {name: value for name, value in known.items() if value is not None}
        return found | ({"by_policy": True} if self.by_policy else {})


SAMPLES = 4


class NodesInBrief(NamedTuple):
    """A summary of all nodes for requests, which takes no longer where there are thousands of a few kinds.

    samples: the first few of those that are alike, in their order. shapes: of those that jobs share and that are not
    lost, how often each is there. capacity: of all. others: all that are rented, have notice, or are not just up.
    """

    samples: tuple[Node, ...]
    shapes: Counter[Shape]
    capacity: Amounts
    others: tuple[Node, ...]


def in_brief(nodes: Iterable[Node]) -> NodesInBrief:
    """A summary that holds until a node comes, goes or changes."""
    samples, alike, shapes, others = list[Node](), Counter[Any](), Counter[Shape](), list[Node]()
    gpu = cpu = memory = 0
    for node in nodes:
        machine = node.machine
        kind = (
            node.shape,
            node.status,
            node.is_shared,
            node.by_policy,
            machine.kind,
            machine.type,
            machine.usd_per_h,
        )
        alike[kind] += 1
        if alike[kind] <= SAMPLES:
            samples.append(node)
        if node.is_shared and node.status != LOST:
            shapes[node.shape] += 1
        if node.status != UP or node.rented_at is not None or node.goes_at is not None:
            others.append(node)
        gpu, cpu, memory = gpu + node.capacity[0], cpu + node.capacity[1], memory + node.capacity[2]
    return NodesInBrief(tuple(samples), shapes, (gpu, cpu, memory), tuple(others))


def charges_until(node: Node, whole_usd: float, until_at: float) -> list[Charge]:
    """The open charges of a rented machine that has cost this by an instant: to runs there, and to nobody."""
    name, since_at = node.machine.name, node.rented_at or 0.0
    if node.up_at is not None and node.up_at < until_at:
        since_at = node.up_at  # most offers charge from then on: the days of a lease have what they cost
    if not node.is_shared:
        return [Charge(name, node.for_job, node.for_user, since_at, until_at, whole_usd)]
    return list(node.account.copied().close(node.prices, name, since_at, until_at, whole_usd))


def charges(node: Node, offers: Sequence[Offer], until_at: float) -> list[Charge]:
    """The charge for a rented machine that is kept until an instant, beside what has been charged."""
    return charges_until(node, charged_usd(node, offers, until_at), until_at)


def charged_since_at(node: Node, offer: Offer) -> float:
    """The instant from which a machine of an offer is charged for (infinity: not yet, or it is not rented)."""
    if node.rented_at is None:
        return math.inf
    booted_at = math.inf if node.up_at is None else node.up_at - offer.setup_s
    return offer.billing.since_s(node.rented_at, booted_at)


def charged_usd(
    node: Node,
    offers: Sequence[Offer],
    until_at: float,
    *,
    releases: bool = False,
    usd_per_h: float | None = None,
    since_at: float | None = None,
) -> float:
    """The charge for a rented machine until an instant; releases: it is given back then, which takes a while.

    usd_per_h: at this price; null: at its price of each moment. since_at: null: from its request or boot on.
    """
    offer = next((each for each in offers if each.type == node.machine.type), None)
    if offer is None:
        return 0.0
    if since_at is None:
        since_at = charged_since_at(node, offer)
    if usd_per_h is None and node.machine.usd_per_h is None:
        usd_per_h = offer.charged_usd_per_h
    prices = node.prices if usd_per_h is None else Prices(usd_per_h)
    return float(
        lease_usd(offer.billing, prices, since_at, until_at + (offer.release_s if releases else 0.0))
    )


NODE = TypeAdapter(Node)
"""Reads nodes of snapshots and events, which have more besides."""
