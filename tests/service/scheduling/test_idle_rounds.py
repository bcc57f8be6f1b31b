"""A decision that starts and stops nobody says why, once for as long as the answer is the same."""

from __future__ import annotations

import pytest

from betimes.service.scheduling.events import Event
from tests.service.reliability.cluster import Cluster, spec

BOTH = {"min_units": 2, "max_units": 2}


def idle(cluster: Cluster) -> list[Event]:
    return [event for event in cluster.log if event.kind == "idle"]


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_it_says_who_is_next_and_what_that_one_lacks(policy: str) -> None:
    cluster = Cluster(policy, nodes=1)  # 2 cores
    cluster.submit(spec(100.0, **BOTH))
    cluster.submit(spec(100.0, **BOTH))
    last = idle(cluster)[-1]
    assert last.data["reason"]["code"] == "no-room"
    assert last.data["reason"]["text"] == "job 2 is next: needs 2 cores"
    assert last.data["reason"]["evidence"]["job"] == 2
    assert cluster.scheduler.idle == last.data["reason"]


@pytest.mark.parametrize("policy", ["fifo", "nodes:fifo"])
def test_the_same_answer_is_logged_once(policy: str) -> None:
    cluster = Cluster(policy, nodes=1)
    cluster.submit(spec(100.0, **BOTH))
    for _ in range(12):
        cluster.submit(spec(10.0, **BOTH))
        cluster.go_on(0.5)
    assert [event.data["reason"]["evidence"].get("job") for event in idle(cluster)][-1:] == [2]
    assert len(idle(cluster)) <= 2
    cluster.go_on()
    jobs = len({event.job for event in cluster.log if event.kind == "submitted"})
    assert len(idle(cluster)) <= jobs


def test_a_decision_that_did_something_has_nothing_to_explain() -> None:
    cluster = Cluster("fifo", nodes=1)
    cluster.submit(spec(100.0, **BOTH))
    assert cluster.scheduler.idle is None
    cluster.go_on()
    assert cluster.scheduler.idle is not None
    assert cluster.scheduler.idle["code"] == "queue-empty"
    assert cluster.scheduler.idle["text"] == "no job is queued"


def test_another_answer_is_logged_and_comes_back_from_the_log() -> None:
    cluster = Cluster("fifo", nodes=1)
    cluster.submit(spec(100.0, **BOTH))
    cluster.submit(spec(100.0, **BOTH))
    before = len(idle(cluster))
    cluster.snapshot()
    cluster.crash()
    cluster.submit(spec(100.0, **BOTH))
    assert len(idle(cluster)) == before
    cluster.ask("jobs.cancel", 2, "ann")
    cluster.turn()
    assert idle(cluster)[-1].data["reason"]["text"] == "job 3 is next: needs 2 cores"
    cluster.ask("nodes.set_status", "n-0", "draining", "operator")
    cluster.turn()
    assert idle(cluster)[-1].data["reason"]["code"] == "no-nodes"


def test_room_is_being_made() -> None:
    cluster = Cluster("fitgpp", nodes=1)
    cluster.submit(spec(100.0, cpu=2.0))
    cluster.go_on(20.0)
    cluster.submit(spec(10.0, cpu=2.0, qos="trial"))
    cluster.submit(spec(10.0, cpu=2.0))
    assert idle(cluster)[-1].data["reason"]["text"] == "job 3 is next: needs 2 cores"
    cluster.ask("jobs.cancel", 3, "ann")
    cluster.turn()
    assert idle(cluster)[-1].data["reason"]["code"] == "nominated"
    assert idle(cluster)[-1].data["reason"]["text"] == "job 2 is next: job 1 makes room for it"


def test_room_that_no_job_is_preempted_for_is_waited_for_all_the_same() -> None:
    """As under a planner, which sends a job to where another leaves for a place of its own."""
    cluster = Cluster("fitgpp", nodes=1)
    cluster.submit(spec(100.0, cpu=2.0, grace_s=30.0))
    cluster.go_on(20.0)
    cluster.submit(spec(10.0, cpu=2.0, qos="trial"))
    cluster.job(1).makes_room_for = None
    found = cluster.scheduler.wait_reasons(None).why(cluster.job(2))
    assert found == {
        "code": "nominated",
        "text": "it starts on n-0 once there is room",
        "evidence": {"jobs": []},
    }


def test_next_is_who_the_policy_puts_there() -> None:
    cluster = Cluster("srsf", nodes=1)
    cluster.submit(spec(20.0, **BOTH))
    cluster.submit(spec(2000.0, **BOTH), spec(1000.0, **BOTH))
    assert idle(cluster)[-1].data["reason"]["evidence"]["job"] == 3
