"""Reading the files of a run's folder. A job can write them too, so each is checked like a request from outside."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from betimes.resizing import UNITS
from betimes.service.executors.supervision import files
from betimes.service.scheduling.run_reports import ENDS

_MOST_BYTES = {files.LAUNCH: 2**25}  # it holds the command and its environment
_MOST_OTHER_BYTES = 2**20
_LATEST_S = 1e11  # seconds since 1970: a calendar can show it
_NOT_FOR_ANY_FILE = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class Damaged(Exception):
    """A file of a run's folder has no credible content; the message names it."""


def read(folder: str, name: str) -> dict[str, Any] | None:
    """The record in a run's file; None if it is missing. Raises Damaged; OSError if it cannot be read now."""
    path = str(Path(folder, name))
    text = read_bytes(path, _MOST_BYTES.get(name, _MOST_OTHER_BYTES))
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged(f"{path} is damaged: it is not JSON") from None
    if not isinstance(found, dict):
        raise Damaged(f"{path} is damaged: it is not a JSON object")
    required, checks = _FIELDS[name]
    for field in required:
        if field not in found:
            raise Damaged(f"{path} is damaged: {field} is missing")
    for field, value in found.items():
        what, is_one = checks.get(field, _ANYTHING)
        if not is_one(value):
            raise Damaged(f"{path} is damaged: {field} is {str(value)[:40]!r}, not {what}")
    return found


def read_bytes(path: str, most_bytes: int) -> bytes | None:
    """The content of a regular file; None if it is missing. Raises Damaged; OSError if it cannot be read now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NOT_FOR_ANY_FILE:
            raise Damaged(f"{path} cannot be read: {error.strerror}") from None
        raise
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Damaged(f"{path} is damaged: it is not a regular file")
        if about.st_size > most_bytes:
            found = f"it has {about.st_size} bytes, and at most {most_bytes} are read"
            raise Damaged(f"{path} is damaged: {found}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(descriptor)


def last_error(folder: str) -> str:
    """The last error that a run's shim wrote; empty: none could be read."""
    try:
        said = read_bytes(str(Path(folder, files.ERRORS)), _MOST_OTHER_BYTES) or b""
    except Damaged as damaged:
        return str(damaged)
    lines = said.decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


# --- checks of fields -----------------------------------------------------------------------------------------------

Check = tuple[str, Callable[[Any], bool]]


def _number(least: float, most: float, of: type | tuple[type, ...] = (int, float)) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, of) and not isinstance(value, bool) and least <= value <= most


def _or_null(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_text(value: Any) -> bool:
    """Text that databases can keep."""
    return (
        isinstance(value, str)
        and "\0" not in value
        and not any("\ud800" <= each <= "\udfff" for each in value)
    )


def _is_group(value: Any) -> bool:
    """A control group made for a run: others must not be emptied."""
    return isinstance(value, str) and Path(value).name.startswith("run-") and ".." not in Path(value).parts


_instant = _number(0.0, _LATEST_S)
_amount = _number(0.0, 1e15)
_is_process = _number(2, 2**31 - 1, int)
_ANYTHING: Check = ("anything", lambda _: True)
_BY_NAME: dict[str, Check] = {
    "why": (f"one of {', '.join(ENDS)}", lambda value: isinstance(value, str) and value in ENDS),
    "exit_code": ("an exit code", _or_null(_number(0, 255, int))),
    "signal": ("a signal", _or_null(_number(1, 64, int))),
    "started_at_s": ("an instant", _or_null(_instant)),
    "ended_at_s": ("an instant", _or_null(_instant)),
    "message": ("a text", _or_null(_is_text)),
    "memory_limited_by": ("a text", _or_null(_is_text)),
    "log_lost_bytes": ("a number of bytes", _or_null(_number(0, 2**63 - 1, int))),
    "pid": ("a process", _is_process),
    "pgid": ("a process", _is_process),
    "boot_id": ("a text", _is_text),
    "cgroup": ("a control group of a run", _or_null(_is_group)),
    "cpus": (
        "a list of cores",
        lambda value: isinstance(value, list) and all(map(_number(0, 2**16, int), value)),
    ),
    "gpus": (
        "a share of each GPU",
        lambda value: isinstance(value, dict) and all(map(_number(0.0, 1.0), value.values())),
    ),
    **{
        name: ("an amount", _or_null(_amount))
        for name in ("run_s", "max_rss_gib", "cpu_s", "memory_bytes", "started_steady_s")
    },
    **{
        name: ("clock ticks", _or_null(_number(0, 2**62, int)))
        for name in ("start_ticks", "command_start_ticks")
    },
}
_FIELDS: dict[str, tuple[tuple[str, ...], dict[str, Check]]] = {
    files.LAUNCH: ((), {name: _BY_NAME[name] for name in ("boot_id", "cpus", "gpus", "cgroup")}),
    files.SHIM: (("pid", "start_ticks", "started_at_s"), _BY_NAME),
    files.EXIT: (("why",), _BY_NAME),
    UNITS: ((), _BY_NAME),
}
