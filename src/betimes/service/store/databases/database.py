"""A database: the one connection that writes, and a pool of connections that read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, event

from betimes.errors import StoreError
from betimes.service.store.databases.db_errors import Faults


class Database(ABC):
    """The differences of SQLite and PostgreSQL; `own` comes first, `close` last.

    url: of SQLAlchemy. name: for messages. folder: the state directory. busy_s: how long to wait for a lock, s.
    """

    is_remote: bool  # on a server, which may be away
    placeholder: str  # of a parameter, in the driver's words

    def __init__(self, url: URL, name: str, folder: Path, busy_s: float) -> None:
        self.url, self.name, self.folder, self.busy_s = url, name, folder, busy_s
        self.faults = Faults(name, folder)
        self._readers = self._engine(writes=False)
        self._writers = self._engine(writes=True)
        event.listen(self._readers, "connect", lambda driver, _: self._prepare(driver, writes=False))
        event.listen(self._writers, "connect", lambda driver, _: self._prepare(driver, writes=True))
        self._writer: Connection | None = None
        self._is_closed = False

    @abstractmethod
    def _engine(self, *, writes: bool) -> Engine:
        """An engine that begins no transaction by itself."""

    @abstractmethod
    def _prepare(self, driver: Any, *, writes: bool) -> None:
        """Set up a connection of the driver."""

    @abstractmethod
    def own(self) -> None:
        """Connect the writer and become the owner; raises StoreInUse if another service is."""

    @abstractmethod
    def _begin(self, cursor: Any) -> None:
        """Begin to write."""

    def _began(self) -> Any:
        """The writer's connection of the driver, in a transaction that has begun."""
        driver = self.writer().connection.driver_connection
        assert driver is not None
        cursor = driver.cursor()
        try:
            self._begin(cursor)
        except BaseException:
            self._undo(driver)
            raise
        finally:
            cursor.close()
        return driver

    @abstractmethod
    def _undo(self, driver: Any) -> None:
        """Leave a transaction that failed."""

    def _commit(self, driver: Any) -> None:
        """End a transaction so that it lasts."""
        driver.commit()

    def keep_copy(self, version: str) -> Path | None:
        """Copy the database, whose tables are of `version`, beside itself; None: only its server can."""
        return None

    def settle(self) -> bool:
        """Whether a commit whose answer was lost has been written; to be asked before the next one."""
        return False

    def writer(self) -> Connection:
        """The connection that writes."""
        if self._writer is None:
            raise StoreError(f"{self.name}: is closed; open the store again")
        return self._writer

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """The writer in a transaction, which is durable once the block has been left, and undone if it raises."""
        with self.faults.translated():
            driver = self._began()
            writer = self.writer()
            try:
                yield writer
                self._commit(driver)
                writer.commit()  # SQLAlchemy's own, which is of no transaction of the database
            except BaseException:
                self._undo(driver)
                writer.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from, for which the writer does not wait; closed afterwards if the database is."""
        pool = self._readers.pool
        try:
            with self.faults.translated(), self._readers.connect() as connection:
                yield connection
        finally:
            # `close` closes idle connections only. One that was in use goes back to a pool without other references,
            # and would stay open until garbage collection. Checked after its return: `close` has not seen it, then.
            if self._is_closed:
                pool.dispose()

    def look_up(self, sql: str, parameters: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The first row of a statement in the driver's words."""
        with self.reading() as connection:
            row = connection.exec_driver_sql(sql, parameters).first()
            return None if row is None else tuple(row)

    def close(self) -> None:
        """Give up ownership and every connection; those that are being read from close when they have been."""
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._writers.dispose()
        self._readers.dispose()
