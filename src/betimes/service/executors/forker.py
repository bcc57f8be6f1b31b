"""Starting supervisors, by a process that forks them: a Python of its own for each would take most of the time."""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from betimes.service.executors import shim
from betimes.service.executors.supervision import files
from betimes.service.executors.supervision.forking import NUMBER_BYTES

_SHIM = str(Path(shim.__file__).resolve())
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_PATIENCE_S = 20.0  # for an answer, which takes a millisecond: then the process is suspended, or hangs
# The job can read what its supervisor was given, so that is nothing of the service's but where libraries lie.
_ENVIRON = {
    name: value for name, value in os.environ.items() if name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
}
_HELD_BACK = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # until a supervisor can handle them


class Forker:
    """Starts its process when it is first needed, and another one if that has ended. Threads may share it."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def spawn(self, folder: str, record: dict[str, Any]) -> tuple[int, int]:
        """Start the supervisor of a run: its process, and the bell, a descriptor from which one byte can be read once
        the command runs (RUNS) or a supervisor has begun nothing (its exit status), and which comes to an end with
        the run: exit.json is there, or its supervisor was killed.

        OSError where there are too many processes or too little memory, or no room on the disk.
        """
        errors = os.open(f"{folder}/{files.ERRORS}", _APPEND, 0o600)
        bell, ring = os.pipe()
        try:
            return self._ask(marshal.dumps((folder, record)), errors, ring), bell
        except BaseException:
            os.close(bell)
            raise
        finally:
            os.close(errors)
            os.close(ring)

    def close(self) -> None:
        """Let the process end; supervisors go on."""
        with self._lock:
            self._end()

    def _ask(self, request: bytes, *handed: int) -> int:
        with self._lock:
            try:
                answer = self._answer(request, handed)
            except OSError:
                answer = b""
            if len(answer) < NUMBER_BYTES:  # it was killed: of two supervisors of a run one gives way
                self._end(by_force=True)
                answer = self._answer(request, handed)
        number = int.from_bytes(answer, "little", signed=True)
        if number <= 0:
            raise OSError(-number, os.strerror(-number), "a supervisor")
        return number

    def _answer(self, request: bytes, handed: tuple[int, ...]) -> bytes:
        service = self._socket or self._begin()
        socket.send_fds(service, [len(request).to_bytes(NUMBER_BYTES, "little")], handed)
        service.sendall(request)
        return service.recv(NUMBER_BYTES, socket.MSG_WAITALL)

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-X", "utf8", _SHIM],
                _ENVIRON,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=_HELD_BACK,
                setsigdef=_HELD_BACK,
            )
        ours.settimeout(_PATIENCE_S)
        self._socket = ours
        return ours

    def _end(self, by_force: bool = False) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.pid is not None:
            if by_force:
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.pid = None
