"""What is promised behind a run that was told to stop: nothing before it has left."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from betimes.service.executors.protocol import FORCE_AFTER_S
from betimes.service.runtime.promises import Leaving, leaving
from betimes.service.scheduling.promises import Forecast, forecast
from betimes.testing import InMemoryService
from tests.service.reliability.cluster import Cluster, spec


def promised(cluster: Cluster) -> Forecast:
    """What is foreseen now, of a state in which some are leaving."""
    scheduler = cluster.scheduler
    play = scheduler.foresee(cluster.now_at)
    gone = leaving(cluster.scheduler.leaving_and_next, cluster.now_at)
    return gone.put_off(forecast(play(), cluster.now_at, cluster.ledger.epoch_at, cluster.scheduler.holding))


def test_behind_a_cancelled_job_nothing_is_promised_before_its_grace_period_is_over() -> None:
    cluster = Cluster(nodes=1)
    hung, second = cluster.submit(spec(5.0, grace_s=60.0, cpu=2.0), spec(4.0, cpu=2.0))
    third = cluster.submit(spec(3.0, cpu=2.0))[0]
    cluster.go_on(1.0)
    cluster.scheduler.jobs.cancel(hung, "ann")
    cluster.scheduler.turn()  # and its executor does nothing about it
    asked_at = cluster.now_at
    found = promised(cluster)
    assert found.times(second) == (asked_at + 60.0, asked_at + 64.0)
    assert found.times(third) == (asked_at + 64.0, asked_at + 67.0)
    cluster.now_at = asked_at + 100.0  # it is late: nobody knows by how much, but it is still there
    cluster.scheduler.begin(cluster.now_at)
    start_at, _ = promised(cluster).times(second)
    assert start_at is not None
    assert start_at >= cluster.now_at + FORCE_AFTER_S


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_a_cancelled_job_is_expected_to_end_within_its_grace_period(policy: str) -> None:
    with InMemoryService(policy=policy) as service:
        whole: dict[str, Any] = {"min_units": 4, "max_units": 4}
        first = service.submit(command=["x"], estimate_s=3600, grace_s=30, **whole).job_id
        service.advance(5)
        service.cancel(first)
        behind = service.submit(command=["x"], estimate_s=10, **whole)
        assert behind.quote is not None
        assert (behind.quote.start_at, behind.quote.finish_at) == (35.0, 45.0)
        changed = [each.data for each in service.job(first).events if each.kind == "estimate-changed"]
        assert [(each["basis"], each["account"]["left_s"]) for each in changed] == [
            ("grace", 30.0 if policy == "nodes:fifo" else 120.0)
        ]
        service.finish()
        assert service.job(behind.job_id).job.started_at == 35.0


def test_a_job_that_is_granted_the_place_of_one_that_leaves_starts_once_it_has() -> None:
    cluster = Cluster("las", nodes=1)
    first = cluster.submit(spec(1000.0, grace_s=60.0, cpu=2.0))[0]
    cluster.go_on(100.0)
    cluster.scheduler.admission.submit(spec(10.0, cpu=2.0), "ann")
    cluster.scheduler.turn()
    run = cluster.job(first).run
    assert run is not None
    if run.stopping is None:
        cluster.scheduler._runs.preempt_until(cluster.job(first), 60.0, cluster.now_at + 60.0, [], {})
    waits = cluster.job(first + 1)
    waits.run, waits.places = waits.run or run.__class__(1, 1, run.places, cluster.now_at), run.places
    gone = leaving(cluster.ledger.jobs.values(), cluster.now_at)
    assert gone.room_at == {waits.job_id: cluster.now_at + 60.0}
    assert gone.holds_until_at == cluster.now_at + 60.0


def test_where_nobody_leaves_nothing_is_put_off() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(5.0), spec(5.0), spec(5.0))
    found = Forecast(1.0, [1], np.array([1.0]), np.array([2.0]), np.array([True]))
    assert leaving(cluster.scheduler.leaving_and_next, cluster.now_at) == Leaving()
    assert Leaving().put_off(found) is found
    assert Leaving().holds_until_at == math.inf
