"""A command looks after the service's machine, and drains it when that is not well."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.node_health import NodeHealth
from betimes.service.scheduling.node import Node
from betimes.service.startup.in_memory import assembled
from tests.service.runtime.test_notifications import until

MACHINES = [Machine("here", "local", "m", 2.0, 16.0, 0.0), Machine("v", "virtual", "v", 2.0, 16.0, 0.0)]


def checked(folder: Path, command: str, limit_s: float = 30.0) -> tuple[Node, Node]:
    """The service's own machine and another node, after the command has run for a while."""

    async def play() -> tuple[Node, Node]:
        async with assembled(MACHINES, "easy", folder, clock=VirtualClock(0.0, 0.0)) as parts:
            await parts.settle()
            async with NodeHealth(parts.controller, f"echo x >> {folder}/runs; {command}", 0.01, limit_s):
                runs = folder / "runs"
                await until(lambda: runs.exists() and len(runs.read_text()) >= 8)
            nodes = parts.controller.scheduler.ledger.nodes
            return nodes["here"], nodes["v"]

    return asyncio.run(play())


def test_one_that_is_well_is_left_alone(tmp_path: Path) -> None:
    here, _ = checked(tmp_path, "echo all is well >&2")
    assert (here.status, here.drain_reason) == ("up", "")


@pytest.mark.parametrize(
    ("command", "limit_s", "why"),
    [
        ("echo looking; echo 'gpu 0: ECC errors' >&2; exit 1", 30.0, "gpu 0: ECC errors"),
        ("exit 7", 30.0, "its health check exits with 7"),
        ("sleep 60", 0.1, "its health check has not ended within 0.1 s"),
    ],
)
def test_one_that_is_not_is_drained_with_the_last_line_as_the_reason(
    tmp_path: Path, command: str, limit_s: float, why: str
) -> None:
    here, other = checked(tmp_path, command, limit_s)
    assert (here.status, here.drained_by, here.drain_reason) == ("drained", "node-health", why)
    assert other.status == "up"
