"""Queues of a thousand jobs, which fill many blocks: one machine for one job at a time, against a plain heap."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster
from betimes.core.nodes import external_events, snapshot
from betimes.core.nodes.columns import GROUP, NodesState
from betimes.core.nodes.growth import room_to_play
from betimes.kernels import as_array, entry
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.trace_loop import run_rows
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import parse_sizes
from tests.core.nodes.invariants import check

copy_into = entry(snapshot.copy_into)
believe = entry(external_events.believe, NodesState, int, float)

JOBS = 4000
CLUSTER = Cluster.uniform(1, gpu=1, cpu=1, memory_gib=1)
KEYS = {"anywhere": 10**6, "a few": 5}
"""How many different estimates there are."""


def crowd(keys: str, seed: int) -> Workload:
    """Jobs that come faster than they can be done, then slower, so that a queue grows and shrinks."""
    rng = np.random.default_rng(seed)
    gaps = np.where(np.arange(JOBS) < JOBS // 2, rng.integers(0, 8, JOBS), rng.integers(5, 20, JOBS))
    return Workload.from_columns(
        submit_s=np.cumsum(gaps).astype(float),
        work_s=rng.integers(1, 20, JOBS).astype(float),
        gpu=1.0,
        estimate_s=20.0 + rng.integers(0, KEYS[keys], JOBS),
    )


def run_of(workload: Workload) -> NodesSimulation:
    return NodesSimulation(
        workload, parse_nodes_policy("sjf"), SimulationOptions(cluster=CLUSTER, sizes=parse_sizes("estimate"))
    )


def one_after_another(workload: Workload) -> list[float]:
    """When each job starts if the machine always takes the waiting one with the smallest estimate."""
    start_s, waiting, now, row = [0.0] * JOBS, list[tuple[float, int]](), 0.0, 0
    for _ in range(JOBS):
        if not waiting:
            now = max(now, float(workload.submit_s[row]))
        while row < JOBS and workload.submit_s[row] <= now:
            heapq.heappush(waiting, (float(workload.estimate_s[row]), row))
            row += 1
        _, first = heapq.heappop(waiting)
        start_s[first] = now
        now += float(workload.work_s[first])
    return start_s


@pytest.mark.slow
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_shortest_of_a_thousand_goes_first(keys: str, seed: int) -> None:
    workload = crowd(keys, seed)
    run = run_of(workload)
    longest = 0
    for row in range(0, JOBS, 97):
        while run.row[0] < row:
            run.driver.heed(run.driver.step(row))
        check(run.state)
        longest = max(longest, int(run.state.cluster[0].waiting))
    assert longest > 500
    run.run()
    assert run.result().jobs.start_s.tolist() == one_after_another(workload)


@pytest.mark.parametrize("row", [700, 1500, 2100])
def test_a_copy_of_a_long_queue_goes_on_as_it_does(row: int) -> None:
    run = run_of(crowd("anywhere", row))
    while run.row[0] < row:
        run.driver.heed(run.driver.step(row))
    copy = room_to_play(run.state)
    copy_into(run.state, copy, False)
    check(copy)
    nobody, original = np.array([row]), run.trace.replaced(arrivals=cut(run.trace.arrivals, row))
    aside = original.replaced(outcomes=cut(original.outcomes, JOBS), finished=original.finished.copy())
    before = int(aside.finished[0])
    for state, trace in ((copy, aside), (run.state, original)):
        status = run_rows(state, run.rules, trace, nobody, row, math.inf)
        assert status == 0
        check(state)
    assert aside.finished[0] == original.finished[0] == row > before
    assert as_array(aside.outcomes).tobytes() == as_array(original.outcomes).tobytes()


@pytest.mark.parametrize("backfill", ["easy", "skip-over"])
def test_what_a_pass_steps_over_could_not_have_started(backfill: str) -> None:
    """A window that is never reached has blocks looked at one by one; without one, groups of them are stepped over."""
    rng = np.random.default_rng(3)
    run_s = rng.integers(1, 300, 9000).astype(float)
    workload = Workload.from_columns(
        submit_s=np.sort(rng.integers(0, 2000, 9000)).astype(float),
        work_s=run_s,
        cpu=2.0 ** rng.integers(0, 7, 9000),
        estimate_s=run_s * rng.choice([1.0, 2.0, 10.0], 9000),
    )
    narrow = int(np.flatnonzero(workload.cpu[:8000] == 1.0)[-1])
    came = list[list[float]]()
    for policy in (f"{backfill}:order=widest", f"{backfill}:order=widest,window=100000"):
        cluster = Cluster.uniform(3, cpu=64)
        run = NodesSimulation(
            workload,
            parse_nodes_policy(policy),
            SimulationOptions(cluster=cluster, sizes=parse_sizes("estimate")),
        )
        run.advance_rows(8500)
        check(run.state)
        assert run.state.cluster[0].blocks > 2 * GROUP
        slot = int(np.flatnonzero(as_array(run.state.progress)["row"] == narrow)[0])
        assert run.state.needs[slot].holder < 0
        believe(run.state, slot, 0.5)
        check(run.state)
        run.run()
        came.append(run.result().jobs.start_s.tolist())
    assert came[0] == came[1]


def cut(records: Any, length: int) -> Any:
    """A copy of the first so many."""
    return records[:length].copy()
