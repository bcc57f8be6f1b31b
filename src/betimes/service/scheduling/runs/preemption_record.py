"""What a preemption costs, in node-seconds: what a job holds without getting on, and what it has to do again.

A node-second is a whole node for a second; of a node a job counts for the largest share that it takes of any resource.
The wait until the job goes on costs no node anything, and is stated beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from betimes.cluster.resources import UnitDemand
from betimes.service.scheduling.nodes.node import Node


@dataclass(frozen=True)
class Preemption:
    """A run that was told to make room. Null: not known yet, or it never came to that."""

    run: int
    by: tuple[int, ...]  # the jobs that take what it gives up; empty: no particular one
    policy: str
    told_at: float
    grace_s: float
    nodes: float  # that it held
    had_frac: float | None = None  # of its work, as it had reported when it left
    left_at: float | None = None
    vacating_node_s: float | None = None  # held from the request to leave until it had left
    resumed_at: float | None = None
    restart_node_s: float | None = None  # held by the next run before its work goes on
    lost_node_s: float | None = None  # of work done since its last checkpoint, which has to be done again

    def left(self, now_at: float, had_frac: float | None, worked_on: bool) -> Preemption:
        """Nothing of the run is left; worked_on: it ended by itself, so that no time was wasted."""
        vacating = 0.0 if worked_on else self.nodes * (now_at - self.told_at)
        return replace(self, left_at=now_at, had_frac=had_frac, vacating_node_s=vacating)

    def resumed(self, now_at: float, restart_s: float, nodes: float) -> Preemption:
        """The job's next run begins on so many nodes."""
        return replace(self, resumed_at=now_at, restart_node_s=nodes * restart_s)

    def goes_on(self, frac: float, whole_s: float, nodes: float) -> Preemption:
        """The next run reports for the first time how far it is; all of the work would take it whole_s."""
        lost_frac = max(0.0, (self.had_frac or 0.0) - frac)
        return replace(self, lost_node_s=lost_frac * whole_s * nodes)

    def to_json(self) -> dict[str, Any]:
        """All of it, for an event or a snapshot."""
        return {**asdict(self), "by": [*self.by]}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Preemption:
        """A preemption of an event or a snapshot."""
        return cls(**{**found, "by": tuple(found["by"])})


def nodes_held(places: Iterable[tuple[str, int]], unit: UnitDemand, nodes: Mapping[str, Node]) -> float:
    """How many nodes units amount to: the largest share of any resource, added up over nodes."""
    return sum(
        units
        * max(
            need / room if room > 0 else 0.0
            for need, room in zip(
                unit.amounts_on(nodes[name].family) or (0, 0, 0), nodes[name].capacity, strict=True
            )
        )
        for name, units in places
    )
