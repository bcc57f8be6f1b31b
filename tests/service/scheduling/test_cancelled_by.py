"""The end of a job that was cancelled names who asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.reliability.cluster import Cluster, spec


def end_of(cluster: Cluster, number: int) -> tuple[str, Any]:
    event = next(event for event in cluster.log if event.kind == "cancelled" and event.job == number)
    return event.cause, event.data["reason"]["text"]


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_one_that_runs(policy: str) -> None:
    cluster = Cluster(policy)
    (job,) = cluster.submit(spec(10.0))
    cluster.go_on(1.0)
    cluster.scheduler.jobs.cancel(job, "bob")
    cluster.turn()
    cluster.crash()  # whoever asked is known from the log
    cluster.go_on()
    assert end_of(cluster, job) == ("user:bob", "cancelled by bob")


def test_one_whose_node_vanishes_meanwhile() -> None:
    cluster = Cluster("fifo", nodes=1)
    (job,) = cluster.submit(spec(10.0))
    cluster.go_on(1.0)
    cluster.scheduler.jobs.cancel(job, "bob")
    cluster.turn()
    cluster.scheduler.nodes.set_status("n-0", "lost", "timer")
    cluster.turn()
    assert end_of(cluster, job) == ("user:bob", "cancelled by bob")


def test_a_set_and_its_trials() -> None:
    cluster = Cluster("fifo")
    (whole,) = cluster.submit(spec(10.0, array="1-6", as_one=True))
    cluster.go_on(1.0)
    cluster.scheduler.jobs.cancel(whole, "bob")
    cluster.turn()
    cluster.go_on()
    ends = [event for event in cluster.log if event.kind == "cancelled"]
    assert len(ends) == 7
    assert {event.cause for event in ends} == {"user:bob"}


def test_one_that_waited_in_vain() -> None:
    cluster = Cluster("fifo")
    (first,) = cluster.submit(spec(10.0))
    (second,) = cluster.submit(spec(10.0, after=[str(first)]))
    cluster.scheduler.jobs.cancel(first, "bob")
    cluster.turn()
    cluster.go_on()
    assert end_of(cluster, second)[0] == "policy"
