"""Work that goes on beside the controller's turns, until it is done or the service stops."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)


class Background:
    """Tasks that are not waited for; an error in one is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def go(self, work: Any) -> None:
        """Let something run beside."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._gone)

    async def cancel(self) -> None:
        """End everything."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _gone(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("beside the controller: %s", error, exc_info=error)
