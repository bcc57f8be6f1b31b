"""What a shim listens to beside the command's output: its control FIFO, and signals."""

from __future__ import annotations

import os
import stat

from .signals import signal


def open_fifo(path: str) -> int:
    """The run's control FIFO; also open for writing, so that it never comes to an end."""
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.stat(path).st_mode):
            raise
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def take_signals() -> int:
    """A descriptor from which the numbers of the signals that matter can be read."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    return woken
