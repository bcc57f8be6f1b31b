"""Machines that do not come up, that are taken away, or of which there are none left: by `cluster.draws`."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Literal

import pytest

from betimes.cluster import Cluster, NodeGroup, Offer, Spot
from betimes.cluster.draws import draw
from betimes.cluster.revocation import Bathtub, Exponential
from betimes.core.nodes.machines.rented import FAILED, RELEASED, TAKEN_AWAY
from betimes.errors import ClusterError, PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result
from tests.twin.nodes.planned import jobs_of, planned, rented
from tests.twin.nodes.planned import run as run_planned
from tests.twin.nodes.test_rented import one_each

FLAKY = Offer(
    type="flaky",
    cpu=1.0,
    memory_gib=4.0,
    usd_per_h=3600.0,
    boot_s=60.0,
    boot_sigma=0.5,
    boot_failure_frac=0.5,
)
SPOT = Offer(
    type="spot", cpu=1.0, memory_gib=4.0, usd_per_h=3600.0, notice_s=0.0, spot=Spot(0.3, Exponential(1.0))
)
ON_DEMAND = Offer(type="sure", cpu=1.0, memory_gib=4.0, usd_per_h=3600.0)


def seed_with(offer: Offer, wanted: str) -> int:
    """The first seed under which machines fail, or are taken away within the hour (x), or not (.)."""
    for seed in range(10_000):
        found = [draw(offer, seed, number) for number in range(len(wanted))]
        if all(
            (each.fails or each.age_s < 3600.0) == (mark == "x")
            for each, mark in zip(found, wanted, strict=True)
        ):
            return seed
    raise AssertionError("no such seed")


def busy(*offers: Offer, seed: int = 0, quota: int | None = None) -> Cluster:
    """One machine of one core, which the first job of every test holds for long."""
    return Cluster("busy", (NodeGroup("own", 1, 0.0, 1.0, 4.0),), offers=offers, seed=seed, quota=quota)


def causes(result: Result) -> list[int]:
    assert result.leases is not None
    return result.leases.cause.tolist()


@pytest.mark.parametrize("bill_from", ["boot", "request"])
def test_a_slot_machine_that_fails_to_boot_costs_nothing_and_its_job_gets_another(
    bill_from: Literal["boot", "request"],
) -> None:
    cluster = rented(replace(FLAKY, bill_from=bill_from), seed=seed_with(FLAKY, "x."))
    _, result = run_planned(jobs_of((0.0, 100.0)), planned(300.0, one_each), cluster)
    first, second = (draw(FLAKY, cluster.seed, number) for number in range(2))
    asked_s = 300.0 * math.ceil(first.boot_s / 300.0)
    assert causes(result) == [FAILED, RELEASED]
    assert result.jobs.finish_s[0] == pytest.approx(asked_s + second.boot_s + 100.0, abs=1e-9)
    assert result.leases is not None
    assert result.leases.cost_usd[0] == 0.0
    assert result.leases.ended_s[0] == first.boot_s


def test_a_slot_machine_that_is_taken_away_costs_its_job_the_nodes_and_another_goes_on() -> None:
    spot = replace(SPOT, notice_s=120.0)
    cluster = rented(spot, seed=seed_with(spot, "x."))
    _, result = run_planned(jobs_of((0.0, 7200.0)), planned(300.0, one_each), cluster)
    gone_s = draw(spot, cluster.seed, 0).age_s + 120.0
    asked_s = 300.0 * math.ceil(gone_s / 300.0)
    assert causes(result)[0] == TAKEN_AWAY
    assert result.leases is not None
    assert result.leases.ended_s[0] == pytest.approx(gone_s, abs=1e-9)
    assert result.leases.cost_usd[0] == pytest.approx(0.3 * gone_s)
    ages = [draw(spot, cluster.seed, number).age_s + 120.0 for number in range(2)]
    assert ages[1] > 7200.0 - gone_s
    assert result.jobs.finish_s[0] == pytest.approx(asked_s + 7200.0 - gone_s, abs=1e-6)


def test_a_job_alone_boots_as_drawn_and_asks_again_where_that_fails() -> None:
    cluster = busy(FLAKY, seed=seed_with(FLAKY, "xx."))
    result = simulate_nodes(jobs_of((0.0, 1e6), (10.0, 100.0)), "njw", cluster=cluster)
    boots = [draw(FLAKY, cluster.seed, number).boot_s for number in range(3)]
    assert result.jobs.start_s[1] == pytest.approx(10.0 + sum(boots), abs=1e-9)
    assert result.jobs.finish_s[1] == pytest.approx(110.0 + sum(boots), abs=1e-9)
    assert causes(result) == [FAILED, FAILED, RELEASED]
    assert result.jobs.cost_usd[1] == pytest.approx(100.0)


@pytest.mark.parametrize("policy", ["njw", "sww:b=1h,waits=none", "ljw:t=1h"])
def test_a_job_alone_whose_machine_is_taken_away_starts_again(policy: str) -> None:
    cluster = busy(SPOT, seed=seed_with(SPOT, "x."))
    result = simulate_nodes(jobs_of((0.0, 1e6), (10.0, 3600.0)), policy, cluster=cluster)
    age_s = draw(SPOT, cluster.seed, 0).age_s
    waits_s = 3600.0 if policy.startswith("sww") else 0.0
    assert result.jobs.start_s[1] == pytest.approx(10.0 + 2 * waits_s + age_s, abs=1e-9)
    assert result.jobs.finish_s[1] == pytest.approx(3610.0 + 2 * waits_s + age_s, abs=1e-9)
    assert causes(result) == [TAKEN_AWAY, RELEASED]
    assert result.jobs.cost_usd[1] == pytest.approx(0.3 * (age_s + 3600.0))


@pytest.mark.parametrize("free_s", [1e6, 3700.0])
def test_the_oracle_looks_back_over_machines_that_are_taken_away(free_s: float) -> None:
    """The second job rents at once; what it does when that is lost depends on when the owned machine is free."""
    cluster = busy(SPOT, seed=seed_with(SPOT, "x."))
    result = simulate_nodes(jobs_of((0.0, free_s), (10.0, 3600.0)), "sww:b=1h", cluster=cluster)
    age_s = draw(SPOT, cluster.seed, 0).age_s
    start_s = 10.0 + age_s if free_s > 10.0 + age_s + 3600.0 else free_s
    assert result.jobs.start_s[1] == pytest.approx(start_s, abs=1e-9)
    assert result.jobs.finish_s[1] == pytest.approx(start_s + 3600.0, abs=1e-9)
    assert bool(result.jobs.rented[1]) == (free_s == 1e6)


def test_a_speculative_run_that_is_taken_away_is_speculative_again_and_after_three_on_demand() -> None:
    always = replace(SPOT, spot=Spot(0.3, Bathtub(limit_h=0.01)))
    cluster = busy(always, ON_DEMAND, seed=3)
    result = simulate_nodes(
        jobs_of((0.0, 1e6), (10.0, 50.0), (20.0, 3600.0)),
        "compound:t=15m,b=1h,lengths=speculate",
        cluster=cluster,
    )
    lost_s = sum(draw(always, 3, number).age_s for number in (1, 2, 3))
    assert result.leases is not None
    mine = result.leases.job == 2
    assert result.leases.cause[mine].tolist() == [TAKEN_AWAY] * 3 + [RELEASED] * 2
    assert result.leases.instance_type[mine].tolist() == ["spot"] * 3 + ["sure"] * 2
    assert result.jobs.start_s[2] == pytest.approx(20.0 + lost_s + 900.0, abs=1e-6)
    assert result.jobs.cost_usd[2] == pytest.approx(0.3 * lost_s + 900.0 + 3600.0)


def test_spot_true_offers_every_machine_as_a_spot_machine_too() -> None:
    """A8 of the specification: two speculative runs of 50 and 100 s for 0.3 of the price."""
    jobs = jobs_of((0.0, 1000.0), (10.0, 50.0), (20.0, 500.0))
    result = simulate_nodes(jobs, "ljw:t=100,lengths=speculate,spot=true", cluster=busy(ON_DEMAND))
    assert result.leases is not None
    assert result.leases.instance_type.tolist() == ["sure.spot"] * 2
    assert result.leases.cost_usd.sum() == pytest.approx(45.0)
    assert result.jobs.finish_s.tolist() == [1000.0, 60.0, 1500.0]


@pytest.mark.parametrize(("requeue", "first"), [("arrival", 1), ("tail", 2)])
def test_requeued_by_arrival_or_at_the_end(requeue: str, first: int) -> None:
    """The machine of job 1 is taken away, so that it speculates again, and is known to be long later than job 2."""
    drawn = ((seed, [draw(SPOT, seed, number).age_s for number in range(3)]) for seed in itertools.count())
    seed = next(seed for seed, (lost_s, *ages) in drawn if 15 < lost_s < 90 and min(ages) > 100)
    policy = f"ljw:t=100,lengths=speculate,requeue={requeue}"
    jobs = jobs_of((0.0, 1000.0), (10.0, 500.0), (20.0, 500.0))
    starts = simulate_nodes(jobs, policy, cluster=busy(SPOT, seed=seed)).jobs.start_s
    assert starts[[first, 3 - first]].tolist() == [1000.0, 1500.0]


def test_only_a_queue_in_order_of_arrival_has_an_end() -> None:
    with pytest.raises(
        PolicyError, match="parameter requeue: there is an end of the queue only with order=fifo"
    ):
        simulate_nodes(jobs_of((0.0, 1.0)), "ljw:order=sjf,requeue=tail", cluster=busy(ON_DEMAND))


def test_with_none_left_a_job_waits_and_asks_again_each_minute() -> None:
    jobs = jobs_of((0.0, 1e4), (10.0, 100.0), (20.0, 100.0))
    for cluster in (busy(replace(ON_DEMAND, capacity=1)), busy(ON_DEMAND, quota=1)):
        result = simulate_nodes(jobs, "njw", cluster=cluster)
        assert result.jobs.start_s.tolist() == [0.0, 10.0, 140.0]  # asked at 20, 80, 140
    apart = simulate_nodes(jobs, "ljw:t=100,short_uses_owned=false", cluster=busy(ON_DEMAND, quota=1))
    assert apart.jobs.start_s.tolist() == [0.0, 10.0, 140.0]
    dearer = replace(ON_DEMAND, type="dearer", usd_per_h=7200.0)
    result = simulate_nodes(jobs, "njw", cluster=busy(replace(ON_DEMAND, capacity=1), dearer))
    assert result.jobs.instance_type.tolist() == ["", "sure", "dearer"]


@pytest.mark.parametrize(
    ("offer", "quota", "policy", "named"),
    [
        (replace(ON_DEMAND, usd_per_h=0.0), None, "njw", "offer sure, field usd_per_h"),
        (replace(FLAKY, boot_failure_frac=1.0), None, "njw", "offer flaky, field boot_failure_frac"),
        (replace(ON_DEMAND, capacity=1), None, "sww", "offer sure, field capacity"),
        (ON_DEMAND, 1, "compound", "field quota"),
    ],
)
def test_what_is_not_simulated_is_refused(offer: Offer, quota: int | None, policy: str, named: str) -> None:
    with pytest.raises(ClusterError, match=named):
        simulate_nodes(jobs_of((0.0, 1.0)), policy, cluster=busy(offer, quota=quota))


def test_several_machines_that_boot_at_their_own_times_are_refused() -> None:
    with pytest.raises(ClusterError, match="offer flaky, field boot_sigma: job 0 needs 2"):
        simulate_nodes(jobs_of((0.0, 1.0), cpu=2.0), "njw", cluster=busy(FLAKY, replace(ON_DEMAND, cpu=2.0)))
