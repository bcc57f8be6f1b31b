"""The worked cases of spec/portfolio.md C.12 that need machines, to the digit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result, summarise
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload

HOURLY = Offer(
    type="vm",
    cpu=1.0,
    memory_gib=0.0,
    usd_per_h=1.0,
    boot_s=120.0,
    bill_step_s=3600.0,
    min_bill_s=3600.0,
    bill_from="request",
    capacity=256,
)


def jobs_of(*rows: tuple[float, int, float]) -> Workload:
    """(submit_s, processors, run_s)"""
    return Workload.from_columns(
        submit_s=[row[0] for row in rows],
        work_s=[row[1] * row[2] for row in rows],
        min_units=[row[1] for row in rows],
        max_units=[row[1] for row in rows],
        cpu=[1.0] * len(rows),
    )


def run(policy: str, *rows: tuple[float, int, float]) -> Result:
    """(submit_s, processors, run_s)"""
    result = simulate_nodes(jobs_of(*rows), policy, cluster=Cluster("vms", (), offers=(HOURLY,)))
    assert np.isfinite(result.jobs.finish_s).all()
    return result


def utility(result: Result) -> float:
    """100 x RJ / RV / BSD, a dollar being an hour."""
    assert result.leases is not None
    jobs = result.jobs
    bounded = np.maximum(jobs.run_alone_s, 10.0)
    slowdown = (jobs.start_s - jobs.submit_s + bounded) / bounded
    return (
        100.0
        * float(jobs.work_s.sum())
        / (float(result.leases.cost_usd.sum()) * 3600.0)
        / float(slowdown.mean())
    )


@pytest.mark.parametrize("policy", ["odb", "ode", "odm"])
def test_c6(policy: str) -> None:
    result = run(policy, (0.0, 2, 1800.0))
    assert (result.jobs.start_s[0], result.jobs.finish_s[0]) == (120, 1920)
    assert result.leases is not None
    assert result.leases.requested_s.tolist() == [0, 0]
    assert utility(result) == pytest.approx(46.875)


def test_c6_odx() -> None:
    result = run("odx", (0.0, 2, 1800.0))
    assert result.leases is not None
    assert (result.leases.requested_s[0], result.jobs.start_s[0]) == (1820, 1940)
    assert utility(result) == pytest.approx(24.064171, abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "requested", "starts", "expected"),
    [
        ("odb", [0, 0], [120, 120], 13.888889),
        ("ode", [0, 0], [120, 120], 13.888889),
        ("odm", [0, 120], [120, 240], 12.820513),
        ("odx", [620, 620], [740, 740], 7.462687),
    ],
)
def test_c7(policy: str, requested: list[float], starts: list[float], expected: float) -> None:
    result = run(policy, (0.0, 1, 600.0), (0.0, 1, 600.0))
    assert result.leases is not None
    assert result.leases.requested_s.tolist() == requested
    assert result.jobs.start_s.tolist() == starts
    assert utility(result) == pytest.approx(expected, abs=1e-6)


def test_machines_are_kept_while_they_are_paid_for_and_given_back_before_they_cost_again() -> None:
    result = run("odb", (0.0, 1, 600.0), (3000.0, 1, 700.0))
    assert result.leases is not None
    assert len(result.leases) == 1  # the second job finds the machine of the first
    assert result.leases.ended_s.tolist() == [7180.0]
    assert result.leases.cost_usd.tolist() == [2.0]


def test_utilisation_is_of_the_time_that_machines_were_up() -> None:
    result = run("odb", (0.0, 1, 600.0))
    assert result.leases is not None
    up_s = float((result.leases.ended_s - result.leases.up_s).sum())
    assert up_s > result.jobs.finish_s[0] - result.jobs.start_s[0]  # it is kept until its hour is over
    assert summarise(result)["utilisation_frac"] == pytest.approx(600.0 / up_s)


@pytest.mark.parametrize("policy", ["odb", "ode", "odm", "odx"])
def test_machines_that_come_up_in_turn_under_a_short_minimum_are_used_before_they_are_given_back(
    policy: str,
) -> None:
    """Their paid time is over when they are up; odm rents the rest of the second job's later than the first ones."""
    jobs = jobs_of((0.0, 1, 130.0), (20.0, 3, 60.0))
    by_the_second = replace(HOURLY, bill_step_s=1.0, min_bill_s=60.0)
    run = NodesSimulation(
        jobs,
        parse_nodes_policy(policy),
        SimulationOptions(cluster=Cluster("vms", (), offers=(by_the_second,))),
    )
    run.advance_to(3600.0)
    result = run.result()
    assert np.isfinite(result.jobs.finish_s).all()
    assert result.leases is not None
    assert len(result.leases.requested_s) <= 5


def offers_of(*sizes: tuple[float, float], **terms: Any) -> tuple[Offer, ...]:
    """Machines of so many processors at so much an hour, billed by the second."""
    billed = {"min_bill_s": 0.0, "bill_step_s": 0.0, **terms}
    return tuple(replace(HOURLY, type=f"of-{cpu:g}", cpu=cpu, usd_per_h=usd, **billed) for cpu, usd in sizes)


@pytest.mark.parametrize("policy", ["odb", "ode", "odm", "odx", "portfolio"])
def test_the_cheapest_offer_is_rented_that_holds_the_job(policy: str) -> None:
    """Eight processors need the largest; the next job fits on all, and the cheapest is the second of the offers."""
    cluster = Cluster("vms", (), offers=offers_of((8.0, 8.0), (2.0, 1.0), (1.0, 3.0)))
    jobs = jobs_of((0.0, 8, 300.0), (5000.0, 1, 300.0))
    leases = simulate_nodes(jobs, policy, cluster=cluster).leases
    assert leases is not None
    assert leases.instance_type.tolist() == ["of-8", "of-2"]


def test_where_the_cheapest_offer_is_exhausted_the_next_is_rented() -> None:
    cheap, dear = offers_of((1.0, 1.0), (2.0, 2.0))
    cluster = Cluster("vms", (), offers=(dear, replace(cheap, capacity=2)))
    jobs = jobs_of(*((0.0, 1, 300.0) for _ in range(4)))
    leases = simulate_nodes(jobs, "odb", cluster=cluster).leases
    assert leases is not None
    assert sorted(leases.instance_type.tolist()) == ["of-1", "of-1", "of-2", "of-2"]


@pytest.mark.parametrize("policy", ["oda", "odb", "ode", "odm", "odx"])
@pytest.mark.parametrize("order", ["fifo", "unicef"])
@pytest.mark.parametrize("bill_step_s", [0.0, 3600.0])
def test_small_machines_do_not_use_up_the_quota_before_a_large_job(
    policy: str, order: str, bill_step_s: float
) -> None:
    offers = offers_of((1.0, 1.0), (8.0, 8.0), bill_step_s=bill_step_s)
    jobs = jobs_of((0.0, 8, 300.0), (0.0, 1, 300.0), (0.0, 1, 20.0), (10.0, 8, 30.0), (20.0, 1, 40.0))
    result = simulate_nodes(
        jobs, f"{policy}:order={order}", cluster=Cluster("vms", (), offers=offers, quota=1)
    )
    assert np.isfinite(result.jobs.finish_s).all()


@pytest.mark.parametrize("policy", ["oda", "odb", "ode", "odm", "odx"])
def test_no_machine_is_rented_for_a_job_that_only_owned_nodes_hold(policy: str) -> None:
    owned = NodeGroup("big", count=1, gpu=0.0, cpu=8.0, memory_gib=0.0)
    jobs = Workload.from_columns(
        submit_s=[0.0, 1.0], work_s=[4000.0, 800.0], min_units=[8, 8], max_units=[8, 8], cpu=[1.0, 1.0],
        units_per_task=[8, 8],
    )  # fmt: skip
    result = simulate_nodes(jobs, policy, cluster=Cluster("mixed", (owned,), offers=(HOURLY,)))
    assert result.leases is not None
    assert len(result.leases.cost_usd) == 0
    assert result.jobs.start_s.tolist() == [0.0, 500.0]
