"""The files of a run's folder: their names, and how they are written and locked."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from _thread import get_ident  # `threading` takes longer

LAUNCH = "launch.json"
SHIM = "shim.json"
EXIT = "exit.json"
LOCK = "lock"
LOG = "log"
CURVE = "curve.json"  # the use of the run over its time
LOST = ".lost"  # after the name of a log that goes on: the file with the number of bytes lost from it
ERRORS = "shim.err"
RESERVED = "exit.reserved"
INPUT = "stdin"  # the job's standard input
JOB_FOLDER = "job"  # BETIMES_RUN_DIR
COPY = "upload"  # of the job's uploaded directory, in which it runs

BELL_FD = 3  # of a shim: the end of a pipe, closed once exit.json can be read
RUNS = 0  # sent to the bell: the command runs
BUSY = 75  # the exit status of a shim that found the run taken
NO_ROOM = 74  # the exit status of a shim that has not started the command, as the disk is full

_RESERVED_BYTES = 4096  # a block; exit.json takes a tenth of it, but for a long message


def try_lock(folder: str) -> int | None:
    """The run's lock as a descriptor, to be closed; None while another process holds it."""
    lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def take_run(folder: str, patience_s: float = 5.0) -> int | None:
    """The lock of a run that was never started; None if it was, or if another shim keeps the lock."""
    give_up = time.monotonic() + patience_s
    while not _was_started(folder):
        lock = try_lock(folder)
        if lock is not None:
            if not _was_started(folder):
                return lock
            os.close(lock)  # it started meanwhile
        elif time.monotonic() > give_up:
            break
        else:  # a shim about to start it, which soon shows, or a service that only looks at its fate
            time.sleep(0.005)
    return None


def _was_started(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in (SHIM, EXIT))


def write_atomically(path: str, text: str, mode: int = 0o600) -> None:
    """Replace a file in one step; a power failure right after may undo or damage it."""
    partial = f"{path}.{os.getpid()}-{get_ident()}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(partial, flags, mode)
    except FileExistsError:  # an earlier process's, or a link that another user has put there
        os.unlink(partial)
        descriptor = os.open(partial, flags, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask
            file.write(text.encode("ascii"))
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def reserve_exit(folder: str) -> None:
    """Allocate the room of exit.json on the disk, so that it can be written even if the disk is full later.

    OSError where there is no room now.
    """
    descriptor = os.open(
        os.path.join(folder, RESERVED), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, _RESERVED_BYTES)
        else:
            os.write(descriptor, bytes(_RESERVED_BYTES))
    finally:
        os.close(descriptor)


def write_exit(folder: str, text: str) -> None:
    """Write exit.json in one step, into the room from `reserve_exit`, or else into new room. It survives a power
    failure after `sync_exit`.

    OSError where there is neither; FileNotFoundError where the folder is gone.
    """
    reserved = os.path.join(folder, RESERVED)
    try:
        descriptor = os.open(reserved, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:  # never reserved, or removed, or something else by now
        if error.errno not in (errno.ENOENT, errno.EISDIR, errno.ELOOP, errno.ENXIO):
            raise
        return write_atomically(os.path.join(folder, EXIT), text)
    with open(descriptor, "wb") as file:
        file.write(text.encode("ascii"))
        file.truncate()
    return os.replace(reserved, os.path.join(folder, EXIT))


def clear_way(folder: str, error: OSError) -> bool:
    """Remove what a job has put in the way of exit.json; False: another cause."""
    try:
        if error.errno == errno.EISDIR:
            os.rename(os.path.join(folder, EXIT), os.path.join(folder, f"{EXIT}.{time.time():.6f}"))
        elif error.errno == errno.EACCES and os.stat(folder).st_mode & 0o700 != 0o700:
            os.chmod(folder, 0o700)
        else:
            return False
    except OSError:
        return False
    return True


def sync_exit(folder: str) -> None:
    """Make exit.json survive a power failure. OSError where that is not possible."""
    sync(os.path.join(folder, EXIT))
    sync(folder)


def is_full(error: OSError) -> bool:
    """Whether a write failed for want of room on the disk, or in the user's quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync(path: str) -> None:
    """Make the content of a file, or the names in a folder, survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def as_json(value: object) -> str:
    """JSON in ASCII, of plain values; a shim that imported `json` would take twice as long to start."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_json(str(key))}: {as_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} is not for a run's files")


def _escaped(character: str) -> str:
    if " " <= character <= "~" and character not in '"\\':
        return character
    number = ord(character)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
