"""The compiled policies, and the compiling of others, one at a time, while the service goes on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from betimes.errors import Unavailable
from betimes.kernels import INTERPRETED
from betimes.service.compiling.process import Compile, compile_beside
from betimes.service.engines.named_policies import is_compiled, kernels_of

NEWS_S = 10.0  # between two log lines on the time so far
NOTICED_S = 1.0  # a shorter compilation is not logged

log = logging.getLogger(__name__)


class Kernels:
    """The compiled kernels of one process, by policy. Policies that differ in numbers alone share them.

    is_cached: whether compiling a policy takes only a moment; interpreted: nothing needs to be compiled.
    """

    def __init__(
        self,
        compile: Compile = compile_beside,  # noqa: A002
        is_cached: Callable[[str], bool] = is_compiled,
        interpreted: bool = INTERPRETED,
    ) -> None:
        self._compile, self._is_cached, self._interpreted = compile, is_cached, interpreted
        self._compiled: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # running, or waiting for their turn
        self._one_at_a_time = asyncio.Lock()
        self.compiling: str | None = None  # the policy
        self._since_s = 0.0

    def are_compiled(self, policy: str) -> bool:
        """Whether an engine under this policy can be made and called at once. Raises PolicyError, ClusterError."""
        return self._interpreted or _name(policy) in self._compiled

    def are_cached(self, policy: str) -> bool:
        """Whether `compile` takes only a moment. Raises PolicyError, ClusterError."""
        return self.are_compiled(policy) or self._is_cached(policy)

    async def compile(self, policy: str) -> None:
        """Return when a policy is compiled; the time is logged. Compiling goes on if the caller gives up.

        Raises PolicyError or ClusterError if it cannot be compiled, ServiceError if compiling fails for another
        reason, Unavailable when the service stops.
        """
        if self.are_compiled(policy):
            return
        name = _name(policy)
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.ensure_future(self._compile_next(name, policy))
            task.add_done_callback(lambda done: self._is_over(name, done))
        await asyncio.wait((task,))
        if task.cancelled():
            raise Unavailable("the service is stopping; try again in a moment")
        task.result()

    async def close(self) -> None:
        """Cancel the compilation; callers that wait for it get an error."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def so_far(self) -> str | None:
        """The policy being compiled, and for how long now; null: none."""
        if self.compiling is None:
            return None
        return f"compiling policy {self.compiling}, {time.monotonic() - self._since_s:.0f} s so far"

    async def _compile_next(self, name: str, policy: str) -> None:
        async with self._one_at_a_time:
            self.compiling, self._since_s = policy, time.monotonic()
            is_new = not self._is_cached(policy)
            telling = asyncio.ensure_future(self._tell()) if is_new else None
            try:
                await self._compile(policy)
            finally:
                if telling is not None:
                    telling.cancel()
                self.compiling = None
            self._compiled.add(name)
            took_s = time.monotonic() - self._since_s
            if is_new and took_s >= NOTICED_S:
                log.info(
                    "compiled policy %s in %.0f s; the next start takes it from the cache", policy, took_s
                )

    def _is_over(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        if not task.cancelled():
            task.exception()  # it may be awaited no longer

    async def _tell(self) -> None:
        await asyncio.sleep(NOTICED_S)
        log.info("compiling policy %s, once for this version; up to a minute or two", self.compiling)
        while True:
            await asyncio.sleep(NEWS_S)
            log.info(self.so_far())


def _name(policy: str) -> str:
    return kernels_of(policy) or policy
