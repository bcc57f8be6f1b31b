"""Nodes that boot are part of the forecast: jobs that need them are promised what will happen once they are up."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.service.machines.machine import Machine
from tests.service.machines.kinds import kind
from tests.service.reliability.cluster import Cluster, spec
from tests.service.scheduling.test_wait_reasons import at, foreseen, why

BOOT_S = 60.0
WFQ = "wfq:thresholds=150,weights=2/3+1/3"  # of PCS


def booting(policy: str, nodes: int = 1, gpu: float = 0.0, count: int = 1) -> Cluster:
    """Nodes of two cores, and others that boot; `up` lets these be up."""
    offer = kind("g", 4, 16, gpu=gpu, usd_per_h=1.0, boot_s=BOOT_S)
    cluster = Cluster(policy, nodes, offers=(offer,))
    for number in range(count):
        cluster.scheduler.nodes.rent(
            [Machine(f"g-{number}", "fake-cloud", "g", 4.0, 16.0, gpu, 1.0)], "operator"
        )
    cluster.turn()
    return cluster


def up(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.scheduler.nodes.set_status(name, "up", "cloud")
    cluster.turn()


@pytest.mark.parametrize("policy", ["fifo", "srsf", "max-min", WFQ, "nodes:fifo", "easy", "fitgpp"])
@pytest.mark.parametrize("nodes", [0, 1])
def test_what_is_foreseen_is_what_happens(policy: str, nodes: int) -> None:
    cluster = booting(policy, nodes)
    began = cluster.now_at
    cluster.submit(*(spec(run_s, min_units=width, max_units=width, grace_s=0.0) for run_s, width in JOBS))
    found = foreseen(cluster)
    promised = {job: found.times(job) for job in range(1, len(JOBS) + 1)}
    cluster.go_on(began + BOOT_S - cluster.now_at)
    up(cluster, "g-0")
    cluster.go_on()
    assert [cluster.rows[job]["finished_at"] for job in promised] == pytest.approx(
        [finish_at for _, finish_at in promised.values()], abs=1e-3
    )
    assert [cluster.rows[job]["started_at"] for job in promised] == pytest.approx(
        [start_at for start_at, _ in promised.values()], abs=1e-3
    )


@pytest.mark.parametrize("policy", ["max-min", WFQ])
def test_an_elastic_job_grows_onto_a_machine_that_was_rented_by_hand(policy: str) -> None:
    cluster = booting(policy)
    began = cluster.now_at
    cluster.submit(spec(600.0, min_units=1, max_units=6, grace_s=0.0))
    promised = foreseen(cluster).times(1)
    assert promised == (began, began + BOOT_S + (600.0 - 2 * BOOT_S) / 6)  # on two cores, and then on six
    cluster.go_on(began + BOOT_S - cluster.now_at)
    up(cluster, "g-0")
    assert cluster.scheduler.ledger.jobs[1].units == 6


JOBS = ((100.0, 1), (400.0, 2), (90.0, 3), (40.0, 1), (200.0, 2), (30.0, 1))


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_job_for_a_node_that_boots_is_expected_to_start_when_it_is_up(policy: str) -> None:
    cluster = booting(policy, gpu=1.0)
    up_at = cluster.now_at + BOOT_S
    cluster.submit(spec(10.0, gpu=1.0))
    assert foreseen(cluster).times(1) == (up_at, up_at + 10.0)
    assert why(cluster, 1)["text"] == f"needs 1 GPU; expected {at(up_at)}, when node g-0 is up"
    assert why(cluster, 1, with_forecast=False)["text"] == "needs 1 GPU; node g-0 is booting"


def test_one_that_is_late_is_expected_any_moment() -> None:
    cluster = booting("fifo", nodes=0)
    cluster.submit(spec(10.0))
    cluster.go_on(2 * BOOT_S)
    assert foreseen(cluster).times(1)[0] == cluster.now_at + 1.0
    assert (
        why(cluster, 1)["text"]
        == f"no node is up yet; expected {at(cluster.now_at + 1.0)}, when node g-0 is up"
    )


def test_of_several_each_counts_when_it_is_up() -> None:
    cluster = booting("nodes:fifo", nodes=0, count=2)
    began = cluster.now_at
    cluster.go_on(10.0)
    cluster.scheduler.nodes.rent([Machine("g-9", "fake-cloud", "g", 4.0, 16.0, 0.0, 1.0)], "operator")
    cluster.submit(*(spec(1000.0, cpu=4.0) for _ in range(3)))
    starts = [foreseen(cluster).times(job)[0] for job in (1, 2, 3)]
    assert np.array(starts) - began == pytest.approx([BOOT_S, BOOT_S, BOOT_S + 10.0])
