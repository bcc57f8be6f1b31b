"""The compiled policies, and the compiling of others, one at a time and beside the service, which goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable

from betimes.errors import PolicyError, ServiceError, Unavailable
from betimes.kernels import INTERPRETED
from betimes.service.engines.named_policies import compile_policy, is_compiled, kernels_of

Compile = Callable[[str], Awaitable[None]]
"""Makes a policy callable in this process. Raises PolicyError if it does not compile, ServiceError for all else."""

WORKER = "betimes.service.compiling.worker"

log = logging.getLogger(__name__)


async def compile_beside(policy: str) -> None:
    """A `Compile`: in a separate process, and then loaded from the cache, which takes a moment.

    Where the cache cannot be written, in a thread of this process, which answers slowly meanwhile.
    """
    if not is_compiled(policy):
        if await asyncio.to_thread(_keeps_code):
            await _in_process(policy)
        else:
            log.warning(
                "the cache of compiled kernels cannot be written: the service compiles by itself, and answers "
                "slowly until that is done; BETIMES_CACHE_DIR names another folder"
            )
    await asyncio.to_thread(compile_policy, policy)


def _keeps_code() -> bool:
    from betimes.kernels.cache import keeps_code  # imports Numba

    return keeps_code()


async def _in_process(policy: str) -> None:
    """Fill the cache with a policy's kernels; the process ends with the service."""
    # Its input stays open as long as the service lives: end of file means that the service has gone.
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", WORKER, policy),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ServiceError(f"the process that compiles policy {policy} cannot be started: {error}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        refusal = await process.stdout.read()
        code = await process.wait()
        if refusal:
            raise PolicyError(json.loads(refusal)["refused"])
        if code != 0:
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            advice = (
                "; memory may have run out" if code == -signal.SIGKILL else "; the service's log may say why"
            )
            raise ServiceError(f"the process that compiles policy {policy} ended {how}{advice}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdin.close()
        await process.wait()


NEWS_S = 10.0  # between two log lines on the time so far
NOTICED_S = 1.0  # a shorter compilation is not logged


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
