"""SQLite: a file, a write-ahead log, one writer; readers see the last commit and are never in the way."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    PoolProxiedConnection,
    QueuePool,
    StaticPool,
    create_engine,
)

from betimes.errors import StoreError
from betimes.files import sync
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.ownership import FileLock

_WRITER_CACHE_KIB = 32 * 1024
_READER_CACHE_KIB = 4 * 1024
_LARGEST_IDLE_WAL = 64 << 20  # bytes; room beyond it after a burst is given back
_COPIED_PAGES = 512  # between two looks at signals
_READERS = 8  # connections that stay open; more are opened as needed


class SQLite(Database):
    """A database in a file."""

    is_remote = False
    placeholder = "?"

    def __init__(self, url: URL, folder: Path, busy_s: float) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise StoreError(f"{url}: no file is named; write sqlite:///path/to/betimes.db")
        self.path = Path(url.database).absolute()
        self._lock: FileLock | None = None
        self._looking = threading.Lock()
        self._looks_up: PoolProxiedConnection | None = None
        super().__init__(url.set(database=str(self.path)), str(self.path), folder, busy_s)

    def _engine(self, *, writes: bool) -> Engine:
        connect_args = {"timeout": self.busy_s, "check_same_thread": False}
        if writes:
            return create_engine(
                self.url, isolation_level="AUTOCOMMIT", connect_args=connect_args, poolclass=NullPool
            )
        return create_engine(
            self.url,
            isolation_level="AUTOCOMMIT",
            connect_args=connect_args,
            poolclass=QueuePool,
            pool_size=_READERS,
            max_overflow=-1,
        )

    def _prepare(self, driver: sqlite3.Connection, *, writes: bool) -> None:
        driver.isolation_level = None
        cursor = driver.cursor()
        cursor.execute("PRAGMA temp_store = MEMORY")
        if not writes:
            cursor.execute("PRAGMA query_only = ON")
            cursor.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
            cursor.close()
            return
        (mode,) = cursor.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"{self.path}: its disk does not support SQLite's write-ahead log, as network shares do not; "
                "use a local disk"
            )
        cursor.execute("PRAGMA synchronous = FULL")  # a commit is on the disk when it returns
        cursor.execute("PRAGMA fullfsync = ON")  # on macOS fsync alone leaves it in the drive's cache
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA journal_size_limit = {_LARGEST_IDLE_WAL}")
        cursor.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
        cursor.close()

    def own(self) -> None:
        """Lock the database and connect the writer; raises StoreInUse where another service has it."""
        with self.faults.translated():
            # Beside the lock of the state directory: the database may be in another one's, and this path a link to it.
            path = self.path.resolve()
            self._lock = FileLock(path.with_name(f"{path.name}.lock"), str(self.path), self.folder)
            self._create(path)
            self._writer = self._writers.connect()

    def _create(self, path: Path) -> None:
        """Make the file, readable by its owner only: specifications may hold secrets. It has one name: by each, SQLite
        would keep another log.
        """
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if path.stat().st_nlink > 1:
            raise StoreError(
                f"{self.path}: has a second hard link, by which another service could open it; remove that link"
            )
        sync(path.parent)

    def keep_copy(self, version: str) -> Path:
        """Copy the file; the copy is whole, or not there."""
        target = self.path.with_name(f"{self.path.name}.{version}")
        draft = target.with_name(f".{target.name}.part")
        draft.unlink(missing_ok=True)
        copy_database(self.path, draft)
        draft.replace(target)
        sync(target.parent)
        return target

    def _begin(self, cursor: sqlite3.Cursor) -> None:
        cursor.execute("BEGIN IMMEDIATE")

    def _undo(self, driver: sqlite3.Connection) -> None:
        if driver.in_transaction:  # a full disk has ended it already
            driver.rollback()

    def look_up(self, sql: str, parameters: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Likewise, on a connection kept for this: one from the pool takes four times as long."""
        with self._looking, self.faults.translated():
            if self._is_closed:
                return super().look_up(sql, parameters)
            if self._looks_up is None:
                self._looks_up = self._readers.raw_connection()
            cursor = self._looks_up.cursor()
            try:
                cursor.execute(sql, parameters)
                return cursor.fetchone()
            finally:
                cursor.close()

    def close(self) -> None:
        """Give up ownership and every connection."""
        super().close()
        with self._looking:
            if self._looks_up is not None:
                self._looks_up.invalidate()
                self._looks_up = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def copy_database(path: Path, target: Path) -> None:
    """Copy a database as of one instant to a new file, readable by its owner only; nobody who writes to it waits.

    Raises sqlite3.Error, OSError.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with (
        closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.execute("PRAGMA query_only = ON")
        # Without a transaction that holds this instant, each commit of another process begins the copy anew.
        source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        source.backup(copy, pages=_COPIED_PAGES)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    sync(target)


class InMemory(Database):
    """A database that ends with its process: one connection, which one thread uses at a time."""

    is_remote = False
    placeholder = "?"

    def __init__(self, folder: Path) -> None:
        self._using = threading.Lock()
        super().__init__(URL.create("sqlite"), "in memory", folder, 0.0)

    def _engine(self, *, writes: bool) -> Engine:
        return create_engine(
            self.url,
            isolation_level="AUTOCOMMIT",
            connect_args={"check_same_thread": False},
            poolclass=StaticPool,
        )

    def _prepare(self, driver: sqlite3.Connection, *, writes: bool) -> None:
        driver.execute("PRAGMA foreign_keys = ON").close()

    def own(self) -> None:
        """Make the database."""
        self._writer = self._writers.connect()

    def _begin(self, cursor: sqlite3.Cursor) -> None:
        cursor.execute("BEGIN")

    def _undo(self, driver: sqlite3.Connection) -> None:
        driver.rollback()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Likewise, while nobody reads."""
        with self._using, super().writing() as writer:
            yield writer

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The connection, while nobody writes."""
        with self._using, self.faults.translated():
            yield self.writer()
