"""The health of the service's own machine: a command of the operator's that drains the node when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from betimes.errors import BetimesError
from betimes.service.runtime.commands import answer_of
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.launches import Launches
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
            why = await failure_of(command, self._controller.launches, self._limit_s, "its health check")
            if why is not None:
                await drain_here(self._controller, BY, why)
            await asyncio.sleep(self._every_s)


async def failure_of(
    command: str, launches: Launches, limit_s: float, name: str, variables: Mapping[str, str] | None = None
) -> str | None:
    """Run a command, and return why it failed: its last line, or a sentence about `name`; null: it exits with 0."""
    try:
        answer = await answer_of(command, launches, limit_s, variables=variables, output="together")
    except TimeoutError:
        return f"{name} has not ended within {length(limit_s)}"
    except OSError as error:
        return f"{name} cannot be run: {error}"
    return (answer.last_line or f"{name} exits with {answer.status}") if answer.status else None


async def drain_here(controller: Controller, by: str, why: str) -> None:
    """Drain the service's own machine, unless it drains already; where that cannot be logged just now, say so."""
    nodes = controller.scheduler.ledger.nodes
    local = [name for name, node in nodes.items() if node.machine.kind == "local"]
    for name in (name for name in local if nodes[name].status not in (DRAINING, DRAINED)):
        log.warning("node %s is drained by %s: %s", name, by, why)
        try:
            await controller.ask(
                f"drain of node {name} by {by}",
                lambda scheduler, name=name: scheduler.nodes.drain(name, by, why, "node"),
            )
        except BetimesError as error:
            log.warning("node %s is not drained (%s): %s", name, why, error)
