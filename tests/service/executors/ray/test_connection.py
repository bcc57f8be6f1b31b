"""Joining a cluster that cannot be joined: one clear line each, within a bounded time."""

from __future__ import annotations

import asyncio
import importlib.util
import socket

import pytest

from betimes.errors import InputError, Unavailable
from betimes.service.executors.ray.bridge import node_of, why_not
from betimes.service.executors.ray.connection import MACHINE, SERVICE, ClusterConnection


def refused(address: str) -> str:
    async def scenario() -> None:
        connection = ClusterConnection(address, "betimes-test")
        try:
            await connection.open()
        finally:
            await connection.close()

    with pytest.raises(InputError) as refusal:
        asyncio.run(scenario())
    return str(refusal.value)


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port"])
def test_what_is_no_address(address: str) -> None:
    assert refused(address) == f"--ray {address}: expected auto, or HOST:PORT as `ray start --head` prints it"


def test_a_client_address() -> None:
    assert "give HOST:PORT, without ray://" in refused("ray://10.0.0.1:10001")


def test_an_address_at_which_nothing_listens() -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        assert refused(address) == (
            f"--ray {address}: nothing answers there (Connection refused); start the cluster with `ray start --head`"
        )


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
@pytest.mark.slow
def test_without_ray() -> None:
    assert refused("auto") == "--ray auto: Ray is not installed: pip install 'betimes[ray]'"


def test_a_connection_that_is_not_open_says_so() -> None:
    async def scenario() -> None:
        connection = ClusterConnection("auto", "betimes-test")
        with pytest.raises(Unavailable, match="the Ray cluster at auto does not answer"):
            await connection.nodes()
        with pytest.raises(Unavailable, match="node a is not in the Ray cluster"):
            await connection.call("a", "facts")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "Version mismatch: The cluster was started with:\n  Ray: 2.50\n",
            "install the same versions of Ray",
        ),
        ("Could not find any running Ray instance. Please", "start one with `ray start --head`"),
        ("Can't find a raylet on this node", "make it one with `ray start --address=10.0.0.1:6379`"),
        (
            "Failed to connect to Ray cluster at 10.0.0.1:6379",
            "set RAY_AUTH_MODE=token here, and copy its ~/.ray/auth_token",
        ),
        ("\x1b[31mEven stranger\x1b[0m", "cannot join the cluster at 10.0.0.1:6379: Even stranger"),
    ],
)
def test_what_ray_says_becomes_what_to_do(said: str, words: str) -> None:
    assert words in why_not("10.0.0.1:6379", said)


def test_a_rented_machine_keeps_its_name_and_others_have_that_of_ray() -> None:
    labels = {SERVICE: "betimes-1", MACHINE: "m5.large-0"}
    one = {
        "NodeID": "0123456789ab",
        "NodeName": "10.0.0.7",
        "NodeManagerAddress": "10.0.0.7",
        "Resources": {"CPU": 2.0, "memory": 2.0**30},
        "Labels": labels,
    }
    assert (node_of(one, "betimes-1").name, node_of(one, "betimes-1").rented_by) == (
        "m5.large-0",
        "betimes-1",
    )
    assert (node_of(one, "betimes-2").name, node_of(one, "betimes-2").rented_by) == (
        "10.0.0.7-01234567",
        "betimes-1",
    )
    assert node_of(one | {"Labels": {}}, "betimes-1").rented_by == ""
