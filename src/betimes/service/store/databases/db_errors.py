"""Turns a driver's error into one of Betimes, with the database's name and the next step."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from betimes.errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreRefused,
    StoreUnreachable,
)

_LITTLE_ROOM = 1 << 20  # bytes; below it, an input/output error of SQLite is a full disk by another name

_RESTORE = "stop the service, keep a copy, and restore the database from a backup"


class Faults:
    """Errors about one database; `name` is its path or its address without the password."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the drivers' errors inside into errors of Betimes."""
        try:
            yield
        except StoreError:
            raise
        except (DBAPIError, PoolTimeout, sqlite3.Error, OSError) as error:
            raise self.meaning(error) from error
        except Exception as error:
            if hasattr(error, "sqlstate"):  # psycopg, which is imported only where it is used
                raise self.meaning(error) from error
            raise

    def meaning(self, error: BaseException) -> StoreError:
        """The error of Betimes for a driver's error."""
        if isinstance(error, PoolTimeout):
            return StoreLocked(f"{self.name}: too many readers at once; ask again in a moment")
        original: Any = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        if isinstance(original, OSError):
            return self._of_system(original)
        if isinstance(original, sqlite3.Error):
            return self._of_sqlite(original)
        return self._of_postgres(original)

    def full(self, detail: str) -> StoreFull:
        """There is no room."""
        return StoreFull(
            f"{self.name}: no room is left ({detail}), so nothing was written; free some (df -h {self.folder})"
        )

    def check_room(self) -> None:
        """Raise StoreFull where the disk of the state directory has next to no room."""
        try:
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise self.meaning(error) from error
        if free < _LITTLE_ROOM:
            raise self.full(f"{free:,} bytes")

    def _of_system(self, error: OSError) -> StoreError:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return self.full(reason)
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return StoreReadOnly(f"{error.filename or self.name}: {reason}; let this user write there")
        return StoreError(f"{error.filename or self.name}: {reason}")

    def _of_sqlite(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        detail = f"{getattr(error, 'sqlite_errorname', type(error).__name__)}: {error}"
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._has_little_room()):
            return self.full(detail)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreLocked(
                f"{self.name}: another program keeps it locked, so nothing was written; "
                f"end that program (fuser {self.name} names it)"
            )
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
            return StoreReadOnly(
                f"{self.name}: cannot be written ({detail}); let this user write it and its folder"
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreDamaged(f"{self.name}: is damaged, or no database ({detail}); {_RESTORE}")
        if code in (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG):
            return StoreRefused(f"{self.name}: cannot be kept ({detail}); nothing was written")
        if code == sqlite3.SQLITE_IOERR:
            return StoreError(f"{self.name}: the disk failed ({detail}); look at the system's log (dmesg)")
        return StoreError(f"{self.name}: {detail}")

    def _of_postgres(self, error: Any) -> StoreError:
        from psycopg import InterfaceError, OperationalError

        state: str = getattr(error, "sqlstate", None) or ""
        detail = " ".join(str(error).split())
        if state in ("53100", "53200"):
            return StoreFull(f"{self.name}: no room is left on the server ({detail}), so nothing was written")
        if state in ("55P03", "40001", "40P01"):
            return StoreLocked(
                f"{self.name}: another session keeps it locked ({detail}), so nothing was written; "
                "end that session (pg_stat_activity lists it)"
            )
        if state in ("25006", "42501"):
            return StoreReadOnly(
                f"{self.name}: cannot be written ({detail}); name the primary, and a role that may write"
            )
        if state.startswith("XX"):
            return StoreDamaged(f"{self.name}: is damaged ({detail}); {_RESTORE}")
        if state.startswith(("22", "23")):
            return StoreRefused(f"{self.name}: cannot be kept ({detail}); nothing was written")
        if state.startswith(("08", "57", "28", "3D", "53")) or (
            not state and isinstance(error, OperationalError | InterfaceError)
        ):
            return StoreUnreachable(
                f"{self.name}: no connection ({detail}); see that the server runs and lets this user in, "
                "then try the same again"
            )
        return StoreError(f"{self.name}: {detail}")

    def _has_little_room(self) -> bool:
        try:
            return shutil.disk_usage(self.folder).free < _LITTLE_ROOM or _limited_size()
        except OSError:
            return False


def _limited_size() -> bool:
    """Whether this process may not make files of any size, which SQLite reports as a failing disk."""
    import resource

    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
