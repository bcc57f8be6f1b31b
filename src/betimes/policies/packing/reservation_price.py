"""The reservation price of a task: that of the cheapest machine that could run it alone.

If machines run the task at different speeds, the cheapest is the one on which its work costs least, and the price is
that of an hour of work at speed 1; the same holds for several tasks on a machine. Source: Eva, section 4.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from betimes.errors import ClusterError
from betimes.policies.packing.catalogue import Catalogue, Demand, InstanceType, fits
from betimes.policies.packing.problem import Task


@dataclass(frozen=True)
class Reservation:
    """The price (USD an hour of work at speed 1) and the index in the catalogue of the type that sets it."""

    usd_per_h: float
    type: int


class ReservationPrices:
    """Reservations by demand and kind, each computed once. Of types of one price the first in the catalogue counts."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._known: dict[tuple[Demand, str], Reservation | None] = {}

    def of(self, task: Task) -> Reservation:
        """The reservation of a task; raises ClusterError if no type holds it."""
        found = self.reservation(task.demand, task.kind)
        if found is None:
            raise ClusterError(
                f"task {task.id} of job {task.job} fits no instance type that can be rented: its demand is "
                f"{_shown(task.demand)}; offer a larger type, or cancel the job"
            )
        return found

    def reservation(self, demand: Demand, kind: str) -> Reservation | None:
        """The reservation of a task of this demand and kind; None if no type holds it."""
        key = (demand, kind)
        if key not in self._known:
            types = self.catalogue.types
            each = (
                Reservation(types[k].usd_per_h / types[k].speed(kind), k)
                for k in range(len(types))
                if fits(types[k], [demand])
            )
            self._known[key] = min(each, key=lambda one: one.usd_per_h, default=None)
        return self._known[key]

    def total(self, tasks: Iterable[Task]) -> float:
        """The sum over tasks, USD an hour of work."""
        return sum(self.of(task).usd_per_h for task in tasks)

    def work_usd_per_h(self, tasks: Iterable[Task], type_: InstanceType) -> float:
        """The worth of the work of tasks on a type without interference, USD an hour."""
        return sum(self.of(task).usd_per_h * type_.speed(task.kind) for task in tasks)

    def cheapest_holding(self, tasks: Sequence[Task], among: Collection[str] | None = None) -> int | None:
        """Index of the type that holds all tasks on one machine at the lowest cost of work.

        `among` restricts the types by name; of equals the cheaper. None if no type holds them.
        """
        demands = [task.demand for task in tasks]
        best: tuple[float, int] | None = None
        for k in self.catalogue.cheapest_first:
            type_ = self.catalogue.types[k]
            if (among is None or type_.name in among) and fits(type_, demands):
                costs = type_.usd_per_h / self.work_usd_per_h(tasks, type_)
                if best is None or costs < best[0]:
                    best = (costs, k)
        return None if best is None else best[1]


def _shown(demand: Demand) -> str:
    families = [*demand.by_family, *([("any", demand.everywhere)] if demand.everywhere else [])]
    return "; ".join(
        f"{gpu / 1000:g} GPUs, {cpu / 1000:g} cores, {memory / 1024:g} GiB on {family}"
        for family, (gpu, cpu, memory) in families
    )
