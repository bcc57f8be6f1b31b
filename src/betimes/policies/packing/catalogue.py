"""The instance types that a planner chooses from, and a task's demand on each family of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from betimes.cluster.interference import workload_of
from betimes.cluster.offer import Offer
from betimes.cluster.resources import RESOURCES, UNITS, whole_capacity, whole_demand
from betimes.errors import ClusterError, InputError

Amounts = tuple[int, int, int]
"""Thousandths of a GPU, thousandths of a core, MiB: the whole numbers of `cluster.resources`."""

MOST_USD_PER_H = 1e6


@dataclass(frozen=True)
class Demand:
    """A task's demand: `everywhere`, except for families with a separate demand.

    If `everywhere` is None, the task runs only on those families.
    """

    everywhere: Amounts | None
    by_family: tuple[tuple[str, Amounts], ...] = ()

    @classmethod
    def of(cls, natural: Sequence[float] | Mapping[str, Sequence[float]]) -> Demand:
        """From (GPUs, cores, GiB), or from those by family; `any` stands for all families not named.

        Raises InputError for a negative or infinite amount, and for a demand of nothing.
        """
        if not isinstance(natural, Mapping):
            return cls(_amounts(natural))
        if not natural:
            raise InputError("a demand names no family: expected (GPUs, cores, GiB) for any, or by family")
        families = {family: _amounts(each) for family, each in natural.items()}
        everywhere = families.pop("any", None)
        return cls(everywhere, tuple(sorted(families.items())))

    def on(self, family: str) -> Amounts | None:
        """The demand on a family; None if the task cannot run there."""
        return self._families.get(family, self.everywhere) if self.by_family else self.everywhere

    @cached_property
    def _families(self) -> dict[str, Amounts]:
        return dict(self.by_family)


@dataclass(frozen=True)
class InstanceType:
    """A type that can be rented: the capacity of *one* machine, its price, and speeds by workload (by default 1).

    up_after_s: from the request of a machine until tasks can start on it: its boot and set-up. Raises ClusterError,
    naming the type.
    """

    name: str
    family: str
    capacity: Amounts
    usd_per_h: float
    speeds: tuple[tuple[str, float], ...] = ()
    up_after_s: float = 0.0

    def __post_init__(self) -> None:
        if not any(self.capacity) or min(self.capacity) < 0:
            raise ClusterError(f"type {self.name}: expected some GPU, cores or memory, found {self.capacity}")
        if not 0 < self.usd_per_h <= MOST_USD_PER_H:
            raise ClusterError(
                f"type {self.name}, field usd_per_h: expected a price above 0, to {MOST_USD_PER_H:.0f}, found "
                f"{self.usd_per_h:g}: a planner cannot weigh a machine without a price"
            )

    @classmethod
    def of(cls, offer: Offer) -> InstanceType:
        """The type of an offer, at its initial price."""
        capacity = cast(Amounts, tuple(int(each) for each in whole_capacity(offer.amounts)))
        up_after_s = offer.boot_s + offer.setup_s
        return cls(offer.type, offer.family, capacity, offer.charged_usd_per_h, offer.speeds, up_after_s)

    def speed(self, kind: str) -> float:
        """The speed of a task of a kind alone on this type; 1 is the speed of the trace."""
        return self._speeds.get(workload_of(kind), 1.0) if self.speeds else 1.0

    @cached_property
    def _speeds(self) -> dict[str, float]:
        return dict(self.speeds)


@dataclass(frozen=True)
class Catalogue:
    """Instance types in the order of their file. Raises ClusterError where there are none, or two of one name."""

    types: tuple[InstanceType, ...]

    def __post_init__(self) -> None:
        if not self.types:
            raise ClusterError(
                "a planner needs at least one instance type to rent: add [[offers]] to the cluster file"
            )
        names = [each.name for each in self.types]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ClusterError(
                f"instance type {twice[0]} stands twice in the catalogue: give each its own name"
            )

    @classmethod
    def of(cls, offers: Iterable[Offer]) -> Catalogue:
        """The types of offers."""
        return cls(tuple(InstanceType.of(offer) for offer in offers))

    @cached_property
    def place(self) -> dict[str, int]:
        """The index of each type, by its name."""
        return {each.name: number for number, each in enumerate(self.types)}

    @cached_property
    def dearest_first(self) -> tuple[int, ...]:
        """The places of all types by falling price; equal prices keep the catalogue's order."""
        return tuple(sorted(range(len(self.types)), key=lambda k: -self.types[k].usd_per_h))

    @cached_property
    def cheapest_first(self) -> tuple[int, ...]:
        """The places of all types by rising price; equal prices keep the catalogue's order."""
        return tuple(sorted(range(len(self.types)), key=lambda k: self.types[k].usd_per_h))

    def named(self, name: str) -> InstanceType:
        """The type of this name; raises ClusterError if there is none."""
        if name not in self.place:
            raise ClusterError(
                f"there is no instance type {name} in the catalogue; it has {', '.join(self.place)}"
            )
        return self.types[self.place[name]]

    def cheapest_holding(self, demands: Sequence[Demand]) -> int | None:
        """Index of the cheapest type that holds all demands on one machine; None if no type does."""
        for k in self.cheapest_first:
            if fits(self.types[k], demands):
                return k
        return None


def fits(type: InstanceType, demands: Iterable[Demand]) -> bool:  # noqa: A002 - the field's word
    """Whether one machine of a type holds all demands at once."""
    gpu, cpu, memory = type.capacity
    for demand in demands:
        needed = demand.on(type.family)
        if needed is None:
            return False
        gpu, cpu, memory = gpu - needed[0], cpu - needed[1], memory - needed[2]
    return min(gpu, cpu, memory) >= 0


def _amounts(natural: Sequence[float]) -> Amounts:
    if len(natural) != len(RESOURCES) or not all(math.isfinite(each) and each >= 0 for each in natural):
        raise InputError(
            f"a demand: expected {', '.join(UNITS)}, each a number from 0, found {tuple(natural)}"
        )
    if not any(natural):
        raise InputError("a demand of nothing: expected some GPU, cores or memory")
    return cast(Amounts, tuple(int(each) for each in whole_demand(natural)))
