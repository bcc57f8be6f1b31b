"""Plans of the policy `slurm`: as a real Slurm made them, and as a plain planner makes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import betimes
from betimes import ClusterState, RunningJob, Workload
from betimes.cluster import Cluster, NodeGroup
from betimes.core.nodes.passes.slurm_backfill import plan_as_slurm
from betimes.errors import PolicyError
from betimes.kernels import as_array, entry
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes

plan = entry(plan_as_slurm)

EXACT = "depth=0,horizon=0,resolution=0,precision=0"


@dataclass(frozen=True)
class Job:
    """Tasks of `cores` each; `ends_s` and `nodes` of one that runs, by number of its tasks on each."""

    tasks: int
    limit_s: float
    cores: int = 1
    ends_s: float = 0.0
    nodes: Mapping[int, int] | None = None
    label: str = ""


def waits(tasks: int, minutes: float, **more: Any) -> Job:
    return Job(tasks, 60.0 * minutes, **more)


def planned(cluster: Cluster, jobs: Sequence[Job], now_s: float, policy: str = "slurm") -> list[float]:
    """The starts that are planned for the jobs that wait, in their order."""
    ids = [str(at) for at in range(len(jobs))]
    workload = Workload.from_columns(
        submit_s=[0.0] * len(jobs),
        work_s=[job.limit_s * job.tasks * job.cores for job in jobs],
        min_units=[job.tasks * job.cores for job in jobs],
        max_units=[job.tasks * job.cores for job in jobs],
        units_per_task=[job.cores for job in jobs],
        estimate_s=[job.limit_s for job in jobs],
        require=[f"{job.label}=yes" if job.label else "" for job in jobs],
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
    )
    running = [
        RunningJob(
            name,
            min(now_s, job.ends_s - job.limit_s),
            {cluster.node_names[node]: tasks * job.cores for node, tasks in job.nodes.items()},
            left_s=job.ends_s - now_s,
        )
        for name, job in zip(ids, jobs, strict=True)
        if job.nodes is not None
    ]
    waiting = [name for name, job in zip(ids, jobs, strict=True) if job.nodes is None]
    state = ClusterState(now_s, running, waiting)
    options = SimulationOptions(cluster=cluster, sizes=Sizes("estimate"), state=state)
    simulation = NodesSimulation(workload, parse_nodes_policy(policy), options)
    simulation.begin()
    driver = simulation.driver
    while status := plan(driver.state, driver.rules):
        driver.heed(status)
    slot_of = {int(row): slot for slot, row in enumerate(as_array(driver.state.progress)["row"])}
    needs = as_array(driver.state.needs)[[slot_of[int(name)] for name in waiting]]
    return [now_s if need["holder"] >= 0 else float(need["reserved_s"]) for need in needs]


# --- what slurmctld 22.05 planned; instants are its own, seconds since 1970 ---

AT = 1795945613.0
SHARED = Cluster("shared", (NodeGroup("s", 2, 0.0, 4.0, 0.0),))


def test_a_job_that_waits_is_planned_whole_nodes_where_jobs_share_them_too() -> None:
    """Jobs of one core could run side by side on the node that is free first: they are planned one after another."""
    jobs = [
        Job(4, 600.0, ends_s=AT + 600.0, nodes={0: 4}),
        Job(4, 1200.0, ends_s=AT + 1200.0, nodes={1: 4}),
        *3 * [waits(1, 5)],
    ]
    assert planned(SHARED, jobs, AT) == [1795946213.0, 1795946460.0, 1795946760.0]


def test_a_long_job_does_not_start_beside_a_plan_that_would_leave_it_room() -> None:
    """On a node of four cores, two of which are busy for 10 minutes; the first that waits needs three."""
    jobs = [Job(2, 600.0, ends_s=AT + 600.0, nodes={0: 2}), waits(3, 10), waits(1, 60), waits(1, 5)]
    start_s = planned(Cluster("mix", (NodeGroup("s", 1, 0.0, 4.0, 0.0),)), jobs, AT)
    assert start_s == [AT + 600.0, math.floor((AT + 1200.0) / 60.0) * 60.0, AT]


def test_ends_count_together_in_intervals_that_double() -> None:
    """Sixteen nodes, one free every minute from the second on: what a job of one to sixteen nodes is planned at."""
    now_s = 1795945637.0
    running = [
        Job(1, 60.0 * minute, ends_s=now_s + 60.0 * minute, nodes={minute - 2: 1}) for minute in range(2, 18)
    ]
    nodes = Cluster("one", (NodeGroup("e", 16, 0.0, 1.0, 0.0),))
    minutes = [
        (planned(nodes, [*running, waits(width, 1)], now_s)[0] - now_s) / 60.0 for width in range(1, 17)
    ]
    assert minutes == [2, 3, 4, 6, 6, 10, 10, 10, 10, 17, 17, 17, 17, 17, 17, 17]


def test_a_partition_whose_first_job_waits_keeps_its_nodes_from_other_partitions() -> None:
    """A job of all nodes waits; one of a partition of some of these goes ahead only if it is over in time."""
    groups = (
        NodeGroup("low", 4, 0.0, 1.0, 0.0, labels=(("low", "yes"), ("one", "yes"))),
        NodeGroup("one", 12, 0.0, 1.0, 0.0, labels=(("one", "yes"),)),
    )
    now_s = 1795946784.0
    jobs = [
        *(Job(1, 1200.0, ends_s=1795947974.0, nodes={node: 1}) for node in range(3)),
        waits(16, 10, label="one"),
        waits(1, 60, label="low"),
        waits(1, 5, label="low"),
    ]
    assert planned(Cluster("overlapping", groups), jobs, now_s) == [1795947974.0, 1795948560.0, now_s]


# --- a plain planner ---


def plainly(cores: Sequence[int], jobs: Sequence[Job], now_s: float, **set_up: float) -> list[float]:
    """The plan in a few lines: every second is looked at. For whole seconds, and nodes of one core or several."""
    depth, horizon_s = set_up["depth"] or math.inf, set_up["horizon"] or math.inf
    round_s = set_up["resolution"] or 1.0
    running = sorted((job for job in jobs if job.nodes is not None), key=lambda job: job.ends_s)
    claims: list[tuple[float, float, set[int]]] = []
    starts: list[float] = []
    latest_s = max([now_s, *(job.ends_s for job in running)]) + sum(job.limit_s for job in jobs) + 500.0

    def claimed(from_s: float, to_s: float) -> set[int]:
        return {
            node for begin, end, nodes in claims if begin < min(to_s, end) and from_s < end for node in nodes
        }

    def held(node: int, when_s: float) -> int:
        return sum((job.nodes or {}).get(node, 0) * job.cores for job in running if job.ends_s > when_s)

    tried = 0  # jobs that start in order, before any has to wait, are not among those that are planned
    for job in (job for job in jobs if job.nodes is None):
        tried += int(any(start_s > now_s for start_s in starts[-1:]) or tried > 0)
        starts.append(math.inf)
        if tried >= depth:
            continue
        for begin_s in np.arange(now_s, latest_s):
            taken = claimed(begin_s, begin_s + job.limit_s + int(set_up["resolution"] > 0))
            room = [0] * len(cores)
            for when_s in np.arange(now_s, begin_s + 1.0):  # on nodes that are free when just enough are
                if sum(room) < job.tasks:
                    room = [
                        0 if node in taken else max(0, cores[node] - held(node, when_s)) // job.cores
                        for node in range(len(cores))
                    ]
            if sum(room) < job.tasks:
                continue
            if begin_s > now_s + horizon_s:
                break
            chosen = dict(_shortest_rows(room, job.tasks))
            starts[-1] = float(begin_s)
            if begin_s == now_s:
                running.append(Job(job.tasks, job.limit_s, job.cores, now_s + job.limit_s, chosen))
            else:
                claims.append(
                    (begin_s // round_s * round_s, (begin_s + job.limit_s) // round_s * round_s, set(chosen))
                )
            break
    return starts


def _shortest_rows(room: Sequence[int], tasks: int) -> list[tuple[int, int]]:
    rows, chosen = list[list[int]](), list[tuple[int, int]]()
    for node in range(len(room)):
        if room[node] > 0:
            if rows and rows[-1][-1] == node - 1:
                rows[-1].append(node)
            else:
                rows.append([node])
    while tasks > 0:
        size = [sum(room[node] for node in row) for row in rows]
        enough = [at for at in range(len(rows)) if size[at] >= tasks]
        best = (
            min(enough, key=lambda at: size[at]) if enough else max(range(len(rows)), key=lambda at: size[at])
        )
        for node in rows.pop(best):
            if tasks > 0:
                chosen.append((node, min(tasks, room[node])))
                tasks -= chosen[-1][1]
    return chosen


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[int], list[Job]]:
    """Few nodes of one to three cores, some of them busy, and few jobs; all instants are whole seconds."""
    cores = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    jobs = [
        Job(1, 60.0, ends_s=100.0 + draw(st.integers(1, 40)), nodes={node: 1})
        for node in range(len(cores))
        for _ in range(draw(st.integers(0, cores[node])))
    ]
    for _ in range(draw(st.integers(1, 6))):
        each = draw(st.integers(1, max(cores)))
        most = sum(count // each for count in cores)
        jobs.append(Job(draw(st.integers(1, most)), float(draw(st.integers(1, 30))), each))
    return cores, jobs


# A job of one core takes the node of which it leaves least, so that the two cores of another are there for the next.
ROOM_TO_CHOOSE = ([2, 1, 1], [Job(1, 60.0, ends_s=101.0, nodes={1: 1}), Job(1, 1.0), Job(1, 1.0, cores=2)])


@settings(max_examples=150)
@example(ROOM_TO_CHOOSE, 0, 0, 0)
@given(queues(), st.sampled_from([0, 1, 3]), st.sampled_from([0, 20]), st.sampled_from([0, 1, 10]))
def test_it_is_the_plan_of_a_planner_that_looks_at_every_second(
    queue: tuple[list[int], list[Job]], depth: int, horizon: int, resolution: int
) -> None:
    cores, jobs = queue
    cluster = Cluster("few", tuple(NodeGroup(f"n{at}", 1, 0.0, float(c), 0.0) for at, c in enumerate(cores)))
    policy = f"slurm:precision=0,depth={depth},horizon={horizon},resolution={resolution}"
    expected = plainly(cores, jobs, 100.0, depth=depth, horizon=horizon, resolution=resolution)
    assert planned(cluster, jobs, 100.0, policy) == expected


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_without_limits_and_intervals_it_is_conservative_where_all_jobs_take_the_same_node(seed: int) -> None:
    """On more nodes the two may choose others, for a reservation of `conservative` keeps those it was made with."""
    rng = np.random.default_rng(seed)
    workload = Workload.from_columns(
        submit_s=np.sort(rng.integers(0, 300, 30)).astype(float),
        work_s=rng.integers(1, 60, 30).astype(float),
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
    )
    ours, theirs = (
        betimes.simulate(workload, policy, cluster=Cluster.uniform(1, cpu=1)).jobs.start_s.tolist()
        for policy in (f"slurm:{EXACT}", "conservative")
    )
    assert ours == theirs


def test_a_higher_priority_goes_first_whatever_came_first() -> None:
    workload = Workload.from_columns(
        submit_s=[0.0, 1.0, 2.0],
        work_s=[100.0, 10.0, 10.0],
        priority=[0, 0, 5],
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
    )
    result = betimes.simulate(workload, "slurm", cluster=Cluster.uniform(1, cpu=1))
    assert result.jobs.start_s.tolist() == [0.0, 110.0, 100.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("depth=2.5", "whole"),
        ("horizon=-1", "horizon"),
        ("resolution=x", "resolution"),
        ("window=5", "window"),
    ],
)
def test_values_that_cannot_be_are_refused(text: str, said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        NodesSimulation(
            Workload.from_columns(submit_s=[0.0], work_s=[1.0]),
            parse_nodes_policy(f"slurm:{text}"),
            SimulationOptions(cluster=Cluster.uniform(1, cpu=1, gpu=1)),
        )
