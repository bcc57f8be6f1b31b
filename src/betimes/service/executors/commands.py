"""Commands of settings and jobs, which are run with a time limit and waited for."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from betimes.printing import printable
from betimes.service.access.unix_users import Account
from betimes.service.executors.supervision import processes
from betimes.units import length

MOST_SAID = 500  # characters of a last line
MARK = "BETIMES_COMMAND"  # a variable of a command's processes, by which those of a killed service are found
# After SIGKILL, until a process is left to itself: one whose disk does not answer does not die.
_DEATH_S = 5.0

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
    environment: Mapping[str, str],
    limit_s: float | None,
    given: str = "",
    *,
    output: Literal["apart", "together", "dropped"] = "apart",
    owner: Account | None = None,
    folder: str = "/",
) -> Answer:
    """Run a command by a shell, with a text on its standard input. Raises TimeoutError, OSError, ValueError.

    environment: all of it. limit_s: null: the caller limits it.
    output: standard error apart, as a part of the output, or neither.
    owner: as whom it runs; null: the service's user.
    folder: where, if it can be entered.
    When this is cancelled or fails, all of its processes are gone, or are killed and would not die; so they are when it
    returns, unless the output is dropped, as a command may leave a process behind then.
    """
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
            with suppress(TimeoutError):
                async with asyncio.timeout(_DEATH_S):
                    await process.wait()
    return Answer(process.returncode or 0, _text(printed), _text(said) if output == "apart" else None)


async def failure_of(
    command: str, environment: Mapping[str, str], limit_s: float, name: str, mark: str
) -> str | None:
    """Run a command, and return why it failed: its last line, or a sentence about `name`; null: it exits with 0.

    mark: of its processes, while it runs or later. Those of an earlier one, which a service that was killed has left,
    are killed first.
    """
    await asyncio.to_thread(_kill_marked, mark)
    try:
        answer = await answer_of(command, {**environment, MARK: mark}, limit_s, output="together")
    except TimeoutError:
        return f"{name} has not ended within {length(limit_s)}"
    except OSError as error:
        return f"{name} cannot be run: {error}"
    return (answer.last_line or f"{name} exits with {answer.status}") if answer.status else None


def _kill_marked(mark: str) -> None:
    """Kill the processes with this mark, and those of their groups."""
    variable = f"{MARK}={mark}".encode("utf-8", "surrogateescape")
    for pid in processes.everyone():
        try:
            is_marked = variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:  # it has just ended, or belongs to another user and so is not ours
            continue
        if is_marked and (found := processes.status(pid)) is not None:
            with suppress(ProcessLookupError):
                os.killpg(found.group, signal.SIGKILL)


def _text(printed: bytes | None) -> str:
    return (printed or b"").decode(errors="replace")
