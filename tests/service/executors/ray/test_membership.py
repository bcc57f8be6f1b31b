"""Machines join and leave the service as they do in Ray, and a cluster that is open to the world is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from betimes import __version__
from betimes.errors import InputError, Unavailable
from betimes.service.executors.ray import joining
from betimes.service.executors.ray.agent import NodeFacts
from betimes.service.executors.ray.connection import ClusterNode, Joined
from betimes.service.executors.ray.joining import (
    Change,
    Membership,
    RentedNodes,
    asks_for_token,
    check_closed,
    machine_of,
)


def a_node(name: str, address: str = "10.0.0.1", cpu: float = 4.0) -> ClusterNode:
    return ClusterNode(name, name, address, cpu, 8.0, 1.0, "A100", is_head=False)


class FakeCluster:
    def __init__(self, *names: str) -> None:
        self.alive = [a_node(name) for name in names]
        self.lost_at: float | None = None
        self.joined = Joined("2.60.0", has_token=False)
        self.without_token: set[str] = set()
        self.answers = True
        self.broken: set[str] = set()
        self.starting: set[str] = set()  # their agents do not answer yet
        self.versions: dict[str, str] = {}
        self.called: list[tuple[str, str]] = []
        self.taken_away_at: float | None = None

    async def nodes(self) -> list[ClusterNode]:
        if not self.answers:
            raise Unavailable("no cluster")
        return self.alive

    async def call(self, node: str, method: str, *_: Any) -> NodeFacts | float | None:
        self.called.append((node, method))
        if method == "taken_away_at":
            return self.taken_away_at
        while node in self.starting:
            await asyncio.sleep(0.01)
        if node in self.broken:
            raise Unavailable("No module named 'betimes'")
        asks = node not in self.without_token
        return NodeFacts("host", self.versions.get(node, __version__), "3.12.1", 0.0, 0, asks)


def look(cluster: FakeCluster, *has: str) -> Change:
    return asyncio.run(Membership(cluster, 1.0, lambda: has).look())


def test_machines_join_and_leave() -> None:
    change = look(FakeCluster("b", "c"), "a", "b")
    assert [machine.name for machine in change.joined] == ["c"]
    assert change.left == ("a",)
    assert look(FakeCluster("a"), "a") == Change((), ())


def test_a_machine_that_cannot_run_jobs_is_no_node_until_it_can(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(joining.time, "monotonic", lambda: now_s)
    cluster = FakeCluster("a", "b", "c")
    cluster.broken, cluster.versions = {"a"}, {"b": "0.0.1"}
    members = Membership(cluster, 1.0, lambda: ("c",))
    assert asyncio.run(members.look()) == Change((), ())
    assert "node a runs no jobs: No module named 'betimes'; install betimes[ray]" in caplog.text
    assert "node b runs no jobs: it has Betimes 0.0.1; install betimes[ray]" in caplog.text
    cluster.broken, cluster.versions = set(), {}
    assert asyncio.run(members.look()) == Change((), ()), "it is not asked every second"
    now_s += joining.AGAIN_S
    assert [machine.name for machine in asyncio.run(members.look()).joined] == ["a", "b"]
    assert {node for node, _ in cluster.called} == {"a", "b"}


def test_an_agent_that_starts_slowly_delays_no_other_news() -> None:
    cluster = FakeCluster("a", "b")
    cluster.starting = {"a"}

    async def main() -> list[Change]:
        members = Membership(cluster, 1.0, lambda: ("c",))
        changes = [await members.look(0.05), await members.look(0.05)]
        cluster.starting = set()
        changes.append(await members.look(5.0))
        assert not members.is_asking
        return changes

    first, second, third = asyncio.run(main())
    assert ([machine.name for machine in first.joined], first.left) == (["b"], ("c",))
    assert [machine.name for machine in second.joined] == ["b"], "nobody has taken it"
    assert [machine.name for machine in third.joined] == ["a", "b"]
    assert [node for node, _ in cluster.called].count("a") == 1, "it is asked once"


def test_a_service_waits_for_the_first_agent_and_then_no_longer_for_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "OTHERS_S", 0.05)
    monkeypatch.setattr(joining, "LOOK_S", 0.05)
    cluster = FakeCluster("a", "b", "broken")
    cluster.starting, cluster.broken = {"a", "b"}, {"broken"}

    async def main() -> list[str]:
        beginning = asyncio.create_task(joining.first_machines(Membership(cluster, 1.0, list)))
        await asyncio.sleep(0.3)
        assert not beginning.done()
        cluster.starting = {"b"}
        return [machine.name for machine in await beginning]

    assert asyncio.run(main()) == ["a"]
    assert "no node's agent has started within 0.05 s; waiting" in caplog.text
    monkeypatch.setattr(joining, "AGENT_S", 0.1)
    assert asyncio.run(joining.first_machines(Membership(cluster, 1.0, lambda: ("a",)))) == []
    assert "node b runs no jobs: its agent has not started within" in caplog.text
    assert "install betimes[ray]" not in caplog.text.split("node b runs no jobs")[1].splitlines()[0]


def test_a_look_that_fails_is_logged_and_machines_are_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joining, "LOOK_S", 0.01)
    cluster = FakeCluster("a")
    answers = cluster.nodes
    failures = [KeyError("a field that this version of Ray has not"), Unavailable("no cluster")]

    async def nodes() -> list[ClusterNode]:
        if failures:
            raise failures.pop()
        return await answers()

    monkeypatch.setattr(cluster, "nodes", nodes)

    async def main() -> Change:
        told = asyncio.get_running_loop().create_future()
        watching = asyncio.create_task(Membership(cluster, 1.0, list).watch(told.set_result))
        try:
            return await asyncio.wait_for(told, 5.0)
        finally:
            watching.cancel()

    assert [machine.name for machine in asyncio.run(main()).joined] == ["a"]
    assert caplog.text.count("whether machines of Ray have joined or left is not known") == 1
    assert "a field that this version of Ray has not" in caplog.text


def test_labels_of_ray_are_labels_of_the_node() -> None:
    labels = {"ray.io/node-id": "0a1b", "ray.io/accelerator-type": "A100", "zone": "a", "odd": "two words"}
    machine = machine_of(replace(a_node("a"), labels=labels))
    assert machine.labels == (("ray.io/accelerator-type", "A100"), ("zone", "a"))


def test_a_machine_without_a_whole_core_is_no_node() -> None:
    cluster = FakeCluster()
    cluster.alive = [a_node("head", cpu=0.0)]
    assert look(cluster) == Change((), ())


def test_after_the_whole_cluster_was_away_its_nodes_have_time_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(joining.time, "monotonic", lambda: now_s)
    cluster = FakeCluster("b")
    cluster.lost_at = now_s
    assert look(cluster, "a", "b").left == ()
    now_s += joining.LOST_AFTER_S
    assert look(cluster, "a", "b").left == ("a",)


def test_of_a_cluster_that_does_not_answer_nothing_is_told() -> None:
    cluster = FakeCluster()
    cluster.answers = False
    with pytest.raises(Unavailable, match="no cluster"):
        look(cluster, "a")


def test_a_share_is_of_whole_cores_and_gpus() -> None:
    machine = machine_of(a_node("a", cpu=7.0), 0.5)
    assert (machine.cpu, machine.memory_gib, machine.gpu, machine.type) == (3.0, 4.0, 0.0, "A100")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.7", "fd00::1", "gpu-a"])
def test_private_addresses_are_closed(address: str) -> None:
    check_closed([a_node("a", address)], has_tokens=False, is_allowed=False)


def test_a_public_address_is_refused_unless_there_is_a_token_or_leave() -> None:
    nodes = [a_node("a"), a_node("b", "8.8.8.8")]
    with pytest.raises(InputError, match=r"node b has the public address 8\.8\.8\.8.*--ray-open"):
        check_closed(nodes, has_tokens=False, is_allowed=False)
    check_closed(nodes, has_tokens=True, is_allowed=False)
    check_closed(nodes, has_tokens=False, is_allowed=True)


def test_a_token_that_the_service_has_is_asked_for_where_every_node_says_so() -> None:
    cluster = FakeCluster("a", "b")

    def asks() -> bool:
        return asyncio.run(asks_for_token(cluster, cluster.alive))

    assert not asks(), "it was let in without one"
    cluster.joined = Joined("2.60.0", has_token=True)
    assert asks()
    cluster.without_token = {"b"}
    assert not asks()
    cluster.without_token, cluster.broken = set(), {"b"}
    assert not asks(), "nothing is known of a node that does not answer"


def test_rented_machines_are_known_by_their_names_and_those_of_others_are_no_nodes() -> None:
    cluster, rented = FakeCluster("own", "m5.large-0", "m5.large-7", "broken-0"), RentedNodes("betimes-1")
    by = {"m5.large-0": "betimes-1", "m5.large-7": "betimes-2", "broken-0": "betimes-1"}
    cluster.alive = [replace(node, rented_by=by.get(node.name, "")) for node in cluster.alive]
    cluster.broken = {"broken-0"}
    members = Membership(cluster, 1.0, list, rented)
    assert [machine.name for machine in asyncio.run(members.look()).joined] == ["own"]
    assert rented.names == {"m5.large-0"}
    cluster.alive, cluster.lost_at = [], joining.time.monotonic()
    asyncio.run(members.look())
    assert rented.names == {"m5.large-0"}, "it has time to come back"
    cluster.lost_at = None
    asyncio.run(members.look())
    assert rented.names == set()


def test_rented_machines_are_asked_for_their_notices() -> None:
    cluster, rented = FakeCluster("m5.large-0"), RentedNodes("betimes-1", have_notices=True)
    cluster.alive = [replace(node, rented_by="betimes-1") for node in cluster.alive]
    cluster.taken_away_at = 1120.0
    asyncio.run(Membership(cluster, 1.0, list, rented).look())
    assert rented.notices == {"m5.large-0": 1120.0}
