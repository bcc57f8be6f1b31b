"""The reservation price of a task: that of the cheapest machine that could run it alone. Source: Eva, section 4.2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from betimes.errors import ClusterError
from betimes.policies.packing.catalogue import Catalogue, Demand
from betimes.policies.packing.problem import Task


@dataclass(frozen=True)
class Reservation:
    """The price (USD an hour) and the place in the catalogue of the type that sets it."""

    usd_per_h: float
    type: int


class ReservationPrices:
    """Reservations by demand, each computed once. Of types of one price the first in the catalogue counts."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._known: dict[Demand, Reservation] = {}

    def of(self, task: Task) -> Reservation:
        """The reservation of a task; raises ClusterError where no type can hold it."""
        known = self._known.get(task.demand)
        if known is None:
            k = self.catalogue.cheapest_holding([task.demand])
            if k is None:
                raise ClusterError(
                    f"task {task.id} of job {task.job} fits no instance type that can be rented: its demand is "
                    f"{_shown(task.demand)}; offer a larger type, or cancel the job"
                )
            known = self._known[task.demand] = Reservation(self.catalogue.types[k].usd_per_h, k)
        return known

    def total(self, tasks: Iterable[Task]) -> float:
        """The sum over tasks, USD an hour."""
        return sum(self.of(task).usd_per_h for task in tasks)


def _shown(demand: Demand) -> str:
    families = [*demand.by_family, *([("any", demand.everywhere)] if demand.everywhere else [])]
    return "; ".join(
        f"{gpu / 1000:g} GPUs, {cpu / 1000:g} cores, {memory / 1024:g} GiB on {family}"
        for family, (gpu, cpu, memory) in families
    )
