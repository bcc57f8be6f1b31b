"""Jobs that require labels, live: where they run, what is refused, why they wait, and what a restart keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from betimes.cluster import Offer
from betimes.cluster.labels import MOST_REQUIRED, Labels, labels_of
from betimes.errors import Conflict, Refused
from betimes.service.engines.nodes import LiveNodes
from tests.service.reliability.cluster import Cluster, machine, spec
from tests.service.scheduling.test_wait_reasons import why

A, B = labels_of({"zone": "a"}), labels_of({"zone": "b"})
POLICIES = ("nodes:fifo", "easy", "conservative", "fitgpp", "sjf")


def of_zones(*zones: Labels, policy: str = "nodes:fifo", **settings: Any) -> Cluster:
    """Nodes z-0, z-1, ... of two cores each with these labels."""
    cluster = Cluster(policy, nodes=0, **settings)
    for at, labels in enumerate(zones):
        cluster.ask("nodes.add", replace(machine(f"z-{at}"), labels=labels), "operator")
    cluster.turn()
    return cluster


def node_of(cluster: Cluster, number: int) -> list[str]:
    return [name for name, _ in cluster.job(number).places]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_runs_only_where_its_labels_are(policy: str) -> None:
    cluster = of_zones(A, B, policy=policy)
    numbers = cluster.submit(*[spec(10.0, require={"zone": "b"}) for _ in range(4)], spec(10.0, cpu=2.0))
    assert [node_of(cluster, number) for number in numbers[:2]] == [["z-1"], ["z-1"]]
    waits = [number for number in numbers[2:4] if not cluster.job(number).places]
    assert waits == numbers[2:4]
    cluster.go_on()
    assert [cluster.status(number) for number in numbers] == ["finished"] * 5
    assert {name for event in cluster.log if event.kind == "granted" and event.job in numbers[:4]
            for name, _ in event.data["places"]} == {"z-1"}  # fmt: skip


def test_tasks_are_as_large_as_the_nodes_that_suit_hold() -> None:
    cluster = of_zones(A, B)
    cluster.ask("nodes.add", replace(machine("big-0", 8.0), labels=A), "operator")
    first, second = cluster.submit(
        spec(8.0, min_units=4, max_units=4), spec(8.0, require={"zone": "b"}, max_units=2, min_units=2)
    )
    assert cluster.job(first).units_per_task == 4
    assert (cluster.job(second).units_per_task, node_of(cluster, second)) == (2, ["z-1"])
    with pytest.raises(
        Refused, match=r"max_units: 2 tasks of 2 units cannot fit: .* with zone=b, has room for 1"
    ):
        cluster.submit(spec(8.0, require={"zone": "b"}, min_units=4, max_units=4))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"require": {"zone": "c"}}, "^require: no node has zone=c; nodes have zone=a, zone=b$"),
        ({"require": {"rack": "1"}}, "^require: no node has rack=1; none has a label rack$"),
        (
            {"require": {"zone": "a"}, "cpu": 3.0},
            "^cpu: The largest machine here with zone=a has 2 cores; this job asks for 3$",
        ),
    ],
)
def test_a_job_that_no_node_suits_is_refused(asked: dict[str, Any], said: str) -> None:
    cluster = of_zones(A, B)
    with pytest.raises(Refused, match=said):
        cluster.submit(spec(10.0, **asked))


@pytest.mark.parametrize("policy", ["fifo", "max-min", "eva"])
def test_a_policy_that_knows_no_labels_refuses_the_job(policy: str) -> None:
    offers = (Offer(type="m4", cpu=4, memory_gib=16, usd_per_h=0.2, labels=A),)
    cluster = Cluster(policy, offers=offers)
    with pytest.raises(
        Refused, match=f"^require: policy {policy} does not choose nodes by their labels; .*nodes:fifo"
    ):
        cluster.submit(spec(10.0, require={"zone": "a"}))


def test_such_a_policy_cannot_be_put_in_force_while_jobs_require_labels() -> None:
    cluster = of_zones(A, B)
    [number] = cluster.submit(spec(10.0, require={"zone": "b"}))
    with pytest.raises(
        Conflict, match=rf"policy fifo: .*job {number} requires zone=b; .*betimes cancel {number}"
    ):
        cluster.scheduler.policy.set_policy("fifo", "ann")
    cluster.go_on()
    cluster.scheduler.policy.set_policy("fifo", "ann")


def test_a_job_whose_nodes_have_gone_says_so_and_waits_for_others() -> None:
    cluster = of_zones(A, B)
    cluster.ask("nodes.set_status", "z-1", "lost", "timer")
    with pytest.raises(Refused, match="no node has zone=b; nodes have zone=a"):
        cluster.submit(spec(10.0, require={"zone": "b"}))
    cluster.ask("nodes.set_status", "z-1", "up", "operator")
    first, second = cluster.submit(*[spec(10.0, require={"zone": "b"}, cpu=2.0)] * 2)
    assert why(cluster, second)["text"].startswith("needs 2 cores on nodes with zone=b")
    cluster.ask("nodes.set_status", "z-1", "lost", "timer")
    cluster.turn()
    found = why(cluster, first)
    assert found["code"] == "no-label"
    assert found["text"] == "no node that is up has zone=b; those that are up have zone=a; node z-1 is lost"
    assert found["evidence"] == {"require": {"zone": "b"}, "away": ["z-1"]}
    cluster.ask("nodes.add", replace(machine("z-9"), labels=B), "operator")
    cluster.turn()
    cluster.go_on()
    assert [cluster.status(number) for number in (first, second)] == ["finished"] * 2


def test_so_many_different_labels_may_be_required_at_once() -> None:
    most = labels_of({f"k{number}": "v" for number in range(MOST_REQUIRED + 1)})
    cluster = of_zones(most)
    cluster.submit(*[spec(100.0, require=dict([label])) for label in most[:-1]])
    with pytest.raises(
        Refused, match=r"^require: jobs require 63 different labels; .* at most 62 at a time; .*wait"
    ):
        cluster.submit(spec(10.0, require=dict(most[-1:])))
    cluster.submit(spec(10.0, require=dict(most[:2])))
    cluster.go_on()
    cluster.submit(spec(10.0, require=dict(most[-1:])))
    cluster.go_on()
    assert {cluster.status(number) for number in range(1, MOST_REQUIRED + 3)} == {"finished"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_restart_keeps_labels_and_what_jobs_require(policy: str) -> None:
    cluster = of_zones(A, B, B, policy=policy)
    cluster.submit(*[spec(5.0 + at, require={"zone": "b"}, cpu=1.5) for at in range(5)], spec(4.0))
    cluster.go_on(1.0)
    cluster.snapshot()
    cluster.crash()
    engine = cluster.scheduler.engine
    assert isinstance(engine, LiveNodes)
    assert [engine.jobs.labels[number] for number in range(3)] == [A, B, B]
    assert set(engine.jobs.required.values()) == {B}
    cluster.go_on(2.0)
    cluster.crash(lose_world=True)
    cluster.go_on()
    assert [cluster.status(number) for number in range(1, 7)] == ["finished"] * 6
    grants = [event for event in cluster.log if event.kind == "granted" and event.job in range(1, 6)]
    assert {name for event in grants for name, _ in event.data["places"]} == {"z-1", "z-2"}


def test_nodes_of_a_log_from_before_have_no_labels() -> None:
    cluster = of_zones((), B)
    kept = {name: node.to_json() for name, node in cluster.ledger.nodes.items()}
    assert "labels" not in kept["z-0"]["machine"]
    assert kept["z-1"]["machine"]["labels"] == {"zone": "b"}
