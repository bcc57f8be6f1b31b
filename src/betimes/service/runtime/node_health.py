"""The health of the service's own machine: a command of the operator's that drains the node when it fails."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Self

from betimes.errors import BetimesError
from betimes.service.runtime.commands import answer_of
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.node import DRAINED, DRAINING
from betimes.units import length

EVERY_S = 300.0
LIMIT_S = 60.0
BY = "node-health"
"""Who has the node drained then."""

log = logging.getLogger(__name__)


class NodeHealth:
    """Runs the command every few minutes while it is entered.

    Where that exits with another status than 0 the node is drained, with the last line of what it has printed as the
    reason; an operator uses it again. limit_s: a command that takes longer has failed.
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
        """Stop; a command that runs is ended."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, command: str) -> None:
        while True:
            if (why := await self._failure(command)) is not None:
                try:
                    await self._drain(why)
                except BetimesError as error:  # the next run tries again
                    log.warning("the node is not drained, whose health check fails (%s): %s", why, error)
            await asyncio.sleep(self._every_s)

    async def _failure(self, command: str) -> str | None:
        """Why the machine is not well; null: it is."""
        launches = self._controller.launches
        try:
            answer = await answer_of(command, launches, self._limit_s, output="together")
        except TimeoutError:
            return f"its health check has not ended within {length(self._limit_s)}"
        except OSError as error:
            return f"its health check cannot be run: {error}"
        return (answer.last_line or f"its health check exits with {answer.status}") if answer.status else None

    async def _drain(self, why: str) -> None:
        nodes = self._controller.scheduler.ledger.nodes.items()
        for name in [name for name, node in nodes if node.machine.kind == "local"]:
            node = self._controller.scheduler.ledger.nodes[name]
            if node.status not in (DRAINING, DRAINED):
                log.warning("node %s is drained: %s", name, why)
                await self._controller.ask(
                    f"drain of node {name} by its health check",
                    lambda scheduler, name=name: scheduler.nodes.drain(name, BY, why, "node"),
                )
