"""Noticing that a process has ended, whosever child it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from betimes.service.executors.supervision import processes


class Watch:
    """Calls `ended` once, from the event loop, when a process has ended: by a pidfd if there are any, else by looking.

    The process is known by its number and its start, so that another one with the same number does not count. A child
    of this process is waited for. With a `bell`, a descriptor that it closes, the end of that counts instead.
    """

    def __init__(
        self,
        pid: int,
        ticks: int | None,
        ended: Callable[[], None],
        look_s: float,
        bell: int | None = None,
    ) -> None:
        self.pid, self.ticks = pid, ticks
        self._ended, self._look_s = ended, look_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._bell = bell
        self._pidfd = None if bell is not None else _open_pidfd(pid)
        if bell is not None:
            self._loop.add_reader(bell, self._tell)
        elif self._pidfd is not None and processes.lives(pid, ticks):
            # Asked after: now no other process gets its number.
            self._loop.add_reader(self._pidfd, self._tell)
        else:
            self._look()

    def send(self, number: int) -> None:
        """Send a signal to this very process; nothing happens if it has ended."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        elif processes.lives(self.pid, self.ticks):
            processes.send(self.pid, number)

    def cancel(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for descriptor in (self._bell, self._pidfd):
            if descriptor is not None:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        self._bell = self._pidfd = None

    def _look(self) -> None:
        reap(self.pid)
        if processes.lives(self.pid, self.ticks):
            self._timer = self._loop.call_later(self._look_s, self._look)
        else:
            self._timer = self._loop.call_later(0, self._tell)

    def _tell(self) -> None:
        self.cancel()
        reap(self.pid)
        self._ended()


def reap(pid: int) -> None:
    """Reap a child that has ended; one of another process, or that still runs, is left alone."""
    with contextlib.suppress(ChildProcessError):  # it is init's, as it was started before this service was
        os.waitpid(pid, os.WNOHANG)


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # it has ended, there are too many descriptors, or the kernel is too old: then by looking
        return None
