"""The health of nodes: a command of the operator's, run on each of them, that drains a node when it fails there."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Self

from betimes.errors import BetimesError, Unavailable
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.events import NodeFault
from betimes.service.scheduling.node import UP, Node

EVERY_S = 300.0
LIMIT_S = 60.0
BY = "node-health"
"""Who has the node drained then."""

log = logging.getLogger(__name__)


class NodeHealth:
    """Runs the command every few minutes on each node that is up, while it is entered.

    Where that exits with another status than 0 the node is drained, with the last line of what it has printed as the
    reason; an operator uses it again. limit_s: a command that takes longer has failed. A node that does not answer is
    left alone: whether it is lost is found out otherwise.
    """

    def __init__(
        self, controller: Controller, command: str | None, every_s: float = EVERY_S, limit_s: float = LIMIT_S
    ) -> None:
        self._controller, self._command = controller, command
        self._every_s, self._limit_s = every_s, limit_s
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin, with the first run at once; without a command there is nothing to do."""
        if self._command is not None:
            self._task = asyncio.create_task(self._run(self._command), name="node health")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; a command that runs on this machine is ended, and elsewhere before its next run."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, command: str) -> None:
        while True:
            nodes = [node for node in self._controller.scheduler.ledger.nodes.values() if node.status == UP]
            looks = (self._look_at(node, command) for node in nodes)
            for node, error in zip(nodes, await asyncio.gather(*looks, return_exceptions=True), strict=True):
                if error is not None:
                    log.error("the health of node %s is not known: %s", node.machine.name, error)
            await asyncio.sleep(self._every_s)

    async def _look_at(self, node: Node, command: str) -> None:
        name, launches = node.machine.name, self._controller.launches
        executor = self._controller.effects.executors.get(node.machine.kind)
        if not isinstance(executor, LocalExecutor | RayExecutor):  # others run no commands
            return
        mark = f"{BY} of {name} {launches.log_id} {launches.state}"
        environment = {**launches.environment_of(None), "BETIMES_NODE_NAME": name}
        try:
            why = await executor.failure_of(
                name, command, environment, self._limit_s, "its health check", mark
            )
        except Unavailable as error:
            log.info("the health of node %s is not known: %s", name, error)
            return
        if why is None:
            return
        log.warning("node %s is drained by %s: %s", name, BY, why)
        try:
            await self._controller.ask(
                f"drain of node {name} by {BY}",
                lambda scheduler: scheduler.nodes.drain_faulty(NodeFault(name, BY, why)),
            )
        except BetimesError as error:  # the next run drains it
            log.warning("node %s is not drained (%s): %s", name, why, error)
