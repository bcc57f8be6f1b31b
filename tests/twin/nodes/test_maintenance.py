"""No job starts on a node that would not be done when the node closes, and all are done in the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import read_cluster
from betimes.cluster.cluster import Cluster, Maintenance, NodeGroup
from betimes.errors import ClusterError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.simulate import simulate
from betimes.outcome import Result

LATE_S = 1e-3
"""The gate goes by the millisecond."""
BOTH = Maintenance(100.0, 200.0)
ONE = Maintenance(100.0, 200.0, ("n-0",))


def two_nodes(*maintenance: Maintenance, count: int = 2) -> Cluster:
    return Cluster("two", (NodeGroup("n", count, 0.0, 1.0, 4.0),), maintenance=maintenance)


def jobs(*run_s: float, estimate_s: float = np.nan) -> Workload:
    return Workload.from_columns(
        submit_s=np.zeros(len(run_s)),
        work_s=list(run_s),
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
        estimate_s=estimate_s,
    )


@pytest.mark.parametrize(
    ("policy", "window", "start_s"),
    [
        # 60 and 80 s start at once; 30 s fit in from 60 to 90; 50 s do not after 80.
        ("fifo", BOTH, [0.0, 0.0, 60.0, 200.0]),
        ("easy", BOTH, [0.0, 0.0, 60.0, 200.0]),
        ("conservative", BOTH, [0.0, 0.0, 60.0, 200.0]),
        ("sjf", BOTH, [30.0, 200.0, 0.0, 0.0]),
        # The second node stays open: 60 s take n-0, and n-1 is free at 80.
        ("fifo", ONE, [0.0, 0.0, 60.0, 80.0]),
        ("easy", ONE, [0.0, 0.0, 60.0, 80.0]),
        ("conservative", ONE, [0.0, 0.0, 60.0, 80.0]),
    ],
)
def test_jobs_that_would_not_be_done_by_then_start_after_it(
    policy: str, window: Maintenance, start_s: list[float]
) -> None:
    result = simulate_nodes(jobs(60, 80, 30, 50), policy, cluster=two_nodes(window), predict=True)
    assert result.jobs.start_s.tolist() == start_s
    # Promises know of it.
    assert result.jobs.predicted_finish_s.tolist() == result.jobs.finish_s.tolist()


@pytest.mark.parametrize(("policy", "third"), [("fifo", 200.0), ("easy", 0.0), ("conservative", 0.0)])
def test_who_comes_first_keeps_others_waiting_only_where_the_policy_does_not_pass_over(
    policy: str, third: float
) -> None:
    """150 s do not fit in; 100 s do, to the second."""
    result = simulate_nodes(jobs(150, 100), policy, cluster=two_nodes(BOTH))
    assert result.jobs.start_s.tolist() == [200.0, third]


def test_a_run_that_takes_longer_than_was_believed_goes_on() -> None:
    """30 s were believed, 150 s it takes; the next one has n-0 when it is open and free."""
    found = simulate_nodes(jobs(150, 30, estimate_s=30.0), "fifo", cluster=two_nodes(BOTH, count=1))
    assert found.jobs.start_s.tolist() == [0.0, 200.0]
    assert found.jobs.finish_s.tolist() == [150.0, 230.0]


def test_a_time_limit_counts_and_not_what_is_believed() -> None:
    """The job is believed to take 30 s as its last two did, and may take 150 s."""
    workload = Workload.from_columns(
        submit_s=[0.0, 20.0, 60.0],
        work_s=[10.0, 10.0, 10.0],
        estimate_s=[90.0, 75.0, 75.0],
        user=np.zeros(3, dtype=np.int64),
        cpu=1.0,
        gpu=0.0,
        memory_gib=0.0,
    )
    found = simulate_nodes(
        workload, "fifo", cluster=two_nodes(BOTH, count=1), sizes="last-two", overrun="kill"
    )
    assert found.jobs.start_s.tolist() == [0.0, 20.0, 200.0]


@pytest.mark.parametrize("policy", ["fifo", "max-min"])
def test_the_units_of_a_pool_are_not_given_either(policy: str) -> None:
    found = simulate(jobs(60, 80, 30, 50), policy, engine="pool", cluster=two_nodes(BOTH), predict=True)
    assert found.jobs.start_s.tolist() == [0.0, 0.0, 60.0, 200.0]
    assert found.jobs.predicted_finish_s.tolist() == found.jobs.finish_s.tolist()
    once_more = two_nodes(BOTH, Maintenance(300.0, 400.0))
    found = simulate(jobs(160, 80), policy, engine="pool", cluster=once_more)
    assert found.jobs.start_s.tolist() == [400.0, 0.0]


@pytest.mark.parametrize("policy", ["fifo", "srsf", "las:quantum=7", "max-min"])
def test_the_units_of_who_waits_for_the_end_are_others_until_then(policy: str) -> None:
    """150 s wait twice; 20, 20 and 30 s are over by then, and 100 s would be only at once."""
    found = simulate(jobs(150, 150, 20, 20, 30, 100), policy, engine="pool", cluster=two_nodes(BOTH))
    assert found.jobs.start_s[:5].tolist()[2:] == [0.0, 0.0, 20.0]
    assert found.jobs.preemptions[2:5].tolist() == [0, 0, 0]
    assert (found.jobs.start_s[[0, 1, 5]] >= 200.0).all()


@pytest.mark.parametrize("policy", ["fifo", "srsf", "las:quantum=7", "max-min"])
def test_no_unit_of_a_pool_is_held_within_it(policy: str) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        workload = Workload.from_columns(
            submit_s=np.sort(rng.uniform(0.0, 300.0, 40)),
            work_s=(units := rng.choice([1, 1, 2, 3], 40)) * rng.uniform(1.0, 60.0, 40),
            min_units=units,
            max_units=units,
            cpu=1.0,
            gpu=0.0,
            memory_gib=0.0,
        )
        from_s = np.sort(rng.uniform(0.0, 600.0, 3))
        windows = tuple(Maintenance(float(at), float(at + rng.uniform(1.0, 80.0))) for at in from_s)
        cluster = Cluster("three", (NodeGroup("n", 3, 0.0, 4.0, 4.0),), maintenance=windows)
        found = simulate(workload, policy, engine="pool", cluster=cluster, timeline=True)
        assert not np.isnan(found.jobs.finish_s).any()
        held = found.segments
        assert held is not None
        for window in windows:
            assert not ((held.start_s < window.to_s) & (held.end_s > window.from_s + LATE_S)).any()


def crossings(result: Result, cluster: Cluster) -> list[tuple[int, float]]:
    """Jobs, and when, that began on a node that they had not left when it closed, or while it was closed."""
    lines = result.decisions
    assert lines is not None
    ends: dict[int, list[float]] = {row: [float(at)] for row, at in enumerate(result.jobs.finish_s)}
    for what, row, value in zip(lines.what, lines.row, lines.value, strict=True):
        if what == "preempt":
            ends[int(row)].append(float(value))
    found = list[tuple[int, float]]()
    for what, row, node, at_s in zip(lines.what, lines.row, lines.node, lines.at_s, strict=True):
        if what == "start":
            left_s = min(end for end in ends[int(row)] if end > at_s)
            for number, from_s, to_s in cluster.closings:
                if number == node and at_s < to_s and left_s > from_s + LATE_S:
                    found.append((int(row), float(at_s)))
    return found


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative", "skip-over", "sjf", "fitgpp:P=2,s=1"])
def test_no_start_crosses_whatever_the_queue(policy: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        count = 40
        workload = Workload.from_columns(
            submit_s=np.sort(rng.uniform(0.0, 300.0, count)),
            work_s=rng.uniform(1.0, 90.0, count),
            min_units=(units := rng.choice([1, 1, 2, 4, 6], count)),
            max_units=units,
            cpu=1.0,
            gpu=0.0,
            memory_gib=0.0,
            qos=rng.integers(0, 2, count),
            grace_s=rng.choice([0.0, 5.0, 20.0], count),
        )
        from_s = np.sort(rng.uniform(0.0, 600.0, 4))
        windows = tuple(
            Maintenance(float(at), float(at + rng.uniform(1.0, 80.0)), nodes)
            for at, nodes in zip(from_s, ((), ("n-0",), ("n-1", "n-2"), ()), strict=True)
        )
        cluster = Cluster("three", (NodeGroup("n", 3, 0.0, 4.0, 4.0),), maintenance=windows)
        result = simulate_nodes(workload, policy, cluster=cluster, timeline=True)
        assert crossings(result, cluster) == []
        assert not np.isnan(result.jobs.finish_s).any()


def test_windows_stand_in_a_cluster_file(tmp_path: Path) -> None:
    path, nodes = tmp_path / "two.toml", '[[nodes]]\ntype = "n"\ncount = 2\ncpu = 1\nmemory_gib = 4\n'
    path.write_text(f'{nodes}[[maintenance]]\nfrom_s = 100\nto_s = 200\nnodes = ["n-0"]\n')
    assert read_cluster(path).maintenance == (ONE,)
    path.write_text(f"{nodes}[[maintenance]]\nfrom_s = 100\nto_s = 20\n")
    with pytest.raises(
        ClusterError, match=r"^[^ ]*two.toml, \[\[maintenance\]\] table 1, field to_s: expected a"
    ):
        read_cluster(path)


def test_a_cluster_file_is_told_what_is_wrong() -> None:
    with pytest.raises(ClusterError, match="field to_s: expected a time after from_s"):
        Maintenance(200.0, 100.0)
    with pytest.raises(ClusterError, match=r"table 1, field nodes: there is no node 'n-7'.*from n-0 to n-1"):
        two_nodes(Maintenance(0.0, 1.0, ("n-7",)))
