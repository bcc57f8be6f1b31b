"""Cases of the slow object model run by the engine, one instant at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from betimes.cluster import Cluster, NodeGroup
from betimes.cluster.labels import parse_labels
from betimes.cluster.resources import NOWHERE
from betimes.core.nodes.columns import NodesState
from betimes.kernels import entry
from betimes.policies import ChosenPolicy, parse_nodes_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.orders import lot
from betimes.twin.nodes import simulation
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.tasks import Tasks
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes
from betimes.workload import Workload
from tests.core.nodes.invariants import check
from tests.reference.nodes import Policy
from tests.reference.nodes.cases import Case, is_refused

SEED = 5
_lot = entry(lot)


def draw(number: int, seq: int) -> float:
    """The lots that the engine draws, for the model."""
    return _lot(SEED, number, seq)


Places = tuple[tuple[int, int], ...]


@dataclass
class Stepped:
    """What came of a run: the simulation, and who started when and where, as it stood when the instant was over."""

    run: NodesSimulation
    starts: list[list[tuple[float, Places]]]
    now: float = -1.0
    just: dict[int, Places] = field(default_factory=dict)

    def look(self) -> None:
        """Note who has started at this instant, and is not leaving already."""
        state, now = self.run.state, float(self.run.state.pool[0].now)
        if now > self.now:
            self.settle()
        self.now, self.just = now, {}
        for slot in state.holders[: state.pool[0].holders].tolist():
            need = state.needs[slot]
            eviction = state.evictions[slot]
            if state.progress[slot].since == now and eviction.vacate_at == math.inf:
                nodes: list[tuple[int, int]] = []
                at = need.placed
                while at >= 0:
                    nodes.append((int(state.placements[at].node), int(state.placements[at].tasks)))
                    at = state.placements[at].follows
                self.just[int(state.progress[slot].row)] = tuple(sorted(nodes))

    def settle(self) -> None:
        """The instant is over."""
        for row, nodes in self.just.items():
            self.starts[row].append((self.now, nodes))
        self.just = {}


def specification(policy: Policy) -> ChosenPolicy[NodesPolicy]:
    """The engine's name for a policy of the model."""
    if policy.preemption != "none":
        text = f"{policy.preemption}:P={policy.preemption_limit},trim={str(policy.trim).lower()}"
        if policy.preemption == "fitgpp":
            text += f",s={policy.grace_weight},fallback={policy.fallback}"
        return parse_nodes_policy(f"{text},placement={policy.placement}")
    gaps = policy.backfilling
    if gaps == "strict":
        name = policy.order if policy.order == "fifo" else f"{policy.order}:backfill=strict"
        return parse_nodes_policy(f"{name}{',' if ':' in name else ':'}placement={policy.placement}")
    return parse_nodes_policy(
        f"{gaps}:order={policy.order},window={policy.window},placement={policy.placement}"
    )


def simulation_of(case: Case, sizes: str = "estimate", **options: Any) -> NodesSimulation:
    """The engine set up for a case of the model; its tasks are taken as they are.

    sizes: as `betimes.simulate` takes them; the model's own beliefs are the estimates. Jobs are of two users in turn.
    """
    jobs, largest = case.jobs, max(1, len(case.jobs))
    cluster = Cluster(
        "case",
        tuple(
            NodeGroup(
                f"n{at}",
                1,
                node.capacity[0] / 1000,
                node.capacity[1] / 1000,
                node.capacity[2] / 1024,
                labels=parse_labels(node.labels),
                family=node.family or "any",
            )
            for at, node in enumerate(case.nodes)
        ),
        grace_limit_s=float(case.policy.grace_limit_s),
    )
    believed = [job.run if job.size is None else job.size for job in jobs]
    workload = Workload.from_columns(
        submit_s=[float(job.submit) for job in jobs],
        work_s=[float(job.run * job.units) for job in jobs],
        min_units=[job.units for job in jobs],
        max_units=[job.units for job in jobs],
        estimate_s=np.array(believed, dtype=float),
        qos=[job.qos for job in jobs],
        grace_s=[float(job.grace) for job in jobs],
        priority=[job.priority for job in jobs],
        user=[at % 2 for at in range(len(jobs))],
        require=[",".join(sorted(job.requires)) for job in jobs],
    )
    refused = np.array([is_refused(job, case.nodes, case.policy) for job in jobs])
    by_family = np.array(
        [
            [job.demand_on(family) or (NOWHERE, NOWHERE, NOWHERE) for family in cluster.families]
            for job in jobs
        ]
    ).reshape(largest, -1, 3)
    differs = any(job.by_family for job in jobs)
    tasks = Tasks(
        np.array([job.tasks for job in jobs]),
        by_family.min(axis=1),
        refused,
        (),
        by_family=by_family if differs else None,
        speeds=np.ones(by_family.shape[:2]) if differs else None,
    )
    return NodesSimulation(
        workload,
        specification(case.policy),
        SimulationOptions(
            cluster=cluster,
            sizes=parse_sizes(sizes),
            overrun=case.policy.overrun,
            seed=SEED,
            restart_s=float(case.policy.restart_s),
            **options,
        ),
        tasks=tasks,
    )


def step_through(run: NodesSimulation, look: Callable[[NodesState], object] | None = check) -> Stepped:
    """Run one instant at a time; `look` is shown the state after each."""
    stepped = Stepped(run, [[] for _ in range(len(run.jobs))])

    def step(stop: int) -> int:
        run.state.pool[0].budget = 1 - (run.state.cluster[0].pending > 0)
        status = run.driver.step(stop)
        if run.state.cluster[0].pending == 0:
            stepped.look()
            if look is not None:
                look(run.state)
        return status

    run.run(step)
    stepped.settle()
    return stepped


def small_columns(monkeypatch: Any) -> None:
    """Let all columns begin so small that they have to grow."""
    for name in ("FIRST_SLOTS", "FIRST_PLACEMENTS", "FIRST_PLAN", "RECORDS"):
        monkeypatch.setattr(simulation, name, 1)
