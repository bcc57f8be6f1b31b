"""What runs hold of nodes in truth: a run that is told to stop holds it until nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from betimes.service.executors.protocol import RunId
from betimes.service.job import Job, Places
from betimes.service.ledger import Ledger
from betimes.service.node import UP
from betimes.service.wanted import demand_of

Amounts = tuple[int, int, int]  # thousandths of GPUs, thousandths of cores, MiB


@dataclass
class _Stay:
    demand: Amounts
    places: Places


class Rooms:
    """Runs on nodes, as the executors have them."""

    def __init__(self, ledger: Ledger) -> None:
        self.nodes = ledger.nodes
        self.stays: dict[RunId, _Stay] = {}
        for job in ledger.jobs.values():
            if job.run is not None and job.run.launched:
                stay = _Stay(demand_of(job.spec), job.run.places)
                self.stays[RunId(job.job_id, job.run.number)] = stay

    def free_on(self, name: str) -> Amounts:
        """What a node has left; below zero nowhere, unless it has shrunk."""
        node = self.nodes[name]
        gpu, cpu, memory = node.capacity
        for stay in self.stays.values():
            for where, units in stay.places:
                if where == name:
                    gpu -= units * stay.demand[0]
                    cpu -= units * stay.demand[1]
                    memory -= units * stay.demand[2]
        return gpu, cpu, memory

    def runs_on(self, name: str) -> list[RunId]:
        """The runs that hold something of a node."""
        return [run for run, stay in self.stays.items() if any(where == name for where, _ in stay.places)]

    def enter(self, run: RunId, job: Job) -> Places | None:
        """Take what a run needs, where the policy put it or else where there is room; null: there is not enough yet."""
        demand = demand_of(job.spec)
        places = job.places or self._find(demand, job.units)
        if places is None or any(_most(self.free_on(name), demand, units) < units for name, units in places):
            return None
        self.stays[run] = _Stay(demand, places)
        return places

    def resize(self, run: RunId, job: Job, units: int) -> Places | None:
        """Let a run hold so many units, most of them where they are; null: there is no room for them."""
        stay = self.stays[run]
        held = sum(kept for _, kept in stay.places)
        if units > held:
            more = self._find(stay.demand, units - held)
            if more is None:
                return None
            stay.places = _joined([*stay.places, *more])
            return stay.places
        left, kept = units, list[tuple[str, int]]()
        for name, here in stay.places:
            if left > 0:
                kept.append((name, min(here, left)))
                left -= min(here, left)
        stay.places = kept
        return kept

    def leave(self, run: RunId) -> None:
        """Nothing of a run is left."""
        self.stays.pop(run, None)

    def _find(self, demand: Amounts, units: int) -> Places | None:
        """Nodes for so many units, the first that have room."""
        places, missing = list[tuple[str, int]](), units
        for name, node in self.nodes.items():
            if node.status == UP and missing > 0:
                here = _most(self.free_on(name), demand, missing)
                if here > 0:
                    places.append((name, here))
                    missing -= here
        return places if missing == 0 else None


def _most(free: Amounts, demand: Amounts, most: int) -> int:
    """How many units, at most so many, fit into what is free."""
    return max(0, min([most, *(room // need for room, need in zip(free, demand, strict=True) if need > 0)]))


def _joined(places: Iterable[tuple[str, int]]) -> Places:
    joined: dict[str, int] = {}
    for name, units in places:
        joined[name] = joined.get(name, 0) + units
    return list(joined.items())
