"""The FIFO over which the service reaches a run's supervisor, from the service's end."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from betimes.errors import Unavailable

_log = logging.getLogger(__name__)


def write_request(control: str, request: str) -> None:
    """Ask a supervisor for something; nothing happens if it has ended. Unavailable where it does not read."""
    try:
        descriptor = os.open(control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):  # it has no reader: the shim has just ended
            return
        raise Unavailable(f"{control} cannot be opened: {error.strerror}; try again") from error
    try:
        os.write(descriptor, request.encode("ascii") + b"\n")
    except BlockingIOError as error:
        raise Unavailable(f"{control} is full: its shim is suspended; let it go on (SIGCONT)") from error
    except BrokenPipeError:  # it has ended since
        return
    finally:
        os.close(descriptor)


def remove_control(control: str) -> None:
    """Remove the FIFO of a run that is over."""
    try:
        Path(control).unlink(missing_ok=True)
    except OSError as error:  # it takes no room, and is not looked at again
        _log.warning("the control FIFO of a run that is over cannot be removed: %s", error)
