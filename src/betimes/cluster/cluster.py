"""The machines that jobs run on: groups of equal nodes, and the same as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from betimes.cluster.resources import MOST, PER_UNIT, RESOURCES, whole_capacity
from betimes.errors import ClusterError

Integers = NDArray[np.int64]

MOST_NODES = 1_000_000
MOST_CHARACTERS = 256
MOST_GRACE_S = 1e9
MOST_USD_PER_H = 1e9
DEFAULT_GRACE_LIMIT_S = 3600.0
POOL = "pool"


@dataclass(frozen=True)
class NodeGroup:
    """`count` equal nodes of one type: GPUs, cores and GiB of memory *each*; `usd_per_h` is one node's price, if any.

    Raises ClusterError, naming the field, for what no node can be.
    """

    type: str
    count: int
    gpu: float
    cpu: float
    memory_gib: float
    usd_per_h: float | None = None

    def __post_init__(self) -> None:
        _printable("type", self.type)
        if not _whole(self.count) or not 1 <= self.count <= MOST_NODES:
            raise ClusterError(
                f"field count: expected a whole number of nodes from 1 to {MOST_NODES}, "
                f"found {_shown(self.count)}"
            )
        for field in RESOURCES:
            _amount(field, getattr(self, field), MOST)
        if self.usd_per_h is not None:
            _amount("usd_per_h", self.usd_per_h, MOST_USD_PER_H)
        if not whole_capacity(self.amounts).any():
            raise ClusterError(
                f"field cpu: expected a node with some GPU, cores or memory, found {_shown(self.cpu)} cores and "
                "nothing else"
            )

    @property
    def amounts(self) -> tuple[float, float, float]:
        """GPUs, cores, GiB."""
        return self.gpu, self.cpu, self.memory_gib


@dataclass(frozen=True)
class Cluster:
    """Nodes, numbered from 0 in the order of their groups.

    `grace_limit_s` is the longest grace period that a job may ask for. Raises ClusterError, naming the field.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    grace_limit_s: float = DEFAULT_GRACE_LIMIT_S

    def __post_init__(self) -> None:
        _printable("name", self.name)
        _amount("grace_limit_s", self.grace_limit_s, MOST_GRACE_S)
        if not self.groups:
            raise ClusterError(f"cluster {self.name}: expected at least one group of nodes")
        if len(self) > MOST_NODES:
            raise ClusterError(f"cluster {self.name}: expected at most {MOST_NODES} nodes, found {len(self)}")

    @classmethod
    def pool(cls, units: int) -> Cluster:
        """Identical units without walls between them: one node with as many cores as units."""
        if not _whole(units) or not 1 <= units <= MOST:
            raise ClusterError(
                f"a pool: expected a whole number of units from 1 to {MOST:.0f}, found {_shown(units)}"
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

    def __len__(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def units(self) -> int:
        """What one counts a cluster by: its GPUs, else its cores, else its nodes; at least 1."""
        gpus, cores = (float(self.total[at]) / PER_UNIT[at] for at in (0, 1))
        return max(1, int(gpus or cores or len(self)))

    @property
    def is_pool(self) -> bool:
        """Whether this is what `pool` makes: a unit of any job then needs one core, whatever its demand."""
        group = self.groups[0]
        return (len(self.groups), group.type, group.count, group.gpu, group.memory_gib) == (1, POOL, 1, 0, 0)

    @cached_property
    def group_capacity(self) -> Integers:
        """What one node of each group has, (groups, 3): thousandths of a GPU, thousandths of a core, MiB."""
        return _frozen(whole_capacity([group.amounts for group in self.groups]))

    @cached_property
    def capacity(self) -> Integers:
        """What each node has, (nodes, 3): thousandths of a GPU, thousandths of a core, MiB."""
        return _frozen(self.group_capacity[self.types])

    @cached_property
    def types(self) -> Integers:
        """The index of each node's group, (nodes,)."""
        counts = [group.count for group in self.groups]
        return _frozen(np.repeat(np.arange(len(counts), dtype=np.int64), counts))

    @cached_property
    def largest(self) -> Integers:
        """The most that any node has of each resource, (3,), possibly of different nodes."""
        return _frozen(self.group_capacity.max(axis=0))

    @cached_property
    def total(self) -> Integers:
        """What all nodes together have, (3,)."""
        counts = np.array([group.count for group in self.groups], np.int64)
        return _frozen(counts @ self.group_capacity)


def _frozen(values: Integers) -> Integers:
    values.flags.writeable = False
    return values


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _amount(field: str, value: object, most: float) -> None:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    # Not converted first: an int of any length compares with a float but need not fit one. NaN is in no range.
    if not number or not 0 <= cast(float, value) <= most:
        raise ClusterError(f"field {field}: expected a number from 0 to {most:.0f}, found {_shown(value)}")


def _printable(field: str, value: object) -> None:
    text = isinstance(value, str) and value.isprintable() and value == value.strip()
    if not text or not 1 <= len(str(value)) <= MOST_CHARACTERS:
        raise ClusterError(
            f"field {field}: expected a printable name of 1 to {MOST_CHARACTERS} characters, "
            f"found {_shown(value)}"
        )


def _shown(value: object) -> str:
    # Python refuses to write out an int of thousands of digits.
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of 19 digits or more"
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 50 else text[:46] + " ..."
