"""One service a database, and one a state directory; who comes second is told who was first."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from betimes.errors import StoreError, StoreInUse
from betimes.service.store import Batch, Store, default_url
from tests.service.store.rows import event, submission

HOLD = """
import sys, time
from betimes.service.store import Store
store = Store.open(sys.argv[1], sys.argv[2])
print("open", flush=True)
time.sleep(600)
"""


@contextmanager
def holding(url: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the store."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, url, str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_second_is_refused_until_the_first_is_killed(url: str, folder: Path, tmp_path: Path) -> None:
    another = tmp_path / "another"
    with holding(url, folder) as first:
        named = f"pid {first.pid} on {re.escape(socket.gethostname())}, since 20"
        for place in (folder, another):  # the same state directory; the same database from another one
            with pytest.raises(StoreInUse, match=named):
                Store.open(url, place)
        first.send_signal(signal.SIGKILL)
        first.wait()
        store = Store.open(url, folder)
        store.commit(submission(1))
        store.close()


def test_a_state_directory_has_one_service_whatever_its_database(folder: Path, tmp_path: Path) -> None:
    first = Store.open(default_url(folder), folder)
    with pytest.raises(StoreInUse, match=f"pid {os.getpid()} "):
        Store.open(f"sqlite:///{tmp_path / 'other.db'}", folder)
    first.close()
    Store.open(f"sqlite:///{tmp_path / 'other.db'}", folder).close()


def test_programs_that_the_service_starts_do_not_hold_the_lock(url: str, folder: Path) -> None:
    store = Store.open(url, folder)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        try:
            store.close()
            Store.open(url, folder).close()
        finally:
            child.kill()


def test_a_failed_opening_holds_nothing(folder: Path) -> None:
    folder.mkdir()
    path = folder / "betimes.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(Exception, match="no database"):
        Store.open(default_url(folder), folder)
    path.unlink()
    Store.open(default_url(folder), folder).close()


def test_an_event_that_somebody_else_wrote_stops_this_service(folder: Path) -> None:
    """The lock cannot help where the file was taken elsewhere; the numbers of events do."""
    import sqlite3

    store = Store.open(default_url(folder), folder)
    store.commit(submission(1))
    other = sqlite3.connect(folder / "betimes.db", isolation_level=None)
    other.execute("INSERT INTO events VALUES (2, 0.0, 'x', 'y', NULL, NULL, '{}', NULL)")
    other.close()
    with pytest.raises(StoreInUse, match=r"another process writes to it \(event 2 "):
        store.commit(Batch(events=[event(2)]))
    store.close()


def test_the_lock_is_of_the_file_whatever_name_it_is_given(folder: Path, tmp_path: Path) -> None:
    linked, another = tmp_path / "linked", tmp_path / "another"
    for place in (linked, another):
        place.mkdir()
    store = Store.open(default_url(folder), folder)
    (linked / "betimes.db").symlink_to(folder / "betimes.db")
    with pytest.raises(StoreInUse, match=rf"boot .*, state in {folder}"):
        Store.open(default_url(linked), linked)
    (another / "betimes.db").hardlink_to(folder / "betimes.db")
    with pytest.raises(StoreError, match="a second hard link"):
        Store.open(default_url(another), another)
    store.close()
