"""The machines that jobs run on: groups of equal owned nodes, and the same as columns; offers to rent more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.billing import owned_usd, summed
from betimes.cluster.checks import (
    MOST_SECONDS,
    MOST_USD_PER_H,
    check_amount,
    check_name,
    check_whole,
    family_of,
    is_whole,
    shown,
)
from betimes.cluster.interference import Interference
from betimes.cluster.labels import NONE, Labels, check_labels
from betimes.cluster.offer import MOST_MACHINES, Offer
from betimes.cluster.resources import MOST, PER_UNIT, RESOURCES, whole_capacity
from betimes.errors import ClusterError

Integers = NDArray[np.int64]

MOST_NODES = 1_000_000
MOST_SEED = 2**63 - 1
DEFAULT_GRACE_LIMIT_S = 3600.0
POOL = "pool"
SAME_S = 1e-3  # by so much, the gate of maintenance is rounded


@dataclass(frozen=True)
class NodeGroup:
    """`count` equal nodes of one type: GPUs, cores and GiB of memory *each*; `usd_per_h` is one node's price, if any.

    `reserved_discount_frac` is a reservation's share saved of it: 0.6 for three years on EC2 (spec A.5 of waiting).
    `labels` are each node's, which jobs may require; `family` is that of types on which a task needs the same, by
    default what the type has before its dot.
    Raises ClusterError, naming the field, for what no node can be.
    """

    type: str
    count: int
    gpu: float
    cpu: float
    memory_gib: float
    usd_per_h: float | None = None
    reserved_discount_frac: float = 0.0
    labels: Labels = NONE
    family: str = ""

    def __post_init__(self) -> None:
        check_name("type", self.type)
        if self.family == "":
            object.__setattr__(self, "family", family_of(self.type))
        check_name("family", self.family)
        check_whole("count", self.count, 1, MOST_NODES, "nodes")
        for field in RESOURCES:
            check_amount(field, getattr(self, field), MOST)
        if self.usd_per_h is not None:
            check_amount("usd_per_h", self.usd_per_h, MOST_USD_PER_H)
        check_amount("reserved_discount_frac", self.reserved_discount_frac, 1.0)
        check_labels("labels", self.labels)
        if not whole_capacity(self.amounts).any():
            raise ClusterError(
                f"field cpu: expected a node with some GPU, cores or memory, found {shown(self.cpu)} cores and "
                "nothing else"
            )

    @property
    def amounts(self) -> tuple[float, float, float]:
        """GPUs, cores, GiB."""
        return self.gpu, self.cpu, self.memory_gib

    @property
    def charged_usd_per_h(self) -> float | None:
        """The price of one node an hour, reservation included; null if unknown."""
        if self.usd_per_h is None:
            return None
        return float(owned_usd(self.usd_per_h, self.reserved_discount_frac, 1, 3600.0))


@dataclass(frozen=True)
class Maintenance:
    """No job starts on these nodes that would not be over by `from_s`, until `to_s`, in seconds of the trace.

    nodes: names, such as `a100-0`; none: all owned nodes. Raises ClusterError, naming the field.
    """

    from_s: float
    to_s: float
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_amount("from_s", self.from_s, MOST_SECONDS)
        check_amount("to_s", self.to_s, MOST_SECONDS)
        if not self.from_s < self.to_s:
            raise ClusterError(
                f"field to_s: expected a time after from_s ({self.from_s:g}), found {shown(self.to_s)}"
            )


def first_opening(nodes: Iterable[Iterable[tuple[float, float]]], since: float, lasts_s: float) -> float:
    """The first instant at which one of some nodes takes a job that takes at most `lasts_s`, room aside.

    nodes: of each, from when until when it takes none. Where there are no nodes it is `since`.
    """
    found = list[float]()
    for closings in nodes:
        at = since
        for begin, end in sorted(closings):
            if at < end and (at >= begin or begin - at < lasts_s - SAME_S):
                at = end
        found.append(at)
    return min(found, default=since)


@dataclass(frozen=True)
class Cluster:
    """Nodes that are owned, numbered from 0 in the order of their groups, and offers of machines to rent.

    `grace_limit_s` is the longest grace period that a job may ask for; `quota` the most machines that are rented at
    once, none: any number; `seed` that of what is drawn about rented machines. A machine's name begins with its type,
    so each offer has another type. Raises ClusterError, naming the field.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    grace_limit_s: float = DEFAULT_GRACE_LIMIT_S
    offers: tuple[Offer, ...] = ()
    quota: int | None = None
    seed: int = 0
    interference: Interference | None = None  # how tasks slow each other on one machine; none: not at all
    maintenance: tuple[Maintenance, ...] = ()

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_amount("grace_limit_s", self.grace_limit_s, MOST_SECONDS)
        if self.quota is not None:
            check_whole("quota", self.quota, 0, MOST_MACHINES, "machines")
        check_whole("seed", self.seed, -MOST_SEED, MOST_SEED)
        if not self.groups and not self.offers:
            raise ClusterError(f"cluster {self.name}: expected at least one group of nodes, or an offer")
        _distinct(self.groups, self.offers)
        if self.interference is not None:
            for workload in (workload for offer in self.offers for workload, _ in offer.speeds):
                self.interference.row(workload)  # raises for one that the table does not have
        if len(self) > MOST_NODES:
            raise ClusterError(f"cluster {self.name}: expected at most {MOST_NODES} nodes, found {len(self)}")
        known = set(self.node_names) if self.maintenance else set[str]()
        for number, window in enumerate(self.maintenance, 1):
            for node in window.nodes:
                if node not in known:
                    raise ClusterError(
                        f"[[maintenance]] table {number}, field nodes: there is no node {shown(node)}; nodes are named "
                        f"after their types, from {self.node_names[0]} to {self.node_names[-1]}"
                    )

    @classmethod
    def pool(cls, units: int) -> Cluster:
        """Identical units without walls between them: one node with as many cores as units."""
        if not is_whole(units) or not 1 <= units <= MOST:
            raise ClusterError(
                f"a pool: expected a whole number of units from 1 to {MOST:.0f}, found {shown(units)}"
            )
        return cls(POOL, (NodeGroup(POOL, 1, 0.0, float(units), 0.0),))

    @classmethod
    def uniform(
        cls,
        count: int,
        *,
        gpu: float = 0.0,
        cpu: float = 0.0,
        memory_gib: float = 0.0,
        name: str = "uniform",
        grace_limit_s: float = DEFAULT_GRACE_LIMIT_S,
    ) -> Cluster:
        """`count` equal nodes with so many GPUs, cores and GiB each."""
        return cls(name, (NodeGroup("node", count, gpu, cpu, memory_gib),), grace_limit_s)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those of the table of interference, or where there is none those that offers have a speed for."""
        if self.interference is not None:
            return self.interference.workloads
        return tuple(dict.fromkeys(workload for offer in self.offers for workload, _ in offer.speeds))

    def __bool__(self) -> bool:
        return True  # a cluster without owned nodes is one nevertheless

    def __len__(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def node_names(self) -> list[str]:
        """The names of the nodes: their types, numbered on over all groups of one type."""
        ahead: dict[str, int] = {}
        names = list[str]()
        for group in self.groups:
            first = ahead.get(group.type, 0)
            ahead[group.type] = first + group.count
            names += [f"{group.type}-{number}" for number in range(first, first + group.count)]
        return names

    @property
    def closings(self) -> list[tuple[int, float, float]]:
        """The nodes of all maintenance by number, each from when until when."""
        numbers = {name: number for number, name in enumerate(self.node_names)} if self.maintenance else {}
        return [
            (numbers[name], window.from_s, window.to_s)
            for window in self.maintenance
            for name in (window.nodes or numbers)
        ]

    @property
    def units(self) -> int:
        """The resource by which a cluster is counted: its GPUs, else its cores, else its nodes; at least 1.

        Raises ClusterError for a cluster without nodes.
        """
        self.need_nodes()
        gpus, cores = (float(self.total[at]) / PER_UNIT[at] for at in (0, 1))
        return max(1, int(gpus or cores or len(self)))

    @property
    def is_pool(self) -> bool:
        """Whether this is what `pool` makes: a unit of any job then needs one core, whatever its demand."""
        kinds = [(group.type, group.count, group.gpu, group.memory_gib) for group in self.groups]
        return kinds == [(POOL, 1, 0, 0)] and not self.offers

    @cached_property
    def group_capacity(self) -> Integers:
        """Capacity of one node of each group, (groups, 3): thousandths of a GPU, thousandths of a core, MiB."""
        amounts = [group.amounts for group in self.groups]
        return _frozen(whole_capacity(np.array(amounts, np.float64).reshape(-1, len(RESOURCES))))

    @cached_property
    def capacity(self) -> Integers:
        """Capacity of each node, (nodes, 3): thousandths of a GPU, thousandths of a core, MiB."""
        return _frozen(self.group_capacity[self.types])

    @cached_property
    def types(self) -> Integers:
        """The index of each node's group, (nodes,)."""
        counts = [group.count for group in self.groups]
        return _frozen(np.repeat(np.arange(len(counts), dtype=np.int64), counts))

    @cached_property
    def largest(self) -> Integers:
        """The most that any node has of each resource, (3,), possibly of different nodes.

        Raises ClusterError for a cluster without nodes.
        """
        self.need_nodes()
        return _frozen(self.group_capacity.max(axis=0))

    def shapes(self, *, rents: bool) -> tuple[Integers, Integers]:
        """Capacity of one machine of each kind (kinds, 3), and the most of each (kinds,); offers where jobs rent."""
        counts = [group.count for group in self.groups]
        amounts = self.group_capacity
        if rents and self.offers:
            offered = np.array([offer.amounts for offer in self.offers], np.float64)
            amounts = np.concatenate([amounts, whole_capacity(offered)])
            most = MOST_MACHINES if self.quota is None else self.quota
            counts += [min(most, offer.capacity or MOST_MACHINES) for offer in self.offers]
        return amounts, np.array(counts, np.int64)

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The families of all machines, owned ones first, each once."""
        return tuple(dict.fromkeys(each.family for each in (*self.groups, *self.offers)))

    def family_numbers(self, *, rents: bool) -> Integers:
        """The place of the family of each kind of machines among `families`, kinds as `shapes` has them."""
        place = {family: number for number, family in enumerate(self.families)}
        kinds = (*self.groups, *(self.offers if rents else ()))
        return np.array([place[each.family] for each in kinds], np.int64)

    def labels(self, *, rents: bool) -> tuple[Labels, ...]:
        """The labels of each kind of machines, as `shapes` has them."""
        return tuple(each.labels for each in (*self.groups, *(self.offers if rents else ())))

    @cached_property
    def total(self) -> Integers:
        """Capacity of all nodes together, (3,)."""
        counts = np.array([group.count for group in self.groups], np.int64)
        return _frozen(counts @ self.group_capacity)

    def owned_usd(self, horizon_s: float) -> Fraction:
        """Cost of the nodes over a horizon, used or not; those without a price cost nothing."""
        return summed(
            owned_usd(group.usd_per_h, group.reserved_discount_frac, group.count, horizon_s)
            for group in self.groups
            if group.usd_per_h is not None
        )

    def need_nodes(self) -> None:
        """Raises ClusterError for a cluster without nodes."""
        if not self.groups:
            raise ClusterError(
                f"cluster {self.name}: it has offers to rent and no owned nodes, which this needs; describe some "
                "in a cluster file ([[nodes]])"
            )


def _distinct(groups: tuple[NodeGroup, ...], offers: tuple[Offer, ...]) -> None:
    """Raises ClusterError for an offer whose type is used already."""
    owned = {group.type for group in groups}
    tables: dict[str, int] = {}
    for number, offer in enumerate(offers, 1):
        if offer.type in tables or offer.type in owned:
            where = "[[nodes]]" if offer.type in owned else f"[[offers]] table {tables[offer.type]}"
            raise ClusterError(
                f"[[offers]] table {number}, field type: {offer.type} is a type of {where} already, and machines are "
                "named after their types; give it another"
            )
        tables[offer.type] = number


def _frozen(values: Integers) -> Integers:
    values.flags.writeable = False
    return values
