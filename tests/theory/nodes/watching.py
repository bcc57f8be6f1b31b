"""The engine stopped after every instant, and what it holds then as plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from betimes import Result, Workload
from betimes.cluster import Cluster
from betimes.core.nodes.columns import NodesState
from betimes.kernels import as_array
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.tasks import Tasks
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes

Vector = tuple[int, int, int]  # thousandths of a GPU, thousandths of a core, MiB


@dataclass(frozen=True)
class Stay:
    """A job that holds resources, or is promised some: its row, and its tasks on each node."""

    row: int
    on: dict[int, int]
    since: float  # when it was last started
    leaves: float  # when its grace period is over; infinity: nobody told it to leave


@dataclass(frozen=True)
class Seen:
    """A cluster once everything at the instant `now` has happened. Rows are those of the jobs that were taken."""

    now: float
    free: list[Vector]  # (nodes,)
    running: list[Stay]
    vacating: list[Stay]
    nominated: list[Stay]
    waiting: list[int]  # rows, in order of submission
    preemptions: dict[int, int]  # of all live jobs, by row
    shadow_s: float  # what EASY's reservation says; NaN: there is none

    @property
    def holding(self) -> list[Stay]:
        return [*self.running, *self.vacating]


def watch(
    workload: Workload,
    policy: str,
    cluster: Cluster,
    look: Callable[[Seen], object] | None = None,
    *,
    tasks: Tasks | None = None,
    sizes: str = "true",
    restart_s: float = 0.0,
    seed: int = 0,
) -> Result:
    """Simulate, and show `look` what there is after every instant; without it, at full speed."""
    run = NodesSimulation(
        workload,
        parse_nodes_policy(policy),
        SimulationOptions(
            cluster=cluster, sizes=parse_sizes(sizes), restart_s=restart_s, seed=seed, timeline=True
        ),
        tasks=tasks,
    )

    def step(stop: int) -> int:
        if look is None:
            return run.driver.step(stop)
        run.state.pool[0].budget = 1 - run.state.cluster[0].pending  # an instant half done is one, too
        status = run.driver.step(stop)
        if run.state.cluster[0].pending == 0:
            look(_seen(run))
        return status

    run.run(step)
    return run.result()


def _seen(run: NodesSimulation) -> Seen:
    state, pool, cluster = run.state, run.state.pool[0], run.state.cluster[0]
    nodes = as_array(state.nodes)
    used = np.ones(len(state.free), dtype=bool)
    used[state.free[: pool.free]] = False
    seen = Seen(
        float(pool.now),
        list(zip(*(nodes[f"free_{name}"].tolist() for name in ("gpu", "cpu", "memory")), strict=True)),
        [],
        [],
        [],
        [],
        {},
        float(cluster.shadow_s) if cluster.reserved >= 0 else math.nan,
    )
    slots = np.flatnonzero(used)
    progress, needs = as_array(state.progress)[slots], as_array(state.needs)[slots]
    live = (progress[name].tolist() for name in ("row", "since", "preemptions"))
    places = np.where(needs["placed"] >= 0, needs["placed"], needs["bound"])
    need = (as_array(state.evictions)["vacate_at"][slots].tolist(), needs["holder"].tolist(), places.tolist())
    for row, since, preemptions, leaves, holder, at in zip(*live, *need, strict=True):
        seen.preemptions[row] = preemptions
        if at < 0:
            seen.waiting.append(row)
            continue
        stay = Stay(row, _nodes_from(state, at), since, leaves)
        if holder < 0:
            seen.nominated.append(stay)
        else:
            (seen.running if leaves == math.inf else seen.vacating).append(stay)
    seen.waiting.sort()
    return seen


def _nodes_from(state: NodesState, at: int) -> dict[int, int]:
    on: dict[int, int] = {}
    while at >= 0:
        node, tasks, at = as_array(state.placements)[["node", "tasks", "follows"]][at].tolist()
        on[node] = tasks
    return on


def plus(a: Vector, b: Vector, times: int = 1) -> Vector:
    """a + times * b."""
    return a[0] + times * b[0], a[1] + times * b[1], a[2] + times * b[2]


def most_tasks(demand: Vector, free: Vector) -> int:
    """How many tasks fit into what a node has free."""
    return min((room // need for need, room in zip(demand, free, strict=True) if need > 0), default=1 << 30)


def finds_room(demand: Vector, tasks: int, free: Sequence[Vector]) -> bool:
    """Whether all tasks of a job fit at once."""
    return sum(most_tasks(demand, room) for room in free) >= tasks


def demands_of(tasks: Tasks) -> list[Vector]:
    """What one task of each job needs."""
    return [(gpu, cpu, memory) for gpu, cpu, memory in tasks.demand.tolist()]


def given_back(free: Sequence[Vector], stays: Iterable[Stay], demands: Sequence[Vector]) -> list[Vector]:
    """What would be free without these stays."""
    nodes = list(free)
    for stay in stays:
        for node, tasks in stay.on.items():
            nodes[node] = plus(nodes[node], demands[stay.row], tasks)
    return nodes


def taken_as_they_are(counts: Sequence[int], demands: Sequence[Vector]) -> Tasks:
    """Jobs of so many tasks with such demands, none of which is refused."""
    return Tasks(
        np.array(counts, dtype=np.int64),
        np.array(demands, dtype=np.int64).reshape(len(counts), 3),
        np.zeros(len(counts), dtype=bool),
        (),
    )
