"""Jobs in chunks, and a run in pieces: the same as one run over the whole trace."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, read_cluster
from betimes.errors import InputError, PolicyError
from betimes.outcome import Result, summarise
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.nodes.streaming import StreamedSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.sizes import Sizes
from betimes.workload import Workload

CLUSTER = Cluster("own", (NodeGroup("own", 3, 0.0, 8.0, 32.0, 0.4, 0.6),), offers=read_cluster("m5").offers)
POLICIES = (
    "fifo",
    "njw",
    "compound:t=100,b=1200",
    "compound:t=100,b=1200,lengths=speculate,waits=none,backfill=strict",
    "sww:b=1200,order=sjf,waits=none,spot=true",
)


def some_jobs(count: int = 400, seed: int = 1) -> Workload:
    """Jobs of whole seconds, so that many are submitted, and end, at one instant."""
    rng = np.random.default_rng(seed)
    cores = rng.integers(1, 6, count)
    run_s = rng.choice([10.0, 60.0, 300.0, 1500.0], count)
    return Workload.from_columns(
        submit_s=np.sort(rng.integers(0, 12 * count, count) // 30 * 30).astype(float),
        work_s=run_s * cores,
        estimate_s=run_s * 2.0,
        min_units=cores,
        max_units=cores,
        cpu=np.ones(count),
        memory_gib=np.ones(count),
    )


def in_chunks(workload: Workload, rows: int) -> Iterator[Workload]:
    for begin in range(0, len(workload), rows):
        yield workload[np.arange(begin, min(begin + rows, len(workload)))]


def whole(workload: Workload, policy: str, sizes: str = "true") -> NodesSimulation:
    return NodesSimulation(
        workload, parse_nodes_policy(policy), SimulationOptions(cluster=CLUSTER, sizes=Sizes(sizes))
    )


def streamed(workload: Workload, policy: str, rows: int, sizes: str = "true") -> StreamedSimulation:
    return StreamedSimulation(
        in_chunks(workload, rows),
        parse_nodes_policy(policy),
        SimulationOptions(cluster=CLUSTER, sizes=Sizes(sizes)),
    )


def of_all(run: NodesSimulation) -> Result:
    run.run()
    return run.result()


@pytest.mark.parametrize(
    ("policy", "count", "rows"),
    [*((policy, 240, 41) for policy in POLICIES), ("compound:t=100,b=1200", 60, 1)],
)
def test_chunks_change_nothing(policy: str, count: int, rows: int) -> None:
    workload = some_jobs(count)
    expected = of_all(whole(workload, policy))
    run = streamed(workload, policy, rows)
    run.run()
    found = run.result()
    for name in ("submit_s", "start_s", "finish_s"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected.jobs, name), name)
    np.testing.assert_array_equal(found.cost_usd, np.nan_to_num(expected.jobs.cost_usd))
    assert (found.offer >= 0).tolist() == expected.jobs.rented.tolist()
    figures, known = found.summary(), summarise(expected)
    assert {name: figures[name] for name in figures if name in known} == {
        name: known[name] for name in figures if name in known
    }
    assert figures["on_demand_usd"] == pytest.approx(known["on_demand_usd"], rel=1e-15)


def test_beliefs_that_are_estimates_and_jobs_that_are_refused() -> None:
    """Also where the first chunk has no job that the cluster can run."""
    workload, policy = some_jobs(100), "fifo"
    cores = workload.max_units.copy()
    cores[[0, 1, 2, 40]] = 1000
    wide = Workload.from_columns(
        submit_s=workload.submit_s,
        work_s=workload.work_s,
        min_units=cores,
        max_units=cores,
        units_per_task=cores,
        estimate_s=workload.estimate_s,
        cpu=np.ones(100),
    )
    expected = of_all(whole(wide, policy, "estimate")).jobs
    run = streamed(wide, policy, 3, "estimate")
    run.run()
    found = run.result()
    kept = ~np.isnan(expected.start_s)
    assert found.refused == 4 == np.sum(~kept)
    np.testing.assert_array_equal(found.finish_s, expected.finish_s[kept])


@pytest.mark.parametrize("policy", ["fifo", "compound:t=100,b=1200"])
def test_in_pieces(policy: str) -> None:
    workload = some_jobs()
    expected = of_all(whole(workload, policy)).jobs
    run = whole(workload, policy)
    for until_s in (0.0, 29.9, 30.0, 777.0, 3000.0, 3000.0):
        run.advance_to(until_s)
        assert run.now_s <= until_s
        assert int(run.row[0]) == int(np.sum(workload.submit_s <= until_s))
        ended = run.trace.finished[0]
        if policy == "fifo":
            assert ended == np.sum(expected.finish_s <= until_s)
    with pytest.raises(InputError, match=r"advance_to\(2999\): the simulation is already at 3000 s; choose"):
        run.advance_to(2999.0)
    found = of_all(run).jobs
    np.testing.assert_array_equal(found.start_s, expected.start_s)
    np.testing.assert_array_equal(found.finish_s, expected.finish_s)


def test_chunks_out_of_order_are_refused() -> None:
    first, second = in_chunks(some_jobs(100), 50)
    run = StreamedSimulation([second, first], parse_nodes_policy("fifo"), SimulationOptions(cluster=CLUSTER))
    with pytest.raises(InputError, match="hand the chunks in in order"):
        run.run()


def test_what_looks_at_the_whole_trace_is_refused() -> None:
    with pytest.raises(InputError, match="no job to simulate"):
        streamed(some_jobs(10)[np.arange(0)], "fifo", 5)
    with pytest.raises(InputError, match="--sizes last-two: with jobs in chunks choose true or estimate"):
        streamed(some_jobs(10), "fifo", 5, "last-two")
    with pytest.raises(PolicyError, match="run it on a whole trace"):
        streamed(some_jobs(10), "compound:t=100,b=1200,waits=simulated", 5)
