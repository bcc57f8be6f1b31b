"""Agents in the service's own process, for nodes that are on its machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from betimes.errors import Unavailable
from betimes.service.executors.local import Around
from betimes.service.executors.protocol import Listener
from betimes.service.executors.ray.agent import NodeAgent
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.executors.supervisors import Forker


class OwnAgents:
    """The agents of the nodes on this machine.

    process_of: the process with which a node's runs end; 0: they end with no process; null: it has ended. One forker
    starts the runs of all: another for each new machine would take longer than its first run's start.
    """

    def __init__(self, process_of: Callable[[str], int | None]) -> None:
        self._process_of = process_of
        self._agents: dict[str, NodeAgent] = {}
        self._forker = Forker()

    async def call(self, node: str, method: str, *args: Any) -> Any:
        """Call a method of a node's agent. Raises Unavailable where the node has ended, and agents' errors."""
        agent = self._agents.get(node)
        if agent is None:
            process = self._process_of(node)
            if process is None:
                raise Unavailable(f"machine {node} has ended")
            agent = self._agents[node] = NodeAgent(process, self._forker)
        return await getattr(agent, method)(*args)

    async def release(self, node: str) -> None:
        """Watch a node's runs no longer; they go on."""
        agent = self._agents.pop(node, None)
        if agent is not None:
            await agent.close()

    def address_of(self, node: str) -> str:
        """A node's address for other nodes."""
        return "127.0.0.1"

    async def close(self) -> None:
        """Watch no runs any longer; they go on."""
        await asyncio.gather(*map(self.release, list(self._agents)))
        self._forker.close()


class OwnNodesExecutor(RayExecutor):
    """Runs commands on the nodes of this machine, those that are rented included."""

    def __init__(
        self,
        listener: Listener,
        process_of: Callable[[str], int | None],
        cpu_of: Callable[[str], float],
        around: Around | None = None,
    ) -> None:
        self._own_agents = OwnAgents(process_of)
        super().__init__(listener, self._own_agents, cpu_of, around)

    async def leave(self, node: str) -> None:
        """A node is gone, and nothing runs there."""
        await super().leave(node)
        await self._own_agents.release(node)

    async def close(self) -> None:
        """Stop watching; runs go on."""
        await super().close()
        await self._own_agents.close()
