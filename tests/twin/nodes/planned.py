"""Clusters of machines on offer under planners of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.planning import Decision, Snapshot
from betimes.outcome import Result
from betimes.policies import ChosenPolicy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload
from tests.core.nodes.invariants import check


@dataclass
class Planned:
    """A planner that is a function."""

    period_s: float
    decide: Callable[[Snapshot], Sequence[Decision]]
    every_round: bool = True

    def plan(self, snapshot: Snapshot) -> Sequence[Decision]:
        return self.decide(snapshot)


def planned(period_s: float, decide: Callable[[Snapshot], Sequence[Decision]]) -> ChosenPolicy[NodesPolicy]:
    """A policy that plans by this function."""
    policy = NodesPolicy("planned", "for a test", "", "", (), planner=lambda _, __: Planned(period_s, decide))
    return ChosenPolicy(policy, {}, (), "planned")


def jobs_of(*rows: tuple[float, float], cpu: float = 1.0, **extra: Any) -> Workload:
    """Jobs of one unit that needs so many cores: (submit_s, run_s)."""
    return Workload.from_columns(
        submit_s=[row[0] for row in rows],
        work_s=[row[1] for row in rows],
        min_units=[1] * len(rows),
        max_units=[1] * len(rows),
        cpu=[cpu] * len(rows),
        extra=extra,
    )


def rented(*offers: Offer, nodes: int = 0, cores: float = 1.0, **more: Any) -> Cluster:
    """A cluster with these offers, and so many nodes of its own."""
    own = (NodeGroup("own", nodes, 0.0, cores, 0.0),) if nodes else ()
    return Cluster("test", own, offers=offers, **more)


def run(
    workload: Workload, policy: ChosenPolicy[NodesPolicy], cluster: Cluster
) -> tuple[NodesSimulation, Result]:
    """Run it all, with the invariants looked at whenever the planner is asked."""
    simulation = NodesSimulation(workload, policy, SimulationOptions(cluster=cluster))
    heed = simulation.driver.heed

    def checked(status: int) -> None:
        check(simulation.state)
        heed(status)
        check(simulation.state)

    simulation.driver.heed = checked
    simulation.run()
    check(simulation.state)
    return simulation, simulation.result()
