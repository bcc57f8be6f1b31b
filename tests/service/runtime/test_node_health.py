"""A command looks after each node, and drains the one on which it fails."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from betimes.service.executors.commands import MARK, failure_of
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.node_health import NodeHealth
from betimes.service.scheduling.node import Node
from betimes.service.startup.in_memory import Assembly, assembled
from tests.service.executors.ray.agents import FakeAgents
from tests.service.executors.running import alive
from tests.service.runtime.test_notifications import until

MACHINES = [
    Machine("here", "local", "m", 2.0, 16.0, 0.0),
    Machine("a", "ray", "m", 2.0, 16.0, 0.0),
    Machine("b", "ray", "m", 2.0, 16.0, 0.0),
    Machine("v", "virtual", "v", 2.0, 16.0, 0.0),
]
LEFT_ALONE = ("up", None, "")


@asynccontextmanager
async def a_service(folder: Path) -> AsyncIterator[tuple[Assembly, FakeAgents]]:
    """With its own machine, two nodes with agents, and a virtual one."""
    agents = FakeAgents("a", "b")
    async with assembled(MACHINES, "easy", folder, clock=VirtualClock(0.0, 0.0)) as parts:
        controller = parts.controller
        controller.effects.admit("local", LocalExecutor(controller.inbox.hear))
        controller.effects.admit("ray", RayExecutor(controller.inbox.hear, agents, lambda _: 2.0))
        await parts.settle()
        yield parts, agents
    for raylet in agents.raylets.values():
        raylet.kill()
        raylet.wait()


def of(node: Node) -> tuple[str, str | None, str]:
    return node.status, node.drained_by, node.drain_reason


def checked(folder: Path, command: str, limit_s: float = 30.0) -> dict[str, tuple[str, str | None, str]]:
    """The nodes after the command has run for a while; node a may have failed there."""
    (folder / "runs").mkdir()

    async def play() -> dict[str, tuple[str, str | None, str]]:
        async with a_service(folder) as (parts, _):
            nodes = parts.controller.scheduler.ledger.nodes
            counted = f"echo x >> {folder}/runs/$BETIMES_NODE_NAME; {command}"
            async with NodeHealth(parts.controller, counted, 0.01, limit_s):
                await until(lambda: runs_on(folder, "here") >= 3 and runs_on(folder, "b") >= 3)
            assert runs_on(folder, "v") == 0
            return {name: of(node) for name, node in nodes.items()}

    return asyncio.run(play())


def runs_on(folder: Path, node: str) -> int:
    path = folder / "runs" / node
    return len(path.read_text().split()) if path.exists() else 0


def test_those_that_are_well_are_left_alone(tmp_path: Path) -> None:
    found = checked(tmp_path, "echo all is well >&2")
    assert set(found.values()) == {LEFT_ALONE}


@pytest.mark.parametrize(
    ("command", "limit_s", "why"),
    [
        ("echo looking; echo 'gpu 0: ECC errors' >&2; exit 1", 30.0, "gpu 0: ECC errors"),
        ("exit 7", 30.0, "its health check exits with 7"),
        ("sleep 60", 3.0, "its health check has not ended within 3 s"),
    ],
)
def test_one_that_is_not_is_drained_with_the_last_line_as_the_reason(
    tmp_path: Path, command: str, limit_s: float, why: str
) -> None:
    found = checked(tmp_path, f"[ $BETIMES_NODE_NAME != a ] || {{ {command}; }}", limit_s)
    assert found.pop("a") == ("drained", "node-health", why)
    assert set(found.values()) == {LEFT_ALONE}
    assert runs_on(tmp_path, "a") == 1  # what is drained is not looked at again


def test_that_of_the_services_own_machine_is_drained_likewise(tmp_path: Path) -> None:
    async def play() -> None:
        async with a_service(tmp_path) as (parts, _):
            here = parts.controller.scheduler.ledger.nodes["here"]
            async with NodeHealth(parts.controller, "[ $BETIMES_NODE_NAME != here ] || exit 7"):
                await until(lambda: here.status == "drained")

    asyncio.run(play())


def test_one_that_does_not_answer_is_left_alone_and_keeps_no_other_waiting(tmp_path: Path) -> None:
    async def play() -> None:
        async with a_service(tmp_path) as (parts, agents):
            nodes = parts.controller.scheduler.ledger.nodes
            agents.silent.add("a")
            async with NodeHealth(parts.controller, "exit 7", 0.01):
                await until(lambda: nodes["b"].status == "drained")
                assert of(nodes["a"]) == LEFT_ALONE
                agents.silent.clear()
                await until(lambda: nodes["a"].status == "drained")

    asyncio.run(play())


def test_one_that_has_been_drained_meanwhile_keeps_its_reason(tmp_path: Path) -> None:
    began, gate = tmp_path / "began", tmp_path / "gate"

    async def play() -> None:
        async with a_service(tmp_path) as (parts, _):
            nodes = parts.controller.scheduler.ledger.nodes
            command = f"touch {began}; until [ -e {gate} ]; do sleep 0.02; done; exit 7"
            async with NodeHealth(parts.controller, command):
                await until(began.exists)
                await parts.controller.ask(
                    "drain", lambda scheduler: scheduler.nodes.drain("a", "ann", "new disks", "user:ann")
                )
                gate.touch()
                await until(lambda: nodes["b"].status == "drained")
            assert of(nodes["a"]) == ("drained", "ann", "new disks")

    asyncio.run(play())


def test_a_command_that_a_killed_service_has_left_is_ended_before_its_next_run(tmp_path: Path) -> None:
    async def play() -> int:
        left = await asyncio.create_subprocess_exec(
            "sh", "-c", "sleep 600 & wait", env={MARK: "check of node 1"}, start_new_session=True
        )
        assert await failure_of("exit 0", {}, 30.0, "it", "check of node 2") is None
        assert alive(left.pid)
        assert await failure_of("exit 0", {}, 30.0, "it", "check of node 1") is None
        return await left.wait()

    assert asyncio.run(play()) == -signal.SIGKILL


def test_one_that_cannot_be_killed_has_failed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits for a disk which does not answer."""
    monkeypatch.setattr("os.killpg", lambda _group, _number: None)
    monkeypatch.setattr("betimes.service.executors.commands._DEATH_S", 0.1)

    async def play() -> str | None:
        why = await failure_of("exec sleep 1", {}, 0.2, "it", "check")
        await asyncio.sleep(1.5)  # until it has ended after all
        return why

    assert asyncio.run(play()) == "it has not ended within 0.2 s"
