"""The worked cases of spec/waiting.md A.15, to the digit."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer, read_cluster
from betimes.errors import ClusterError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result, summarise
from betimes.workload import Workload

CORE_USD = 0.048


def jobs_of(*rows: tuple[float, int, float]) -> Workload:
    """(submit_s, cores, run_s)"""
    return Workload.from_columns(
        submit_s=[row[0] for row in rows],
        work_s=[row[1] * row[2] for row in rows],
        min_units=[row[1] for row in rows],
        max_units=[row[1] for row in rows],
        cpu=[1.0] * len(rows),
    )


def owned(count: int, cores: float, usd_per_h: float = 3600.0) -> Cluster:
    """So many machines, and machines of one core on offer at a dollar a second unless another price is given."""
    return Cluster(
        "owned",
        (NodeGroup("own", count, 0.0, cores, 0.0),),
        offers=(Offer(type="cloud", cpu=1.0, memory_gib=4.0, usd_per_h=usd_per_h),),
    )


def run(jobs: Workload, policy: str, cluster: Cluster) -> tuple[list[float], list[int], Result]:
    """Waits, and which jobs ran on rented machines."""
    result = simulate_nodes(jobs, policy, cluster=cluster)
    assert np.isfinite(result.jobs.finish_s).all()
    wait_s = result.jobs.start_s - result.jobs.submit_s
    return wait_s.tolist(), np.flatnonzero(result.jobs.rented).tolist(), result


A1 = ((0.0, 1, 100.0), (10.0, 1, 100.0), (20.0, 1, 100.0))
A2 = ((0.0, 1, 300.0), (10.0, 1, 30.0), (20.0, 1, 61.0), (30.0, 1, 60.0), (400.0, 1, 45.0))


@pytest.mark.parametrize(
    ("policy", "waits", "rented"),
    [
        ("ajw", [0, 90, 180], []),
        ("ajw-t:b=120", [0, 90, 120], [2]),
        ("ajw-t:b=2m", [0, 90, 120], [2]),
        ("sww:b=120", [0, 90, 0], [2]),
        ("sww:b=120,waits=none", [0, 90, 120], [2]),
        ("njw", [0, 0, 0], [1, 2]),
    ],
)
def test_a1(policy: str, waits: list[float], rented: list[int]) -> None:
    assert run(jobs_of(*A1), policy, owned(1, 1.0))[:2] == (waits, rented)


@pytest.mark.parametrize(
    ("policy", "wait_of_third", "rented"),
    [
        ("ljw:t=60,short_uses_owned=false", 280, [1, 3, 4]),
        ("ljw:t=60", 280, [1, 3]),
        ("compound:t=60,b=240", 0, [1, 2, 3]),
        ("compound:t=60,b=300", 280, [1, 3]),
    ],
)
def test_a2(policy: str, wait_of_third: float, rented: list[int]) -> None:
    waits, found, _ = run(jobs_of(*A2), policy, owned(1, 1.0))
    assert (waits[2], found) == (wait_of_third, rented)


@pytest.mark.parametrize(("backfill", "waits"), [("strict", [0, 90, 80]), ("skip-over", [0, 90, 0])])
def test_a3(backfill: str, waits: list[float]) -> None:
    jobs = jobs_of((0.0, 3, 100.0), (10.0, 2, 50.0), (20.0, 1, 50.0))
    assert run(jobs, f"ajw:backfill={backfill}", owned(1, 4.0))[0] == waits


@pytest.mark.parametrize(
    ("placement", "waits"),
    [("first", [0, 0, 0, 97]), ("best", [0, 0, 0, 0]), ("best-cores", [0, 0, 0, 0])],
)
def test_a4(placement: str, waits: list[float]) -> None:
    jobs = jobs_of((0.0, 2, 100.0), (1.0, 3, 100.0), (2.0, 1, 100.0), (3.0, 2, 100.0))
    assert run(jobs, f"ajw:placement={placement}", owned(2, 4.0))[0] == waits


@pytest.mark.parametrize(
    ("cores", "memory_gib", "hours", "usd"),
    [
        (1, 4.0, 1, 0.096),
        (3, 10.0, 2, 0.384),
        (2, 40.0, 1, 0.768),
        (64, 256.0, 1, 3.072),
        (65, 260.0, 1, 4.608),
    ],
)
def test_a5(cores: int, memory_gib: float, hours: float, usd: float) -> None:
    """A job next to one that holds the only owned machine runs on the smallest instance type that holds it."""
    offers = read_cluster("m5").offers
    cluster = Cluster("a5", (NodeGroup("own", 1, 0.0, 96.0, 384.0),), offers=offers)
    jobs = Workload.from_columns(
        submit_s=[0.0, 1.0],
        work_s=[96 * 1e6, cores * hours * 3600.0],
        min_units=[96, cores],
        max_units=[96, cores],
        cpu=[1.0, 1.0],
        memory_gib=[4.0, memory_gib / cores],
    )
    _, rented, result = run(jobs, "njw", cluster)
    assert rented == [1]
    assert summarise(result)["on_demand_usd"] == pytest.approx(usd, abs=1e-9)
    assert result.jobs.cost_usd[1] == pytest.approx(usd, abs=1e-9)


def test_a8_speculation() -> None:
    jobs = jobs_of((0.0, 1, 1000.0), (10.0, 1, 50.0), (20.0, 1, 500.0))
    waits, rented, result = run(jobs, "ljw:t=100,lengths=speculate", owned(1, 1.0))
    assert (waits, rented) == ([0, 0, 980], [1])
    assert result.jobs.finish_s[2] == 1500
    assert summarise(result)["on_demand_usd"] == pytest.approx(150)
    assert summarise(simulate_nodes(jobs, "ljw:t=100", cluster=owned(1, 1.0)))[
        "on_demand_usd"
    ] == pytest.approx(50)


@pytest.mark.parametrize(("waits", "wait_s", "finish_s"), [("oracle", 100, 620), ("none", 700, 1220)])
def test_a8_speculation_and_a_bound(waits: str, wait_s: float, finish_s: float) -> None:
    jobs = jobs_of((0.0, 1, 1000.0), (10.0, 1, 50.0), (20.0, 1, 500.0))
    policy = f"compound:t=100,b=600,lengths=speculate,waits={waits}"
    found, rented, result = run(jobs, policy, owned(1, 1.0))
    assert (found[2], rented, result.jobs.finish_s[2]) == (wait_s, [1, 2], finish_s)
    assert summarise(result)["on_demand_usd"] == pytest.approx(650)


def in_order(policy: str, seed: int) -> list[int]:
    """Three equal jobs that wait for the same machine, in the order in which they start."""
    jobs = jobs_of((0.0, 1, 100.0), (1.0, 1, 10.0), (2.0, 1, 10.0), (3.0, 1, 10.0))
    started = simulate_nodes(jobs, policy, cluster=owned(1, 1.0), seed=seed, predict=True).jobs
    assert started.predicted_finish_s[-1] == started.finish_s[-1]  # the copy draws as the run does
    return np.argsort(started.start_s[1:]).tolist()


def test_a_random_order_is_that_of_the_seed_and_any_is_as_likely() -> None:
    found = [tuple(in_order("ajw:order=random", seed)) for seed in range(300)]
    assert found[:20] == [tuple(in_order("ajw:order=random", seed)) for seed in range(20)]
    counts = Counter(found)
    assert len(counts) == 6
    assert (
        sum((count - 50) ** 2 / 50 for count in counts.values()) < 20.5
    )  # chi squared of 5: 0.1 % lie above
    assert {tuple(in_order("ajw", seed)) for seed in range(3)} == {(0, 1, 2)}


@pytest.mark.parametrize("policy", ["njw", "ajw-t:b=120", "ljw:t=60"])
def test_promises_hold_where_run_times_are_known_and_nobody_comes_later(policy: str) -> None:
    jobs = jobs_of((0.0, 1, 100.0), (0.0, 1, 100.0), (0.0, 1, 300.0))
    result = simulate_nodes(jobs, policy, cluster=owned(1, 1.0), predict=True)
    assert result.jobs.predicted_finish_s.tolist() == result.jobs.finish_s.tolist()
    assert result.leases is not None
    assert len(result.leases) == result.jobs.rented.sum()  # what was played forward left no trace


def test_the_figures_of_waiting_and_renting() -> None:
    """A1 under ajw-t: the third job of 100 s is rented for after 120 s, and the last one ends at 240 s."""
    group = NodeGroup("own", 1, 0.0, 1.0, 0.0, usd_per_h=3600.0, reserved_discount_frac=0.5)
    offer = Offer(type="cloud", cpu=1.0, memory_gib=4.0, usd_per_h=3600.0)
    _, _, result = run(jobs_of(*A1), "ajw-t:b=120", Cluster("owned", (group,), offers=(offer,)))
    found = summarise(result)
    assert (found["fixed_usd"], found["on_demand_usd"], found["cost_usd"]) == (120.0, 100.0, 220.0)
    assert found["on_demand_of_fixed_frac"] == pytest.approx(100 / 120)
    assert found["rented_frac"] == pytest.approx(1 / 3)
    assert found["wait_mean_h"] == pytest.approx(70 / 3600)
    assert found["wait_max_h"] == pytest.approx(120 / 3600)
    assert found["effective_usd_per_unit_h"] == pytest.approx(220 / (300 / 3600))
    assert "rented_frac" not in summarise(simulate_nodes(jobs_of(*A1), "fifo", cluster=owned(1, 1.0)))


@pytest.mark.parametrize("policy", ["njw", "ajw", "ljw:t=1", "sww:b=1", "compound:t=1,b=1,lengths=speculate"])
def test_a_job_that_no_owned_machine_holds_runs_on_a_rented_one_at_once(policy: str) -> None:
    cluster = Cluster(
        "small",
        (NodeGroup("own", 2, 0.0, 4.0, 0.0),),
        offers=(Offer(type="cloud", cpu=16.0, memory_gib=64.0, usd_per_h=1.0),),
    )
    waits, rented, _ = run(jobs_of((0.0, 12, 100.0), (0.0, 8, 100.0)), policy, cluster)
    assert (waits, rented) == ([0, 0], [0])  # eight cores are two tasks on the owned machines


@pytest.mark.parametrize(
    "policy", ["njw", "ajw", "ajw-t:b=24h", "ljw:t=15m", "sww:b=24h", "compound:t=15m,b=24h"]
)
def test_nothing_to_rent(policy: str) -> None:
    with pytest.raises(
        ClusterError, match=rf"policy {policy.partition(':')[0]}.*cluster pool offers none; describe"
    ):
        simulate_nodes(jobs_of(*A1), policy, cluster=Cluster.pool(4))
