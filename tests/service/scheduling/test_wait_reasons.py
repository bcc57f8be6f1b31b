"""Why a job waits: what it lacks, who is ahead of it, who ends when it starts, and about when."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import Forecast, forecast
from tests.service.reliability.cluster import Cluster, spec


def foreseen(cluster: Cluster) -> Forecast:
    play = cluster.scheduler.foresee(cluster.now_at)
    return forecast(play(), cluster.now_at, cluster.ledger.epoch_at, cluster.scheduler.holding)


def why(cluster: Cluster, number: int, with_forecast: bool = True) -> dict[str, Any]:
    found = foreseen(cluster) if with_forecast else None
    return cluster.scheduler.wait_reasons(found).why(cluster.job(number))


def at(instant: float) -> str:
    return datetime.fromtimestamp(round(instant), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_one_that_runs_frees_it_for_the_first_in_the_queue() -> None:
    cluster = Cluster("fifo", nodes=1)  # 2 cores
    began = cluster.now_at
    cluster.submit(spec(100.0), spec(50.0), spec(10.0, min_units=2, max_units=2))
    found = why(cluster, 3)
    assert found["code"] == "no-room"
    assert found["text"] == f"needs 2 cores; expected {at(began + 100)}, when job 1 ends"
    evidence = found["evidence"]
    assert (evidence["missing"], evidence["resource"], evidence["free"]["core"]) == (2.0, "core", 0.0)
    assert (evidence["about_at"], evidence["ahead"], evidence["jobs_ending"]) == (began + 100, 0, [1])


def test_who_is_ahead_is_said_and_gets_what_is_freed_first() -> None:
    cluster = Cluster("fifo", nodes=1)
    began = cluster.now_at
    cluster.submit(*[spec(2 * run_s, min_units=2, max_units=2) for run_s in (100.0, 1000.0, 10.0)])
    found = why(cluster, 3)
    assert found["text"] == f"needs 2 cores; 1 job ahead; expected {at(began + 1100)}, when job 2 ends"
    assert found["evidence"]["jobs_ahead"] == [2]


def test_ahead_is_who_the_policy_puts_there() -> None:
    cluster = Cluster("srsf", nodes=1)
    began = cluster.now_at
    both = {"min_units": 2, "max_units": 2}
    cluster.submit(spec(200.0, **both), spec(2000.0, **both), spec(1000.0, **both))
    assert why(cluster, 2)["evidence"]["jobs_ahead"] == [3]
    assert why(cluster, 3)["evidence"] | {"free": None} == {
        "free": None,
        "missing": 2.0,
        "resource": "core",
        "about_at": began + 100,
        "ahead": 0,
        "jobs_ahead": [],
        "jobs_ending": [1],
    }


def test_without_a_forecast_nothing_is_said_about_who_frees_it() -> None:
    cluster = Cluster("fifo", nodes=1)
    cluster.submit(spec(200.0, min_units=2, max_units=2), spec(10.0))
    assert why(cluster, 2, with_forecast=False)["text"] == "needs 1 core"
    assert cluster.scheduler.wait_reasons(Forecast(cluster.now_at)).why(cluster.job(2))["text"] == (
        "needs 1 core"  # a forecast from before it was submitted
    )


def test_what_never_starts_is_said_so() -> None:
    cluster = Cluster("fifo", nodes=1)
    cluster.submit(spec(200.0, min_units=2, max_units=2), spec(10.0))
    never = np.array([np.nan])
    foreseen = Forecast(cluster.now_at, [2], never, never, np.array([True]))
    found = cluster.scheduler.wait_reasons(foreseen).why(cluster.job(2))
    assert found["text"] == "needs 1 core; it never starts unless the load or the nodes change"


def test_what_is_free_is_named_where_it_is_not_enough() -> None:
    cluster = Cluster("fifo", nodes=1)
    cluster.submit(spec(200.0), spec(10.0, min_units=2, max_units=2))
    assert why(cluster, 2)["text"].startswith("needs 2 cores, 1 free; expected ")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_an_instant_is_the_same_in_every_time_zone_of_the_service(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    cluster = Cluster("fifo", nodes=1)
    cluster.submit(spec(400_000.0, min_units=2, max_units=2), spec(10.0))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        expected = at(cluster.now_at + 200_000)
        assert why(cluster, 2)["text"] == f"needs 1 core; expected {expected}, when job 1 ends"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_pool_without_units_says_so_though_cores_are_free() -> None:
    cluster = Cluster("fifo", nodes=1)
    began = cluster.now_at
    cluster.submit(spec(100.0, cpu=0.5), spec(50.0, cpu=0.5), spec(10.0, cpu=0.5))
    found = why(cluster, 3)
    assert found["evidence"]["free"]["core"] == 1.0
    text = f"needs 1 of the pool's 2 units (each a whole core); expected {at(began + 50)}, when job 2 ends"
    assert found["text"] == text


def test_pieces_on_several_nodes_are_not_enough() -> None:
    cluster = Cluster("nodes:fifo", nodes=2)
    cluster.submit(spec(100.0), spec(100.0, cpu=1.5), spec(10.0, cpu=1.5))
    found = why(cluster, 3)
    assert found["code"] == "no-room"
    assert found["text"].startswith("enough is free in total") is (found["evidence"]["free"]["core"] == 1.5)


def test_a_reservation_is_a_reason_of_its_own() -> None:
    cluster = Cluster("conservative", nodes=1)
    began = cluster.now_at
    cluster.submit(spec(100.0), spec(50.0, cpu=2.0), spec(200.0))
    found = why(cluster, 3)
    assert (found["code"], found["evidence"]["about_at"]) == ("reserved", began + 150)
    assert found["text"] == f"its start is reserved for about {at(began + 150)}"


def test_one_that_was_preempted_waits_for_those_that_took_its_place() -> None:
    cluster = Cluster("fitgpp", nodes=1)
    cluster.submit(spec(100.0, cpu=2.0))
    cluster.go_on(20.0)
    cluster.submit(spec(10.0, qos="trial"))
    assert why(cluster, 2)["text"] == "job 1 makes room for it"
    cluster.go_on(4.0)
    found = why(cluster, 1)
    assert found["evidence"]["jobs_ending"] == [2]
    assert found["evidence"]["about_at"] == pytest.approx(cluster.now_at - 4.0 + 3.0 + 10.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["fifo", "srsf", "fitgpp", "easy", "conservative"])
def test_what_is_said_comes_true_when_beliefs_are(policy: str, seed: int) -> None:
    draw = random.Random(seed)
    cluster = Cluster(policy, nodes=2)
    for at_once in range(4):
        cluster.submit(
            *[
                spec(
                    float(draw.randint(5, 60)),
                    name=f"job-{at_once}-{number}",  # none has kin, which would be expected to take as long
                    cpu=draw.choice((0.5, 1.0, 2.0)),
                    qos=draw.choice(("trial", "best-effort")),
                    grace_s=0.0,  # which a pool policy does not count with
                )
                for number in range(4)
            ]
        )
        cluster.go_on(float(draw.randint(1, 10)))
    found, told = foreseen(cluster), {}
    for number, job in cluster.ledger.jobs.items():
        if job.status is Status.QUEUED and job.run is None:
            told[number] = cluster.scheduler.wait_reasons(found).why(job)["evidence"]
    assert told
    logged = len(cluster.log)
    cluster.go_on()
    launched: dict[int, float] = {}
    ended: dict[int, set[float]] = {}
    for event in cluster.log[logged:]:
        if event.kind == "launched" and event.job is not None:
            launched.setdefault(event.job, event.at_s)
        if event.kind == "finished" and event.job is not None:
            ended.setdefault(event.job, set()).add(event.at_s)
    for number, evidence in told.items():
        if "about_at" not in evidence:
            continue
        assert launched[number] == pytest.approx(evidence["about_at"]), (number, evidence)
        for other in evidence.get("jobs_ahead", ()):
            assert launched[other] < launched[number], (number, other)
        for other in evidence.get("jobs_ending", ()):
            assert launched[number] == pytest.approx(max(ended[other])), (number, other)
