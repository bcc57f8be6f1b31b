"""What the doctor says of a cluster, with made-up agents."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes import __version__
from betimes.errors import InputError, Unavailable
from betimes.service.executors.ray import doctor
from betimes.service.executors.ray.agent import NodeFacts
from betimes.service.executors.ray.connection import ClusterNode, Joined
from betimes.service.executors.ray.doctor import Finding, examine

FACTS = NodeFacts("host", __version__, "3.12.1", 0.0, 0)


class FakeConnection:
    """A cluster of two nodes, the second of which is as `told`."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told, self.joined = told, Joined("2.60.0", has_token="token" in told)
        self.lost_at = None

    async def open(self) -> None:
        if "refuses" in self.told:
            raise InputError(self.told["refuses"])

    async def close(self) -> None:
        pass

    async def release(self, node: str) -> None:
        pass

    async def nodes(self) -> list[ClusterNode]:
        first = ClusterNode("1", "a", "10.0.0.1", 4.0, 8.0, 0.0, "cpu", is_head=True)
        return [first, replace(first, id="2", name="b", **self.told.get("node", {}))]

    async def call(self, node: str, method: str, *args: Any) -> Any:
        told = self.told if node == "b" else {}
        if method == "sees":
            return told.get("sees", Path(args[0]).exists())
        if "gone" in told:
            raise Unavailable(told["gone"])
        asks = self.told.get("token", False) and "no_token" not in told
        return replace(
            FACTS, asks_for_token=asks, now_s=time.time() + told.get("off_s", 0.0), **told.get("facts", {})
        )


def found(monkeypatch: pytest.MonkeyPatch, shared: Path | None = None, **told: Any) -> list[Finding]:
    monkeypatch.setattr(doctor, "ClusterConnection", lambda *_: FakeConnection(told))
    return asyncio.run(examine("auto", shared))


def wrong(
    monkeypatch: pytest.MonkeyPatch, shared: Path | None = None, **told: Any
) -> tuple[str, str | None, str]:
    """The one thing that is wrong."""
    [one] = [one for one in found(monkeypatch, shared, **told) if not one.ok]
    return one.check, one.node, one.text


def test_a_cluster_that_is_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    findings = found(monkeypatch, tmp_path)
    assert all(one.ok for one in findings)
    of_a_node = ["agent", "versions", "clock", "gpus", "shared"]
    assert [one.check for one in findings] == ["cluster", "ports", *of_a_node, *of_a_node]
    assert not list(tmp_path.iterdir()), "nothing is left in the shared directory"


@pytest.mark.parametrize(
    ("told", "check", "words"),
    [
        ({"facts": {"betimes": "0.0.1"}}, "versions", "Betimes 0.0.1, Python 3.12.1; here it is Betimes"),
        ({"off_s": -30.0}, "clock", "is off by 30.0 s; set both clocks by NTP"),
        ({"gone": "No module named 'betimes'"}, "agent", "No module named 'betimes'; install betimes[ray]"),
        ({"node": {"gpu": 2.0}}, "gpus", "Ray has 2 GPUs and NVIDIA's driver 0"),
        ({"sees": False}, "shared", "mount the shared directory at the same path there"),
    ],
)
def test_what_is_wrong_with_a_node(
    told: dict[str, Any], check: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    what, node, text = wrong(monkeypatch, tmp_path, **told)
    assert (what, node) == (check, "b")
    assert words in text


def test_what_is_wrong_with_the_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert wrong(monkeypatch, refuses="nothing answers there") == ("cluster", None, "nothing answers there")
    public = {"address": "8.8.8.8"}
    assert wrong(monkeypatch, node=public)[:2] == ("ports", None)
    assert wrong(monkeypatch, node=public, token=True, no_token=True)[:2] == ("ports", None)
    assert all(one.ok for one in found(monkeypatch, node=public, token=True))
    with pytest.raises(InputError, match="name a directory that you can write"):
        found(monkeypatch, tmp_path / "missing")
