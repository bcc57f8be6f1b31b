"""Closing a store closes its connections: also those that other threads read with, and those that are opened later."""

from __future__ import annotations

import sqlite3
import threading

from betimes.service.store import Store
from tests.service.store.rows import submission

Connections = list[sqlite3.Connection]


def test_closing_closes_the_writer_and_idle_readers(store: Store, sqlite_connections: Connections) -> None:
    store.commit(submission(1))
    assert store.last_event_id() == 1
    assert store.answer("ann", "key") is None
    store.close()
    assert sqlite_connections == []


def test_a_reader_that_is_busy_while_the_store_is_closed_gets_its_answer_and_closes(
    store: Store, sqlite_connections: Connections
) -> None:
    store.commit(submission(1))
    is_reading, is_closed = threading.Event(), threading.Event()
    found: list[object] = []

    def read() -> None:
        with store._database.reading() as connection:
            is_reading.set()
            is_closed.wait(10)
            found.append(connection.exec_driver_sql("SELECT count(*) FROM events").scalar())

    thread = threading.Thread(target=read)
    thread.start()
    assert is_reading.wait(10)
    store.close()
    is_closed.set()
    thread.join()
    assert found == [1]
    assert sqlite_connections == []


def test_a_question_to_a_closed_store_leaves_no_connection_open(
    store: Store, sqlite_connections: Connections
) -> None:
    store.commit(submission(1))
    store.close()
    assert [row["job_id"] for row in store.live_jobs()] == [1]
    assert store.answer("ann", "key") is None
    assert sqlite_connections == []
