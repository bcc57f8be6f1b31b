"""Whether work can be taken: the store is tried out, since the last request does not say how the next one will fare."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from betimes.errors import ServiceError

FRESH_S = 1.0  # a result of the last so many seconds is given again: each try is a write, and the route needs no token
PATIENCE_S = 8.0  # more than a commit waits for a lock


class Readiness:
    """Tries out a store by `probe`, at most once at a time."""

    def __init__(self, probe: Callable[[], None]) -> None:
        self.probe = probe
        self.trying: asyncio.Task[str | None] | None = None
        self.found: str | None = None
        self.tried_at = -math.inf
        self.archived_upto = 0  # when the store could last be read

    async def problem(self) -> str | None:
        """Why nothing can be written; null: something just was."""
        if time.monotonic() - self.tried_at < FRESH_S:
            return self.found
        trying = self.trying
        if trying is None:
            trying = self.trying = asyncio.ensure_future(self._try())
        done, _ = await asyncio.wait((trying,), timeout=PATIENCE_S)
        return trying.result() if done else f"the store has not answered for {PATIENCE_S:g} s"

    async def _try(self) -> str | None:
        try:
            await asyncio.to_thread(self.probe)
            self.found = None
        except ServiceError as error:
            self.found = str(error)
        finally:
            self.trying = None
        self.tried_at = time.monotonic()
        return self.found
