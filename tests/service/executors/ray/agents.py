"""Agents of a made-up cluster, in the test's own process: real runs on this machine, and every way to lose touch."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator
from typing import Any

from betimes.errors import Unavailable
from betimes.service.executors.local import Around
from betimes.service.executors.ray.agent import NodeAgent
from betimes.service.executors.ray.executor import RayExecutor
from tests.service.executors.running import Heard


class FakeAgents:
    """Nodes by name, each with an agent and a process that stands for Ray's own there."""

    def __init__(self, *nodes: str) -> None:
        self.raylets = {node: subprocess.Popen(["sleep", "600"]) for node in nodes}
        self.agents = {node: NodeAgent(raylet.pid) for node, raylet in self.raylets.items()}
        self.ended: list[NodeAgent] = []
        self.silent: set[str] = set()  # nodes that do not answer
        self.released: list[str] = []
        self.calls: list[tuple[str, str]] = []

    async def call(self, node: str, method: str, *args: Any) -> Any:
        """Call an agent, unless its node is silent before the call or after it."""
        self.calls.append((node, args[1] if method == "ask" else method))
        self._check(node)
        agent = self.agents[node]
        calling = asyncio.ensure_future(getattr(agent, method)(*args))
        while not calling.done() and node not in self.silent and self.agents[node] is agent:
            await asyncio.wait((calling,), timeout=0.02)
        self._check(node)
        if self.agents[node] is not agent:
            calling.cancel()
            raise Unavailable(f"the agent of {node} has ended")
        return calling.result()

    async def release(self, node: str) -> None:
        """Remember it."""
        self.released.append(node)

    def address_of(self, node: str) -> str:
        """Made up; of a node that is not there, none."""
        if node not in self.agents:
            raise Unavailable(f"node {node} is not in the cluster")
        return f"{node}.example"

    def restart(self, node: str) -> None:
        """End the agent and start another one, which knows nothing, as Ray does."""
        self.ended.append(self.agents[node])
        self.agents[node] = NodeAgent(self.raylets[node].pid)

    def lose(self, node: str) -> None:
        """The node's own process of Ray ends."""
        self.silent.add(node)
        self.raylets[node].kill()
        self.raylets[node].wait()

    def _check(self, node: str) -> None:
        if node in self.silent or node not in self.agents:
            raise Unavailable(f"{node} is silent")


@contextlib.asynccontextmanager
async def executing(
    *nodes: str, around: Around | None = None
) -> AsyncIterator[tuple[RayExecutor, FakeAgents, Heard]]:
    """An executor on such nodes, closed afterwards, and what it reports."""
    heard, agents = Heard(), FakeAgents(*nodes)
    executor = RayExecutor(heard, agents, lambda _: 1.0, around)
    try:
        yield executor, agents, heard
    finally:
        await executor.close()
        for agent in [*agents.agents.values(), *agents.ended]:
            await agent.close()
        for raylet in agents.raylets.values():
            raylet.kill()
            raylet.wait()
