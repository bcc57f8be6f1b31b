"""What became of a run, as its folder tells, whatever a crash has left there."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from betimes.service.executors.control import is_heard
from betimes.service.executors.leftovers import kill_leftovers
from betimes.service.executors.records import Damaged, read
from betimes.service.executors.supervision import files, processes
from betimes.service.executors.supervision.processes import boot_id

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Never:
    """The command was not started, and will not be."""


@dataclass(frozen=True)
class Starting:
    """A shim has the run, and will soon tell more; or another service is looking, too.

    damage: what was done to the run's folder, so that more is known only once its shim has ended.
    """

    damage: str | None = None


@dataclass(frozen=True)
class Running:
    """A shim has the run; `shim` is its shim.json."""

    shim: dict[str, Any]


@dataclass(frozen=True)
class Over:
    """Nothing of the run is left; `exit` is its exit.json."""

    exit: dict[str, Any]


Fate = Never | Starting | Running | Over


def look(folder: str, control: str, identity: str) -> Fate:
    """What became of the run of a folder; a run without a supervisor is ended here, and is lost.

    identity: of the run. A folder that another run has left under this name is set aside, and one of this run that was
    set aside is taken back. control: its supervisor's FIFO. A supervisor that lives is asked before any file is
    believed: it holds the lock, and reads the FIFO, until it has written exit.json. OSError where nothing can be known
    now.
    """
    if is_of_another(folder, identity):
        what = "is of a run of another log, or of a job that this one has lost"
        _log.warning("%s %s: now %s", folder, what, set_aside(folder))
    if (aside := Path(_aside(folder, identity))).exists() and not Path(folder).exists():
        aside.rename(folder)
    try:
        return _look(folder, control, identity)
    except Damaged as damaged:
        if is_heard(control):
            return Starting(str(damaged))
        kill_leftovers({}, folder, identity)
        return Over({"why": "lost", "message": str(damaged)})


def _look(folder: str, control: str, identity: str) -> Fate:
    try:
        Path(folder, files.LAUNCH).stat()
    except (FileNotFoundError, NotADirectoryError):
        return Starting(f"its folder {folder} was removed while it ran") if is_heard(control) else Never()
    except PermissionError as error:
        raise Damaged(f"{error.filename} cannot be read: {error.strerror}") from None
    try:
        lock = files.try_lock(folder)
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise Damaged(f"{error.filename} cannot be opened: {error.strerror}") from None
    if lock is None:
        return _with_supervisor(folder)
    try:  # it has no supervisor, and gets none as long as the lock is held here
        if is_heard(control):  # but for one whose lock was removed
            return _with_supervisor(folder)
        over, damage = _tolerant(folder, files.EXIT)
        if over is not None:
            return Over(over)
        (launch, _), (shim, _) = _tolerant(folder, files.LAUNCH), _tolerant(folder, files.SHIM)
        if (
            launch is not None and launch.get("boot_id") != boot_id()
        ):  # what is damaged was not on the disk then
            return Over(_lose(folder, shim, "node-lost", "the machine restarted while it ran"))
        if damage is not None:
            kill_leftovers(shim or {}, folder, identity)
            return Over({"why": "lost", "message": damage})
        shim = read(folder, files.SHIM)
        if shim is None:
            return Never()
        killed, left = kill_leftovers(shim, folder, identity)
        message = f"its supervisor (process {shim['pid']}) was killed from outside"
        if killed:
            message += f"; {killed} processes of the command went on, and were killed"
        if left:
            message += f", but these would not die: {', '.join(map(str, left))}"
        return Over(_lose(folder, shim, "lost", message))
    finally:
        os.close(lock)


def is_of_another(folder: str, identity: str) -> bool:
    """Whether a run's folder is of another run; files that are damaged do not say, and exit.json alone is of any."""
    found = [said for name in (files.LAUNCH, files.SHIM) if (said := _tolerant(folder, name)) != (None, None)]
    if not found:
        return Path(folder, files.EXIT).exists()
    return any(record.get("identity") != identity for record, _ in found if record is not None)


def set_aside(folder: str) -> str:
    """Give a run's folder the name of what it is of, in which its supervisor goes on; the name."""
    (launch, _), (shim, _) = _tolerant(folder, files.LAUNCH), _tolerant(folder, files.SHIM)
    aside = _aside(folder, str((launch or shim or {}).get("identity")))
    if Path(aside).exists():
        aside += f"-{time.time_ns()}"
    Path(folder).rename(aside)
    return aside


def _aside(folder: str, identity: str) -> str:
    return f"{folder}.of-{identity[:8]}"


def _with_supervisor(folder: str) -> Fate:
    """What there is of a run that has a supervisor; Starting, until it shows which it is."""
    shim = read(folder, files.SHIM)
    if shim is None:
        return Starting()
    if processes.lives(shim["pid"], shim["start_ticks"]) and not _is_supervisor(shim["pid"]):
        raise Damaged(f"{folder}/{files.SHIM} is damaged: process {shim['pid']} is not the run's supervisor")
    return Running(shim)


def _is_supervisor(pid: int) -> bool:
    """Whether a process is one of those that `forker` starts, as far as /proc tells."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended, or this is no Linux
        return True
    return not words or b"shim.py" in words  # none: it ends at this moment


def _tolerant(folder: str, name: str) -> tuple[dict[str, Any] | None, str | None]:
    """What a file says, and what is wrong with it."""
    try:
        return read(folder, name), None
    except Damaged as damaged:
        return None, str(damaged)


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
