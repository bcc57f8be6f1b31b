"""What became of a run, as its folder tells, whatever a crash has left there."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from betimes.service.executors.leftovers import kill_leftovers
from betimes.service.executors.supervision import files
from betimes.service.executors.supervision.processes import boot_id

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Never:
    """The command was not started, and will not be."""


@dataclass(frozen=True)
class Starting:
    """A shim has the run, and will soon tell more; or another service is looking, too."""


@dataclass(frozen=True)
class Running:
    """A shim has the run; `shim` is its shim.json."""

    shim: dict[str, Any]


@dataclass(frozen=True)
class Over:
    """Nothing of the run is left; `exit` is its exit.json."""

    exit: dict[str, Any]


Fate = Never | Starting | Running | Over


def look(folder: str, identity: str) -> Fate:
    """What became of a run by its folder; one without a supervisor is ended here, and is lost. What another run has
    left in a folder of that name is set aside, and what was set aside of this one is taken back.

    OSError where the folder cannot be read or written.
    """
    if is_of_another(folder, identity):
        _log.warning(
            "%s is of a run of another log, or of a job that this one has lost: now %s",
            folder,
            set_aside(folder),
        )
    if (aside := Path(_aside(folder, identity))).exists() and not Path(folder).exists():
        aside.rename(folder)
    over = _read_exit(folder)
    if over is not None:
        return Over(over)
    if not Path(folder, files.LAUNCH).exists():
        return Never()
    lock = files.try_lock(folder)
    if lock is None:
        shim = read(folder, files.SHIM)
        return (
            Running(shim) if shim else Starting()
        )  # a damaged one says nothing: it is over when the lock is free
    try:  # it has no supervisor, and gets none as long as the lock is held here
        over = _read_exit(folder)
        if over is not None:
            return Over(over)
        launch, shim = read(folder, files.LAUNCH) or {}, read(folder, files.SHIM)
        if launch.get("boot_id") != boot_id():
            return Over(_lose(folder, shim, "node-lost", "the machine restarted while it ran"))
        if shim is None:
            return Never()
        killed, left = kill_leftovers(shim, folder)
        message = f"its supervisor (process {shim.get('pid')}) was killed from outside"
        if killed:
            message += f"; {killed} processes of the command went on, and were killed"
        if left:
            message += f", but these would not die: {', '.join(map(str, left))}"
        return Over(_lose(folder, shim, "lost", message))
    finally:
        os.close(lock)


def is_of_another(folder: str, identity: str) -> bool:
    """Whether a run's folder is of another run; files that are damaged do not say, and exit.json alone is of any."""
    said = [found for name in (files.LAUNCH, files.SHIM) if (found := read(folder, name)) is not None]
    if not said:
        return Path(folder, files.EXIT).exists()
    return any(one.get("identity") != identity for one in said if one)


def set_aside(folder: str) -> str:
    """Give a run's folder the name of what it is of, in which its supervisor goes on; the name."""
    said = read(folder, files.LAUNCH) or read(folder, files.SHIM) or {}
    aside = _aside(folder, str(said.get("identity")))
    if Path(aside).exists():
        aside += f"-{time.time_ns()}"
    Path(folder).rename(aside)
    return aside


def _aside(folder: str, identity: str) -> str:
    return f"{folder}.of-{identity[:8]}"


def read(folder: str, name: str) -> dict[str, Any] | None:
    """A file of a run's folder; None if it is missing, empty if it is damaged."""
    try:
        text = Path(folder, name).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_exit(folder: str) -> dict[str, Any] | None:
    """exit.json; None if it is missing, or if it is damaged as it was not on the disk when the machine restarted."""
    over = read(folder, files.EXIT)
    if over != {}:
        return over
    launch = read(folder, files.LAUNCH)
    return over if launch is None or launch.get("boot_id") == boot_id() else None


def record_end(folder: str, why: str, message: str, started_at_s: float | None = None) -> dict[str, Any]:
    """Write exit.json for a shim that cannot; what it says."""
    over = {
        "why": why,
        "exit_code": None,
        "signal": None,
        "message": message,
        "started_at_s": started_at_s,
        "ended_at_s": time.time(),
        "max_rss_gib": None,
        "cpu_s": None,
    }
    files.write_exit(folder, files.as_json(over))
    files.sync_exit(folder)
    return over


def _lose(folder: str, shim: dict[str, Any] | None, why: str, message: str) -> dict[str, Any]:
    return record_end(folder, why, message, (shim or {}).get("started_at_s"))
