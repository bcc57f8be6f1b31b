"""Ownership: one service per state directory and per database, held by a lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from betimes.errors import StoreInUse
from betimes.service.executors.supervision.processes import boot_id


class FileLock:
    """An exclusive lock on a file that names its holder: `pid host boot since directory`, of the state.

    The kernel drops it when the process ends, however it ends. It does not pass to programs that the process
    starts (the file is closed on exec), but it does to a plain fork.
    """

    def __init__(self, path: Path, what: str, state: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._holder()
            self.release()
            raise StoreInUse(
                f"{what}: in use by {holder}; stop that one, or start with another --service and --database"
            ) from None
        except OSError:
            self.release()
            raise
        try:
            self._file.truncate(0)
            self._file.write(
                f"{os.getpid()} {socket.gethostname()} {boot_id() or '-'} {_now()} {state.resolve()}\n"
            )
            self._file.flush()
        except OSError:
            self.release()
            raise

    def _holder(self) -> str:
        assert self._file is not None
        self._file.seek(0)
        words = self._file.read().rstrip("\n").split(" ", 4)
        if len(words) < 5:
            return "another service"
        pid, host, boot, since, state = words
        return f"the service with pid {pid} on {host}, since {since} (boot {boot}, state in {state})"

    def release(self) -> None:
        """Let the next one in."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
