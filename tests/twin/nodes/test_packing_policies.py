"""Eva and its baselines over time: the closed form of No-Packing's bill, and what holds for all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from betimes.cluster import read_cluster
from betimes.cluster.offer import Offer
from betimes.errors import ClusterError, InputError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result, summarise
from betimes.workload import Workload, read_trace

PERIOD_S = 300.0
POLICIES = (
    "no-packing",
    "stratus",
    "synergy",
    "owl",
    "consolidation",
    "eva",
    "eva:rules=paper",
    "eva:rules=released",
)


def some_jobs(count: int, seed: int) -> Workload:
    """Jobs of Eva's workloads, with whole seconds and delays."""
    rng = np.random.default_rng(seed)
    names = ("resnet18[0]", "gcn[0]", "a3c[0]", "sage[1]")
    demands = ((1.0, 4.0, 24.0), (0.0, 6.0, 40.0), (0.0, 4.0, 8.0), (1.0, 8.0, 50.0))
    which = rng.integers(len(names), size=count)
    return Workload.from_columns(
        submit_s=np.sort(rng.integers(0, 20_000, count)).astype(float),
        work_s=rng.integers(60, 9_000, count).astype(float),
        min_units=[1] * count,
        max_units=[1] * count,
        gpu=[demands[k][0] for k in which],
        cpu=[demands[k][1] for k in which],
        memory_gib=[demands[k][2] for k in which],
        extra={
            "workload_variant": [names[k] for k in which],
            "fetch_delay_s": [1.0] * count,
            "build_image_delay_s": [10.0] * count,
            "init_delay_s": rng.integers(1, 160, count).astype(float),
            "kill_delay_s": [1.0] * count,
            "upload_delay_s": rng.integers(1, 20, count).astype(float),
        },
    )


def needed(jobs: Workload, row: int, family: str) -> list[float] | None:
    """GPUs, cores and GiB of a whole job on a family; None: it cannot run there."""
    names = ("gpu", "cpu", "memory_gib")
    own = {
        name.partition(".")[::2]: float(column[row])
        for name, column in jobs.extra.items()
        if name.partition(".")[0] in names and not np.isnan(column[row])
    }
    if own and family not in {each for _, each in own}:
        return None
    units = int(jobs.max_units[row])
    return [units * own.get((name, family), float(getattr(jobs, name)[row])) for name in names]


def closed_form_usd(jobs: Workload, offers: tuple[Offer, ...]) -> Fraction:
    """Every job alone on the cheapest type that holds it: rented at the next round, given back at the first after."""
    total = Fraction(0)
    for row in range(len(jobs)):
        fitting = [
            offer
            for offer in offers
            if (needs := needed(jobs, row, offer.family)) is not None
            and all(n <= have for n, have in zip(needs, offer.amounts, strict=True))
        ]
        offer = min(fitting, key=lambda one: one.usd_per_h)
        asked_s = math.ceil(jobs.submit_s[row] / PERIOD_S) * PERIOD_S
        up_s = asked_s + offer.boot_s + offer.setup_s
        works_s = up_s + sum(
            float(jobs.extra[name][row]) for name in ("fetch_delay_s", "build_image_delay_s", "init_delay_s")
        )
        # A round does not see what ends at the same instant.
        ends_s = works_s + jobs.work_s[row] / jobs.max_units[row]
        given_back_s = (math.floor(ends_s / PERIOD_S) + 1) * PERIOD_S
        charged_s = given_back_s + offer.release_s - (asked_s + offer.boot_s)
        total += Fraction(charged_s) * Fraction(offer.usd_per_h) / 3600
    return total


@pytest.mark.parametrize("seed", [1, 2])
def test_no_packing_costs_what_its_timeline_says(seed: int) -> None:
    cluster, jobs = read_cluster("ec2-2023-vcpu"), some_jobs(40, seed)
    result = simulate_nodes(jobs, "no-packing:rounds=fixed", cluster=cluster)
    assert summarise(result)["cost_usd"] == pytest.approx(
        float(closed_form_usd(jobs, cluster.offers)), abs=1e-9
    )


def by_family(jobs: Workload) -> Workload:
    """The same jobs; those without GPUs need less on c7i and r7i than on p3, as Eva's do (spec/eva.md 2.3)."""
    cpu = np.where(jobs.gpu == 0, jobs.cpu, np.nan)
    own = {"cpu.p3": cpu, "cpu.c7i": cpu / 2, "cpu.r7i": cpu / 2}
    return replace(jobs, extra={**jobs.extra, **own})


@pytest.mark.parametrize("seed", [1, 2])
def test_no_packing_costs_what_its_timeline_says_where_demand_differs_by_family(seed: int) -> None:
    cluster, jobs = read_cluster("ec2-2023-vcpu"), by_family(some_jobs(40, seed))
    found = summarise(simulate_nodes(jobs, "no-packing:rounds=fixed", cluster=cluster))["cost_usd"]
    assert found == pytest.approx(float(closed_form_usd(jobs, cluster.offers)), abs=1e-9)
    assert found < float(closed_form_usd(some_jobs(40, seed), cluster.offers))


@pytest.mark.parametrize("policy", ["no-packing", "eva", "eva:rules=paper"])
def test_allocations_are_all_that_a_job_held_however_often_its_speed_changes(policy: str) -> None:
    result = simulate_nodes(some_jobs(40, 3), policy, cluster=read_cluster("ec2-2023-vcpu"), timeline=True)
    held, leases = result.segments, result.leases
    assert held is not None
    assert leases is not None
    held_s = held.units * (held.end_s - held.start_s)
    of_job_s = np.bincount(held.row, weights=held_s, minlength=len(result.jobs))
    assert of_job_s == pytest.approx(result.jobs.units_s)
    assert held_s.sum() == pytest.approx(leases.task_s.sum())  # a task is a unit here


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_ends_and_every_lease_does(policy: str) -> None:
    cluster = read_cluster("ec2-2023-vcpu")
    result = simulate_nodes(some_jobs(40, 3), policy, cluster=cluster)
    assert np.isfinite(result.jobs.finish_s).all()
    assert result.leases is not None
    assert (result.leases.cause == 0).all()
    assert (result.leases.cost_usd > 0).all()
    assert (result.leases.ended_s >= result.leases.up_s).all()
    price = {offer.type: offer.usd_per_h for offer in cluster.offers}
    paid_h = (result.leases.ended_s - result.leases.booted_s) / 3600.0
    usd = [price[kind] * hours for kind, hours in zip(result.leases.instance_type, paid_h, strict=True)]
    assert result.leases.cost_usd == pytest.approx(np.array(usd))
    assert summarise(result)["cost_usd"] == pytest.approx(result.leases.cost_usd.sum(), rel=1e-12)


def evas_jobs() -> Workload:
    path = Path(__file__).parents[4] / "shared" / "data" / "eva" / "eva_pai_200_trace.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return read_trace(path)


def evas(policy: str) -> Result:
    return simulate_nodes(evas_jobs(), policy, cluster=read_cluster("ec2-2023-vcpu"))


def test_no_packing_on_evas_trace_is_the_published_bill() -> None:
    found = summarise(evas("no-packing:rounds=fixed"))
    assert found["cost_usd"] == pytest.approx(20_736.886176, abs=1e-6)
    assert (found["instances"], found["migrations"]) == (200, 0)


def test_no_packing_on_evas_trace_with_demands_by_family_is_the_closed_form() -> None:
    """Each job on the cheapest type whose family's demand fits: 19 of 200 jobs need no GPU, and half the cores."""
    cluster, jobs = read_cluster("ec2-2023-vcpu"), by_family(evas_jobs())
    found = summarise(simulate_nodes(jobs, "no-packing:rounds=fixed", cluster=cluster))
    assert found["cost_usd"] == pytest.approx(float(closed_form_usd(jobs, cluster.offers)), abs=1e-9)
    assert found["cost_usd"] == pytest.approx(20_628.404565, abs=1e-6)


@pytest.mark.slow
def test_eva_is_a_quarter_cheaper_on_its_trace() -> None:
    found = summarise(evas("eva"))
    assert found["cost_usd"] < 0.76 * 20_736.89
    assert found["tasks_per_instance"] > 1.5


def test_a_sample_is_promised_the_same_under_a_planner_and_intervals_surround_the_median() -> None:
    cluster, jobs = (
        read_cluster("ec2-2023-vcpu"),
        replace(some_jobs(12, 2), estimate_s=some_jobs(12, 3).work_s),
    )
    every, some = (
        simulate_nodes(jobs, "eva", cluster=cluster, sizes="estimate", predict=True, predict_sample=sample)
        for sample in (None, 4)
    )
    chosen = np.isfinite(some.jobs.predicted_finish_s)
    assert chosen.sum() == 4
    assert np.array_equal(some.jobs.predicted_finish_s[chosen], every.jobs.predicted_finish_s[chosen])
    result = simulate_nodes(jobs, "eva", cluster=cluster, sizes="estimate", predict=True, interval=0.8)
    found = result.intervals
    assert found is not None
    assert np.array_equal(result.jobs.finish_s, every.jobs.finish_s)
    assert (found.predicted_low_s <= result.jobs.predicted_finish_s).all()
    assert (result.jobs.predicted_finish_s <= found.predicted_high_s).all()


def test_a_workload_that_the_table_of_interference_lacks_is_refused() -> None:
    jobs = some_jobs(3, 1)
    kinds = ["gcn[0]", "", "resnet81[0]"]
    strange = replace(jobs, extra={**jobs.extra, "workload_variant": np.array(kinds)})
    message = (
        f"{jobs.name}: job 2, field workload_variant: workload 'resnet81' is not in the table of interference "
        r"\(did you mean 'resnet18"
    )
    with pytest.raises(InputError, match="^" + message):
        simulate_nodes(strange, "no-packing", cluster=read_cluster("ec2-2023-vcpu"))


def test_a_machine_without_a_price_is_refused_by_cluster_and_type() -> None:
    cluster = read_cluster("ec2-2023-vcpu")
    free = replace(cluster, offers=(replace(cluster.offers[0], usd_per_h=0.0),))
    message = f"cluster {cluster.name}: type {free.offers[0].type}, field usd_per_h: expected a price above 0"
    with pytest.raises(ClusterError, match=message):
        simulate_nodes(some_jobs(3, 1), "eva", cluster=free)
