"""The folder of a run, as the service uses it: files written before a supervisor is started, and the run's fate as
found there, whatever a crash has left.

The package `supervision` lists the files and their writers. A job can write them too, so each is checked like a request
from outside.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from betimes.resizing import UNITS
from betimes.service.access.unix_users import Account
from betimes.service.executors.protocol import Launch
from betimes.service.executors.supervision import files, processes
from betimes.service.executors.supervision.processes import boot_id
from betimes.service.executors.supervisors import is_heard, kill_leftovers
from betimes.service.scheduling.events import ENDS
from betimes.service.uploads.archive import DamagedArchive, unpack

_log = logging.getLogger(__name__)

# --- before a supervisor is started ---


@dataclass(frozen=True)
class Assigned:
    """A run's cores, to which it is pinned (none: it floats), and shares of GPUs."""

    cpus: tuple[int, ...] = ()
    gpus: Mapping[str, float] = field(default_factory=dict)

    @property
    def visible_gpus(self) -> str:
        """For CUDA_VISIBLE_DEVICES."""
        return ",".join(self.gpus)


@dataclass(frozen=True)
class Keeping:
    """Limits of a run's kept output, the control group below which runs get theirs, and the process, by number and
    start, with which every run ends; null: runs outlive all other processes.
    """

    log_bytes: int
    log_files: int
    group: Path | None
    ends_with: tuple[int, int] | None = None


def make_copy(launch: Launch, owner: Account | None = None) -> None:
    """Unpack a job's uploaded directory into the run's folder, for its owner; an existing copy stays.

    Raises DamagedArchive for an archive that is missing or cannot be unpacked; OSError for faults of the disk.
    """
    copy = Path(launch.folder, files.COPY)
    if launch.archive is None or copy.is_dir():
        return
    if not Path(launch.archive).exists():
        raise DamagedArchive(
            f"its uploaded directory is missing ({launch.archive}); submit it again with --upload"
        )
    _make_private(copy.parent)
    try:
        unpack(Path(launch.archive), copy, None if owner is None else (owner.uid, owner.gid))
    except DamagedArchive as error:
        raise DamagedArchive(
            f"its uploaded directory ({launch.archive}) {error}; remove that file, and submit again with --upload"
        ) from None


def write_launch(
    launch: Launch,
    assigned: Assigned,
    has_gpus: bool,
    keeping: Keeping,
    owner: Account | None = None,
) -> dict[str, Any]:
    """Make the run's folders and launch.json, and return its content; an existing launch.json stays.

    It survives a power failure after `sync_launch`. owner: of the job's own folders and output; null: this process's
    user. All else, and each folder above, stays this process's, so that the job can put no link there.

    OSError where that is not possible.
    """
    folder = Path(launch.folder)
    _make_private(folder)
    if owner is None or launch.keeps_checkpoints:
        _make_private(Path(launch.checkpoint_dir))
    _make_private(Path(launch.control).parent)
    try:
        found = read(launch.folder, files.LAUNCH)
    except Damaged:  # a service was killed with the machine: the run has not begun
        found = None
    if found:
        return found
    own = Path(job_folder(launch.folder))
    _make_private(own)
    if owner is not None:
        _let_through(folder)
        for given in (own, Path(launch.checkpoint_dir)) if launch.keeps_checkpoints else (own,):
            os.chown(given, owner.uid, owner.gid, follow_symlinks=False)
    env = {**launch.env, "BETIMES_RUN_DIR": str(own), "BETIMES_RUN_ID": launch.identity}
    if owner is not None:
        env = {**owner.variables, **env}
    if assigned.cpus:
        env["BETIMES_CPUS"] = ",".join(map(str, assigned.cpus))
    if has_gpus:
        env["CUDA_VISIBLE_DEVICES"] = assigned.visible_gpus
    name = f"run-{launch.run.job}-{launch.run.number}-{launch.identity[:8]}"
    record = {
        **asdict(launch),
        "workdir": launch.workdir if launch.archive is None else str(folder / files.COPY),
        "run": list(launch.run),
        "command": list(launch.command),
        "places": [asdict(place) for place in launch.places],
        "env": env,
        "cpus": list(assigned.cpus),
        "gpus": dict(assigned.gpus),
        "memory_bytes": round(launch.memory_gib * launch.units * 2**30),
        "cgroup": None if keeping.group is None else str(keeping.group / name),
        "log_bytes": keeping.log_bytes,
        "log_files": keeping.log_files,
        "boot_id": boot_id(),
        "ends_with": keeping.ends_with,
        "owner": None if owner is None else {"uid": owner.uid, "gid": owner.gid, "groups": owner.groups},
    }
    files.write_atomically(str(folder / files.LAUNCH), json.dumps(record))
    return record


def job_folder(folder: str) -> str:
    """The job's folder in a run's folder, apart from files of service and supervisor."""
    return str(Path(folder, files.JOB_FOLDER))


def sync_launch(folder: str) -> None:
    """Make the folder of a run and launch.json survive a power failure. OSError where that is not possible.

    A run whose folder is lost in a power failure is started again.
    """
    run = Path(folder)
    # One after the other, so that most file systems write their journal once.
    for made in (run / files.LAUNCH, run, run.parent, run.parent.parent):
        files.sync(str(made))


def _make_private(folder: Path) -> None:
    """Make a folder and missing ones above it, for their owner alone: `mkdir` would open the latter."""
    if not folder.is_dir():
        _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _let_through(folder: Path) -> None:
    """Let other users pass through the folders above a run's, none of which they can list, to their own files.

    Files of the service in the state directory are closed to them first.
    """
    runs = folder.parent.parent
    state, checkpoints = runs.parent, runs.parent / "checkpoints"
    for path in state.iterdir():
        mode = path.lstat().st_mode
        is_file = stat.S_ISREG(mode) or stat.S_ISDIR(mode)  # neither a link nor the users' socket
        if path not in (runs, checkpoints) and is_file and mode & 0o077:
            path.chmod(mode & 0o700)
    for above in (folder, folder.parent, runs, checkpoints, state):
        if above.is_dir() and not (mode := above.stat().st_mode) & 0o001:
            above.chmod(stat.S_IMODE(mode) | 0o011)


# --- the fate of a run ---


@dataclass(frozen=True)
class Never:
    """The command was not started, and will not be."""


@dataclass(frozen=True)
class Starting:
    """A shim has the run, and will soon show more; or another service is looking, too.

    damage: to the run's folder, so that more is known only once its shim has ended.
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
    """The fate of a folder's run; a run without a supervisor is ended here, and is lost.

    identity: of the run. Another run's folder of this name is set aside, and one of this run that was set aside is
    taken back. control: its supervisor's FIFO. A live supervisor is asked before any file is believed: it holds the
    lock, and reads the FIFO, until it has written exit.json. OSError where nothing can be known now.
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
        if launch is not None and launch.get("boot_id") != boot_id():
            # Damaged files were not on the disk then.
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
    """Whether a folder is of another run; damaged files do not show it, and a lone exit.json is of another."""
    found = [each for name in (files.LAUNCH, files.SHIM) if (each := _tolerant(folder, name)) != (None, None)]
    if not found:
        return Path(folder, files.EXIT).exists()
    return any(record.get("identity") != identity for record, _ in found if record is not None)


def set_aside(folder: str) -> str:
    """Rename a run's folder by its run's identity; its supervisor goes on there; the name."""
    (launch, _), (shim, _) = _tolerant(folder, files.LAUNCH), _tolerant(folder, files.SHIM)
    aside = _aside(folder, str((launch or shim or {}).get("identity")))
    if Path(aside).exists():
        aside += f"-{time.time_ns()}"
    Path(folder).rename(aside)
    return aside


def _aside(folder: str, identity: str) -> str:
    return f"{folder}.of-{identity[:8]}"


def _with_supervisor(folder: str) -> Fate:
    """The state of a run with a supervisor; Starting, until the supervisor is known."""
    shim = read(folder, files.SHIM)
    if shim is None:
        return Starting()
    if processes.lives(shim["pid"], shim["start_ticks"]) and not _is_supervisor(shim["pid"]):
        raise Damaged(f"{folder}/{files.SHIM} is damaged: process {shim['pid']} is not the run's supervisor")
    return Running(shim)


def _is_supervisor(pid: int) -> bool:
    """Whether a process was started by `Forker`, as far as /proc shows."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended, or this is no Linux
        return True
    return not words or b"shim.py" in words  # none: it ends at this moment


def _tolerant(folder: str, name: str) -> tuple[dict[str, Any] | None, str | None]:
    """A file's record, and its damage."""
    try:
        return read(folder, name), None
    except Damaged as damaged:
        return None, str(damaged)


def record_end(folder: str, why: str, message: str, started_at_s: float | None = None) -> dict[str, Any]:
    """Write exit.json for a shim that cannot; its content."""
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


def assigned(folder: str, identity: str) -> Assigned | None:
    """The devices assigned to a run, by its folder; None: none yet."""
    try:
        launch = read(folder, files.LAUNCH)
        if launch is None or is_of_another(folder, identity):
            return None
        now = {**launch, **(read(folder, files.SHIM) or {})}
        now |= read(job_folder(folder), UNITS) or {}
    except (Damaged, OSError):  # `look` finds and reports the run's fate
        return None
    return Assigned(tuple(now.get("cpus") or ()), dict(now.get("gpus") or {}))


# --- reading its files ---

_MOST_BYTES = {files.LAUNCH: 2**25}  # it holds the command and its environment
_MOST_OTHER_BYTES = 2**20
_LATEST_S = 1e11  # seconds since 1970: a calendar can show it
_NOT_FOR_ANY_FILE = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class Damaged(Exception):
    """A file of a run's folder has no credible content; the message names it."""


def read(folder: str, name: str) -> dict[str, Any] | None:
    """The record in a run's file; None if it is missing. Raises Damaged; OSError if it cannot be read now."""
    path = str(Path(folder, name))
    # In the job's folder its owner may put another one there.
    text = read_bytes(path, _MOST_BYTES.get(name, _MOST_OTHER_BYTES), is_own=name == UNITS)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged(f"{path} is damaged: it is not JSON") from None
    if not isinstance(found, dict):
        raise Damaged(f"{path} is damaged: it is not a JSON object")
    required, checks = _FIELDS[name]
    for key in required:
        if key not in found:
            raise Damaged(f"{path} is damaged: {key} is missing")
    for key, value in found.items():
        what, is_one = checks.get(key, _ANYTHING)
        if not is_one(value):
            raise Damaged(f"{path} is damaged: {key} is {str(value)[:40]!r}, not {what}")
    return found


def read_bytes(path: str, most_bytes: int, is_own: bool = False) -> bytes | None:
    """The content of a regular file; None if it is missing, or with `is_own` another user's.

    Raises Damaged; OSError if it cannot be read now.
    """
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
        if is_own and about.st_uid != os.geteuid():
            return None
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
        content = read_bytes(str(Path(folder, files.ERRORS)), _MOST_OTHER_BYTES) or b""
    except Damaged as damaged:
        return str(damaged)
    lines = content.decode("utf-8", "replace").split("\n")
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
