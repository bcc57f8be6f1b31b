"""Compiling in a separate process, so that the service answers meanwhile: it loads the result from the cache."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from betimes.errors import PolicyError, ServiceError
from betimes.service.engines.named_policies import compile_policy, is_compiled

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
        said = await process.stdout.read()
        code = await process.wait()
        if said:
            raise PolicyError(json.loads(said)["refused"])
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
