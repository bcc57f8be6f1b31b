"""The resources that nodes have and tasks need, and the whole numbers in which they are counted.

Sums of fractions drift; whole numbers do not. So capacities and demands are counted in thousandths of a GPU,
thousandths of a core and MiB: capacities rounded down, demands rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # NumPy is imported where it is used: clients, which have none, check demands
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Amounts = tuple[int, int, int]  # thousandths of GPUs, thousandths of cores, MiB

RESOURCES = ("gpu", "cpu", "memory_gib")  # the order of every capacity and demand vector
UNITS = ("GPUs", "cores", "GiB")
PER_UNIT = (1000, 1000, 1024)  # thousandths of a GPU, thousandths of a core, MiB

# The most that a node may have, in GPUs, cores or GiB. Demands end at twice that, which no node has: a million
# times such a demand is still an int64.
MOST = 1e9

NOWHERE = 1 << 41
"""The demand of a task, in whole numbers, on machines on which it cannot run: more than any demand is."""

# 1.001 GPUs are 1000.9999999999999 thousandths in floating point, and mean 1001.
_RELATIVE, _ABSOLUTE = 1e-12, 1e-9


def whole_capacity(natural: ArrayLike) -> NDArray[np.int64]:
    """GPUs, cores and GiB (..., 3) of at most `MOST` each as whole numbers, rounded down."""
    import numpy as np

    scaled = np.asarray(natural, np.float64) * PER_UNIT
    return np.floor(scaled * (1.0 + _RELATIVE) + _ABSOLUTE).astype(np.int64)


def whole_demand(natural: ArrayLike) -> NDArray[np.int64]:
    """GPUs, cores and GiB (..., 3) as whole numbers, rounded up: above 0 where something is needed at all.
    Demands beyond every node are cut to one that still is.
    """
    import numpy as np

    scaled = np.minimum(np.asarray(natural, np.float64), 2.0 * MOST) * PER_UNIT
    rounded = np.ceil(scaled * (1.0 - _RELATIVE) - _ABSOLUTE)
    return np.maximum(rounded, scaled > 0).astype(np.int64)


@lru_cache(maxsize=4096)
def capacity_amounts(gpu: float, cpu: float, memory_gib: float) -> Amounts:
    """The capacity of one node, rounded down."""
    gpus, cores, memory = whole_capacity((gpu, cpu, memory_gib)).tolist()
    return gpus, cores, memory


@lru_cache(maxsize=4096)
def demand_amounts(gpu: float, cpu: float, memory_gib: float) -> Amounts:
    """The demand of one unit, or one task, rounded up."""
    gpus, cores, memory = whole_demand((gpu, cpu, memory_gib)).tolist()
    return gpus, cores, memory


def multiples_within(natural: ArrayLike, capacity: NDArray[np.int64], most: ArrayLike) -> NDArray[np.int64]:
    """The number of times that each demand, (n, 3) in GPUs, cores and GiB, fits into one capacity (3,), up to `most`.

    Multiples are rounded up, not the demand: eight eighths of a GPU fit into one.
    """
    import numpy as np

    needed = np.asarray(natural, np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        room = (capacity + _ABSOLUTE) / (needed * PER_UNIT * (1.0 - _RELATIVE))
    # Nothing is left of a resource that the node lacks; one that is not needed sets no limit.
    room = np.where(needed > 0, np.where(capacity > 0, room, 0.0), np.inf)
    fits = np.minimum(np.floor(room.min(axis=1)), most).astype(np.int64)
    return fits - (whole_demand(needed * fits[:, None]) > capacity).any(axis=1)


CORES_A_GPU = 8.0
GIB_A_CORE = 4.0


def charge_of(gpu: ArrayLike, cpu: ArrayLike, memory_gib: ArrayLike) -> NDArray[np.float64]:
    """The weight of an amount in a user's share, in cores: its largest part, a GPU as 8 cores and 4 GiB as one core."""
    import numpy as np

    parts = np.maximum(np.asarray(gpu, np.float64) * CORES_A_GPU, np.asarray(cpu, np.float64))
    return np.maximum(parts, np.asarray(memory_gib, np.float64) / GIB_A_CORE)


def unit_charge(amounts: Amounts) -> float:
    """`charge_of` one unit's amounts."""
    gpu, cpu, memory_gib = (amount / per for amount, per in zip(amounts, PER_UNIT, strict=True))
    return max(gpu * CORES_A_GPU, cpu, memory_gib / GIB_A_CORE)


Natural = tuple[float, float, float]  # GPUs, cores, GiB


@dataclass(frozen=True, slots=True)
class UnitDemand:
    """The demand of a unit.

    by_family: sorted by family. If not empty, the job runs on these families only, and `everywhere` means nothing
    (spec/eva.md 2.1). speeds: how fast it works there, in the same order; empty: 1 on all.
    """

    everywhere: Natural
    by_family: tuple[tuple[str, Natural], ...] = ()
    speeds: tuple[float, ...] = ()

    def __str__(self) -> str:
        """As in `1 GPU, 4 cores, 10 GiB`."""
        if not self.by_family:
            return _text(*self.everywhere)
        return " or ".join(f"{_text(*needed)} on {family}" for family, needed in self.by_family)

    def on(self, family: str) -> Natural | None:
        """A unit's demand on a family; null: it cannot run there."""
        if not self.by_family:
            return self.everywhere
        return next((needed for name, needed in self.by_family if name == family), None)

    @property
    def most(self) -> Amounts:
        """A unit's demand in whole numbers; of each resource the most on any family."""
        if not self.by_family:
            return demand_amounts(*self.everywhere)
        gpu, cpu, memory = (max(needed[at] for _, needed in self.by_family) for at in range(3))
        return demand_amounts(gpu, cpu, memory)

    def speed_on(self, family: str) -> float:
        """The job's speed on a family; 1 where none is stated."""
        named = (name for name, _ in self.by_family)
        return next((speed for name, speed in zip(named, self.speeds, strict=False) if name == family), 1.0)

    def amounts_on(self, family: str) -> Amounts | None:
        """The same in whole numbers, rounded up."""
        needed = self.on(family)
        return None if needed is None else demand_amounts(*needed)


def _text(gpu: float, cpu: float, memory_gib: float) -> str:
    return f"{gpu:g} GPU, {cpu:g} cores, {memory_gib:g} GiB"
