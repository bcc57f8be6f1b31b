"""PostgreSQL: ownership is an advisory lock of the writer's session; a lost connection is made again."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, NullPool, QueuePool, create_engine

from betimes.errors import StoreError, StoreInUse, StoreUnreachable
from betimes.service.store.databases.database import Database

_LOCK_CLASS = int.from_bytes(b"beti", "big")  # of the advisory lock; the schema's name is the rest of its key
_LOCK_KEY = f"{_LOCK_CLASS}, hashtext(current_schema())"
_LINGER_S = 2.0  # how long the session of a service that was killed may take to end
_POLL_S = 0.05
_CONNECT_S = 10
_NEEDED_VERSION = 13_00_00
_OPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        # A vanished host must not own the database for hours.
        "tcp_keepalives_idle=30",
        "tcp_keepalives_interval=10",
        "tcp_keepalives_count=3",
        "timezone=UTC",
    )
)
_READERS = 8


class Postgres(Database):
    """A database on a server."""

    is_remote = True
    placeholder = "%s"

    def __init__(self, url: URL, folder: Path, busy_s: float) -> None:
        name = url.render_as_string(hide_password=True)
        self._doubt: str | None = None  # the transaction whose commit was not answered
        self._transaction = ""
        super().__init__(url.set(drivername="postgresql+psycopg"), name, folder, busy_s)

    def _engine(self, *, writes: bool) -> Engine:
        role = "writer" if writes else "reader"
        connect_args = {
            "application_name": f"betimes {role} {os.getpid()} {socket.gethostname()}"[:63],
            "connect_timeout": _CONNECT_S,
            "client_encoding": "utf8",  # also of a database without an encoding, whose texts would come as bytes
            "keepalives_idle": 30,
            "options": f"{self.url.query.get('options', '')} {_OPTIONS}",
        }
        url = self.url.difference_update_query(["options"])
        common: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "paramstyle": "format"}
        try:
            if writes:
                return create_engine(url, poolclass=NullPool, connect_args=connect_args, **common)
            return create_engine(
                url,
                poolclass=QueuePool,
                pool_size=_READERS,
                max_overflow=_READERS,
                pool_pre_ping=True,  # a server that was restarted costs no reader an error
                connect_args=connect_args,
                **common,
            )
        except ModuleNotFoundError as error:
            raise StoreError(
                f"{self.name}: PostgreSQL needs psycopg, which is missing; pip install 'betimes[postgres]'"
            ) from error

    def _prepare(self, driver: Any, *, writes: bool) -> None:
        from psycopg.types.string import TextLoader

        driver.autocommit = True
        driver.adapters.register_loader("json", TextLoader)  # the column's type parses them
        if not writes:
            driver.execute("SET default_transaction_read_only = on")
            return
        driver.execute(f"SET lock_timeout = {int(self.busy_s * 1000)}")
        # A server may be set to answer before a commit is on its disk; an accepted job may not be.
        driver.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )

    def own(self) -> None:
        """Connect the writer and take the advisory lock; raises StoreInUse where another session has it."""
        with self.faults.translated():
            writer = self._writers.connect()
            driver: Any = writer.connection.driver_connection
            try:
                if driver.info.server_version < _NEEDED_VERSION:
                    raise StoreError(f"{self.name}: needs PostgreSQL {_NEEDED_VERSION // 10_000} or newer")
                self._take(driver)
            except BaseException:
                writer.close()
                raise
            self._writer = writer

    def _take(self, driver: Any) -> None:
        until = time.monotonic() + _LINGER_S
        while not driver.execute(f"SELECT pg_try_advisory_lock({_LOCK_KEY})").fetchone()[0]:
            if time.monotonic() >= until:
                raise StoreInUse(
                    f"{self.name}: in use by {self._holder(driver)}; "
                    "stop that one, or start with another --service and --database"
                )
            time.sleep(_POLL_S)

    def _holder(self, driver: Any) -> str:
        found = driver.execute(
            "SELECT application_name, backend_start FROM pg_stat_activity JOIN pg_locks USING (pid) "
            "WHERE locktype = 'advisory' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database()) "
            f"AND classid = {_LOCK_CLASS} AND objid::bigint = hashtext(current_schema())::bigint & 4294967295"
        ).fetchone()
        if found is None or len(words := found[0].split()) < 4:
            return "another session"
        since = found[1].isoformat(timespec="seconds")
        (has_tables,) = driver.execute("SELECT to_regclass('meta') IS NOT NULL").fetchone()
        home = has_tables and driver.execute("SELECT value FROM meta WHERE name = 'store.home'").fetchone()
        where = f" (state in {json.loads(home[0])['directory']})" if home else ""
        return f"the service with pid {words[2]} on {words[3]}, since {since}{where}"

    def writer(self) -> Any:
        """The connection that writes: made again if lost, with the ownership."""
        if self._writer is not None and self._is_lost():
            self._drop()
            self.own()
        return super().writer()

    def _is_lost(self) -> bool:
        assert self._writer is not None
        if self._writer.closed or self._writer.invalidated:
            return True
        driver: Any = self._writer.connection.driver_connection
        return driver is None or driver.closed

    def _drop(self) -> None:
        assert self._writer is not None
        if not self._writer.closed:
            self._writer.invalidate()
            self._writer.close()

    def _begin(self, cursor: Any) -> None:
        cursor.execute("BEGIN; SELECT pg_current_xact_id()::text")
        cursor.nextset()
        self._transaction = cursor.fetchone()[0]

    def _began(self) -> Any:
        """A transaction that has begun. A connection lost meanwhile is made again: nothing was on its way."""
        from psycopg import Error

        try:
            return super()._began()
        except Error:
            if not self._is_lost():
                raise
        return super()._began()

    def _commit(self, driver: Any) -> None:
        from psycopg import Error

        try:
            driver.commit()
        except Error:
            if not driver.closed:
                raise
            self._doubt = self._transaction
            if not self.settle():
                raise

    def settle(self) -> bool:
        """Whether the commit whose answer was lost has been written; connects again to ask."""
        if self._doubt is None:
            return False
        # The writer owns the database again, so the session that was cut off has ended, one way or the other.
        driver: Any = self.writer().connection.driver_connection
        (status,) = driver.execute("SELECT pg_xact_status(%s::xid8)", (self._doubt,)).fetchone()
        if status == "in progress":
            raise StoreUnreachable(
                f"{self.name}: transaction {self._doubt} is still open; try the same again"
            )
        self._doubt = None
        return status == "committed"

    def _undo(self, driver: Any) -> None:
        if not driver.closed:
            driver.rollback()
