"""The FIFO over which the service reaches a run's supervisor, from the service's end."""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path

from betimes.errors import Unavailable

_log = logging.getLogger(__name__)


def write_request(control: str, request: str) -> None:
    """Ask a supervisor for something; nothing happens if it has ended. Unavailable where it does not read."""
    try:
        descriptor = _open(control)
    except OSError as error:
        raise Unavailable(f"{control} cannot be opened: {error.strerror}; try again") from error
    if descriptor is None:  # the shim has just ended
        return
    try:
        os.write(descriptor, request.encode("ascii") + b"\n")
    except BlockingIOError as error:
        raise Unavailable(
            f"the run's supervisor is suspended and reads no commands ({control}); resume it with kill -CONT"
        ) from error
    except BrokenPipeError:  # it has ended since
        return
    finally:
        os.close(descriptor)


def is_heard(control: str) -> bool:
    """Whether a supervisor listens, that is: lives, and has not written down how its run ended."""
    descriptor = _open(control)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def _open(control: str) -> int | None:
    """The end of the FIFO to write to; null: it has no reader. OSError where that cannot be known."""
    try:
        descriptor = os.open(control, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENOTDIR):
            return None
        raise
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)  # a job has put something else there
    return None


def remove_control(control: str) -> None:
    """Remove the FIFO of a run that is over."""
    try:
        Path(control).unlink(missing_ok=True)
    except OSError as error:  # it takes no room, and is not looked at again
        _log.warning("the control FIFO of a run that is over cannot be removed: %s", error)
