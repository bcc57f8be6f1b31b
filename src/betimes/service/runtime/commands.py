"""Commands of the operator's settings, which the service runs as its own user and waits for."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from betimes.printing import printable
from betimes.service.runtime.launches import Launches

MOST_SAID = 500  # characters of a last line


class Answer(NamedTuple):
    """The outcome of a command."""

    status: int  # its exit status; below 0: the signal that ended it
    out: str  # standard output
    said: str | None  # standard error; null: it is part of the output

    @property
    def last_line(self) -> str:
        """The last line of its standard error, or of both where these are one; empty: it has printed nothing."""
        text = (self.out if self.said is None else self.said).strip()
        return printable(text.rpartition("\n")[2])[:MOST_SAID]


async def answer_of(
    command: str,
    launches: Launches,
    limit_s: float,
    given: str = "",
    variables: Mapping[str, str] | None = None,
    *,
    as_one: bool = False,
) -> Answer:
    """Run a command by a shell, with a text on its standard input. Raises TimeoutError, OSError.

    When this returns, or is cancelled, all of its processes are gone. as_one: standard error is part of its output.
    """
    environment = {
        **launches.kept_for(None),  # and none of the service's secrets
        "BETIMES_STATE": str(launches.state),
        **(variables or {}),
    }
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", command, stdin=PIPE, stdout=PIPE, stderr=STDOUT if as_one else PIPE, cwd="/",
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(limit_s):
            out, said = await process.communicate(given.encode())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    text = None if as_one else said.decode(errors="replace")
    return Answer(process.returncode or 0, out.decode(errors="replace"), text)
