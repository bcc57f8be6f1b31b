"""What a unit of a job needs of a machine: the same on all of them, or something else on each family."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.cluster.resources import Amounts, demand_amounts

Natural = tuple[float, float, float]  # GPUs, cores, GiB


@dataclass(frozen=True, slots=True)
class UnitDemand:
    """What a unit needs of each resource.

    by_family: sorted by family. Where it is not empty, the job runs on these families only, and `everywhere` says
    nothing (spec/eva.md 2.1).
    """

    everywhere: Natural
    by_family: tuple[tuple[str, Natural], ...] = ()

    def __str__(self) -> str:
        """As in `1 GPU, 4 cores, 10 GiB`."""
        if not self.by_family:
            return _text(*self.everywhere)
        return " or ".join(f"{_text(*needed)} on {family}" for family, needed in self.by_family)

    def on(self, family: str) -> Natural | None:
        """What a unit needs on a family; null: it cannot run there."""
        if not self.by_family:
            return self.everywhere
        return next((needed for name, needed in self.by_family if name == family), None)

    def amounts_on(self, family: str) -> Amounts | None:
        """The same in whole numbers, rounded up."""
        needed = self.on(family)
        return None if needed is None else demand_amounts(*needed)


def _text(gpu: float, cpu: float, memory_gib: float) -> str:
    return f"{gpu:g} GPU, {cpu:g} cores, {memory_gib:g} GiB"
