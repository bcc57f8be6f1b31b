"""What every test of the service keeps to: no SQLite connection is left to the garbage collector."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import dbapi2
from typing import Any

import pytest

from betimes.foresight.intervals import Intervals
from betimes.service.scheduling.state import SchedulerState
from betimes.service.store import Store
from tests.service.declared import undeclared
from tests.service.reliability.starting import end_starters


@pytest.fixture(autouse=True, scope="session")
def starters() -> Iterator[None]:
    """The processes that fork real services for tests end with the last test."""
    yield
    end_starters()


@pytest.fixture(autouse=True)
def sqlite_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[sqlite3.Connection]]:
    """The open connections; a test that leaves one open fails. Python itself warns since 3.13 only, and late."""
    still_open: list[sqlite3.Connection] = []

    class Counted(sqlite3.Connection):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            still_open.append(self)

        def close(self) -> None:
            super().close()
            if self in still_open:
                still_open.remove(self)

    connect = functools.partial(sqlite3.connect, factory=Counted)
    for module in (sqlite3, dbapi2):  # the second is SQLAlchemy's
        monkeypatch.setattr(module, "connect", connect)
    yield still_open
    left = [connection.execute("PRAGMA database_list").fetchone()[2] for connection in still_open]
    for connection in still_open.copy():
        connection.close()
    assert left == [], "SQLite connections were left open"


@pytest.fixture(autouse=True)
def stores_in_memory(
    sqlite_connections: list[sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The stores in memory that a test makes are closed after it."""
    made: list[Store] = []
    in_memory = Store.in_memory

    def kept(folder: str | Path) -> Store:
        made.append(in_memory(folder))
        return made[-1]

    monkeypatch.setattr(Store, "in_memory", kept)
    yield
    for store in made:
        store.close()


@pytest.fixture(autouse=True)
def declared_events(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every event that a test has logged has the fields that its kind declares."""
    found: set[str] = set()
    log = SchedulerState.log

    def checked(
        state: SchedulerState,
        kind: str,
        cause: str,
        job: int | None = None,
        node: str | None = None,
        **data: Any,
    ) -> Any:
        if (fault := undeclared(kind, data)) is not None:
            found.add(fault)
        return log(state, kind, cause, job, node, **data)

    monkeypatch.setattr(SchedulerState, "log", checked)
    yield
    assert not found, f"other fields than are declared: {sorted(found)}"


@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process loads a library, for seconds, and fits the intervals of promises, which no decision rests on.

    `test_promises` looks at the fits.
    """
    monkeypatch.setattr(Intervals, "next_due", lambda *_: None)
