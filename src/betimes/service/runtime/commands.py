"""Commands of settings and jobs, which the service runs with a time limit and waits for."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from betimes.printing import printable
from betimes.service.access.unix_users import Account
from betimes.service.runtime.launches import Launches

MOST_SAID = 500  # characters of a last line

# The shell enters the folder, as another user may enter less than root.
_IN_FOLDER = 'cd "$1" 2>/dev/null; exec /bin/sh -c "$0"'


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
    limit_s: float | None,
    given: str = "",
    variables: Mapping[str, str] | None = None,
    *,
    output: Literal["apart", "together", "dropped"] = "apart",
    owner: Account | None = None,
    folder: str = "/",
) -> Answer:
    """Run a command by a shell, with a text on its standard input. Raises TimeoutError, OSError, ValueError.

    limit_s: null: the caller limits it. output: standard error apart, as a part of the output, or neither.
    owner: as whom it runs; null: the service's user.
    folder: where, if it can be entered.
    When this is cancelled or fails, all of its processes are gone; so they are when it returns, unless the output is
    dropped, as a command may leave a process behind then.
    """
    environment = {
        **(owner.variables if owner is not None else {}),
        **launches.kept_for(None if owner is None else owner.name),  # and none of the service's secrets
        "BETIMES_STATE": str(launches.state),
        **(variables or {}),
    }
    become: dict[str, Any] = {}
    if owner is not None:
        become = {"user": owner.uid, "group": owner.gid, "extra_groups": owner.groups, "umask": 0o022}
    out, error = {"apart": (PIPE, PIPE), "together": (PIPE, STDOUT), "dropped": (DEVNULL, DEVNULL)}[output]
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", _IN_FOLDER, command, folder, stdin=PIPE, stdout=out, stderr=error, cwd="/",
        env=environment, start_new_session=True, **become,
    )  # fmt: skip
    try:
        async with asyncio.timeout(limit_s):
            printed, said = await process.communicate(given.encode())
    finally:
        if process.returncode is None or output != "dropped":
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Answer(process.returncode or 0, _text(printed), _text(said) if output == "apart" else None)


def _text(printed: bytes | None) -> str:
    return (printed or b"").decode(errors="replace")
