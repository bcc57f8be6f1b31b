"""Jobs that need something else on each family of machines, live: where they run, what is refused, why they wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.cluster import Offer
from betimes.errors import Conflict, Refused
from betimes.service.executors.ray.executor import members
from betimes.service.machines.machine import Machine
from betimes.service.runtime.launches import Launches
from betimes.service.scheduling.job import Run
from betimes.service.scheduling.node import Node
from tests.service.reliability.cluster import Cluster, machine, spec
from tests.service.scheduling.test_wait_reasons import why

BOTH = {"x": {"cpu": 2.0}, "y": {"cpu": 1.0}}


def of_families(*families: str, policy: str = "nodes:fifo", **settings: Any) -> Cluster:
    """Nodes z-0, z-1, ... of two cores, each of one of these families."""
    cluster = Cluster(policy, nodes=0, **settings)
    for at, family in enumerate(families):
        cluster.ask("nodes.add", of_family(f"z-{at}", family), "operator")
    cluster.turn()
    return cluster


def of_family(name: str, family: str, cores: float = 2.0) -> Machine:
    return replace(machine(name, cores), family=family)


def used(cluster: Cluster) -> dict[str, int]:
    """Thousandths of cores that runs hold, by node."""
    return {name: amounts[1] for name, amounts in cluster.scheduler.occupancy.used.items()}


def test_a_task_holds_what_it_needs_on_the_family_of_its_node() -> None:
    cluster = of_families("x", "y")
    numbers = cluster.submit(*[spec(10.0, demand=BOTH) for _ in range(4)])
    assert sorted(cluster.job(number).places[0][0] for number in numbers[:3]) == ["z-0", "z-1", "z-1"]
    assert used(cluster) == {"z-0": 2000, "z-1": 2000}
    assert why(cluster, numbers[3])["text"].startswith("needs 1 core on family y")
    cluster.go_on()
    assert [cluster.status(number) for number in numbers] == ["finished"] * 4
    assert not any(used(cluster).values())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"demand": {"a": {"cpu": 1}}},
            "^demand: no machine here is of family a; they are of x, y$",
        ),
        (
            {"demand": {"x": {"cpu": 3}, "a": {"cpu": 1}}},
            "^demand.x.cpu: The largest machine here of family x has 2 cores; this job asks for 3$",
        ),
        (
            {"demand": {"x": {"cpu": 3}, "y": {"gpu": 1}}},
            "^demand.x.cpu: .* asks for 3; nor does it fit on y$",
        ),
        (
            {"demand": {"x": {"cpu": 1}}, "min_units": 3, "max_units": 3, "units_per_task": "spread"},
            "^max_units: 3 units cannot fit: the cluster has room for 2 in all",
        ),
    ],
)
def test_a_job_that_fits_on_no_family_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        of_families("x", "y").submit(spec(10.0, **asked))


def test_what_a_policy_may_rent_counts() -> None:
    offers = (Offer(type="a.large", cpu=4, memory_gib=16, usd_per_h=0.2, boot_s=60.0),)
    cluster = of_families("x", policy="no-packing:rounds=fixed", offers=offers)
    cluster.submit(spec(10.0, demand={"a": {"cpu": 3}}))
    with pytest.raises(
        Refused, match=r"^demand: .* family y; they are of x; no offer of the cloud holds it either$"
    ):
        cluster.submit(spec(10.0, demand={"y": {"cpu": 3}}))


def test_a_pool_refuses_them() -> None:
    with pytest.raises(
        Refused, match=r"^demand: a unit of a pool needs the same on all machines; .*nodes:fifo"
    ):
        of_families("x", policy="fifo").submit(spec(10.0, demand=BOTH))
    cluster = of_families("x")
    [number] = cluster.submit(spec(10.0, demand=BOTH))
    with pytest.raises(
        Conflict, match=rf"policy fifo: .* what job {number} needs depends on their family; wait"
    ):
        cluster.scheduler.policy.set_policy("fifo", "ann")
    cluster.go_on()
    cluster.scheduler.policy.set_policy("fifo", "ann")


def test_a_job_whose_family_has_gone_says_so_and_waits_for_another_machine() -> None:
    cluster = of_families("x", "y")
    cluster.submit(spec(10.0, cpu=2.0), spec(10.0, cpu=2.0))
    [number] = cluster.submit(spec(10.0, demand={"y": {"cpu": 2.0}}))
    cluster.ask("nodes.set_status", "z-1", "lost", "timer")
    cluster.turn()
    found = why(cluster, number)
    assert (found["code"], found["evidence"]) == ("no-family", {"families": ["y"], "away": ["z-1"]})
    text = "no node that is up is of family y; those that are up are of x; node z-1 is lost"
    assert found["text"] == text
    cluster.ask("nodes.add", of_family("z-2", "y"), "operator")
    cluster.turn()
    cluster.go_on()
    assert cluster.status(number) == "finished"


@pytest.mark.parametrize("policy", ["nodes:fifo", "conservative", "fitgpp"])
def test_a_family_that_comes_later_counts_for_jobs_that_wait(policy: str) -> None:
    cluster = of_families("x", policy=policy)
    engine = cluster.scheduler.engine
    first, second, third = cluster.submit(
        *[spec(10.0, demand=BOTH | {"new": {"cpu": 0.5}}) for _ in range(3)]
    )
    assert [bool(cluster.job(number).places) for number in (first, second, third)] == [True, False, False]
    cluster.ask("nodes.add", of_family("z-1", "new", 1.0), "operator")
    cluster.turn()
    assert {cluster.job(number).places[0][0] for number in (second, third)} == {"z-1"}
    assert used(cluster) == {"z-0": 2000, "z-1": 1000}
    assert cluster.scheduler.engine is engine


def test_a_restart_keeps_families_and_what_jobs_need_on_them() -> None:
    cluster = of_families("x", "y")
    numbers = cluster.submit(*[spec(5.0 + at, demand=BOTH) for at in range(6)])
    cluster.go_on(1.0)
    cluster.snapshot()
    before = used(cluster)
    cluster.crash()
    assert used(cluster) == before
    assert [node.family for node in cluster.ledger.nodes.values()] == ["x", "y"]
    cluster.go_on()
    assert [cluster.status(number) for number in numbers] == ["finished"] * 6


def test_rows_of_jobs_that_are_gone_are_used_again() -> None:
    cluster = of_families("x", "y")
    engine = cluster.scheduler.engine
    lengths = []
    for at in range(40):
        cluster.submit(spec(1.0, demand={"x": {"cpu": 1.0 + at / 1000}, "y": {"cpu": 1.0}}))
        cluster.go_on()
        lengths.append(len(engine.state.demands))
    assert max(lengths) < 20


def test_each_process_of_a_run_has_what_a_unit_needs_on_its_node(tmp_path: Path) -> None:
    cluster = of_families("x", "y")
    [number] = cluster.submit(
        spec(10.0, demand=BOTH, min_units=3, max_units=3, units_per_task="spread", memory_gib=1.0)
    )
    job = cluster.job(number)
    job.run = Run(1, 3, [("z-0", 1), ("z-1", 2)], 0.0)
    nodes: dict[str, Node] = cluster.ledger.nodes
    launch = Launches(tmp_path, "log", lambda *_: "sealed", {}).of(job, nodes)
    each = members(launch, lambda node: node)
    assert {node: (one.units, one.cpu, one.memory_gib) for node, one in each.items()} == {
        "z-0": (1, 2.0, 1.0),
        "z-1": (2, 1.0, 1.0),
    }
