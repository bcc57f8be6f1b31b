"""What goes wrong under the store: each has its own error, says what to do, and leaves nothing half written."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from betimes.errors import (
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreLocked,
    StoreReadOnly,
    StoreUnreachable,
)
from betimes.service.access.auth import KeptToken
from betimes.service.store import Batch, Store, default_url
from betimes.service.views.models import JobFilter
from tests.service.store.conftest import Opening, database
from tests.service.store.relay import Relay
from tests.service.store.rows import event, events, job, submission
from tests.service.store.sessions import end_sessions


def _large(number: int, characters: int = 200_000) -> Batch:
    return Batch(events=[event(number)], jobs=[job(number, spec={"command": ["x" * characters]})])


def _fill(store: Store, characters: int = 200_000) -> int:
    """Commit until there is no room; how many commits returned."""
    for number in range(1, 10_000):
        try:
            store.commit(_large(number, characters))
        except StoreFull:
            with pytest.raises(StoreFull, match=rf"{store.name}: no room is left .* free some"):
                store.commit(_large(number, characters))
            return number - 1
    raise AssertionError("there is always room")


def _whole(store: Store, upto: int) -> None:
    assert [one.event_id for one in store.events()] == list(range(1, upto + 1))
    assert [row["job_id"] for row in store.live_jobs()] == list(range(1, upto + 1))


def test_a_full_database(folder: Path) -> None:
    store = Store.open(default_url(folder), folder)
    pages = store._database.writer().connection.driver_connection  # type: ignore[union-attr]
    assert pages is not None
    pages.execute("PRAGMA max_page_count = 500")
    store.probe()
    count = _fill(store, 50_000)
    assert count > 0
    _whole(store, count)
    with pytest.raises(StoreFull):
        store.probe()
    pages.execute("PRAGMA max_page_count = 100000")
    store.probe()
    store.commit(_large(count + 1))
    store.close()
    store = Store.open(default_url(folder), folder)
    _whole(store, count + 1)
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("no mount here")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "betimes-test", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    folder = small_disk / "state"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    store = Store.open(default_url(folder), folder)
    count = _fill(store)
    assert count > 0
    _whole(store, count)
    with pytest.raises(StoreFull):
        store.commit(_large(count + 1))
    with pytest.raises(StoreFull, match=r"no room is left .* free some"):
        store.probe()
    ballast.unlink()
    store.probe()
    store.commit(_large(count + 1))
    store.close()
    store = Store.open(default_url(folder), folder)
    _whole(store, count + 1)
    store.close()


def test_a_full_disk_from_the_start(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(bytes(16 << 20))
    folder = small_disk / "state"
    with pytest.raises(StoreFull, match="room"):
        Store.open(default_url(folder), folder)
    ballast.unlink()
    Store.open(default_url(folder), folder).close()


def test_a_limit_on_the_size_of_files(folder: Path) -> None:
    store = Store.open(default_url(folder), folder)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    try:
        count = _fill(store)
        _whole(store, count)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    store.commit(_large(count + 1))
    store.close()
    store = Store.open(default_url(folder), folder)
    _whole(store, count + 1)
    store.close()


def _engine(url: str) -> Engine:
    driver = "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"
    return create_engine(make_url(url).set(drivername=driver), isolation_level="AUTOCOMMIT")


def test_a_locked_database(store: Store, url: str) -> None:
    store.commit(submission(1))
    engine = _engine(url)
    with engine.connect() as connection:
        is_sqlite = engine.dialect.name == "sqlite"
        connection.execute(text("BEGIN IMMEDIATE" if is_sqlite else "BEGIN"))
        if not is_sqlite:
            connection.execute(text("LOCK TABLE events IN EXCLUSIVE MODE"))
        with pytest.raises(StoreLocked, match="keeps it locked"):
            store.commit(submission(2))
        _whole(store, 1)  # readers are not kept waiting
        connection.execute(text("ROLLBACK"))
    engine.dispose()
    store.commit(submission(2))
    _whole(store, 2)


def test_readers_and_the_writer_do_not_wait_for_each_other(store: Store, url: str) -> None:
    store.commit(events(1, 2000))
    engine = _engine(url)
    with engine.connect() as connection:
        connection.execute(text("BEGIN"))
        assert connection.execute(text("SELECT count(*) FROM events")).scalar() == 2000
        store.commit(events(2001, 2002))  # while somebody is reading
        assert connection.execute(text("SELECT count(*) FROM events")).scalar() in (2000, 2002)
        connection.execute(text("COMMIT"))
    engine.dispose()


def test_many_readers_beside_a_writer_see_whole_commits(store: Store) -> None:
    wrong: list[Any] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            found = store.jobs(JobFilter(limit=1000))
            if len(found) % 5 or len({row["status"] for row in found}) > 1:
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for start in range(1, 101, 5):
        everyone = [{"job_id": number, "status": f"s{start}"} for number in range(1, start)]
        store.commit(Batch(jobs=[*everyone, *(job(start + at, status=f"s{start}") for at in range(5))]))
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_read_only_database(folder: Path) -> None:
    store = Store.open(default_url(folder), folder)
    store._database.writer().connection.driver_connection.execute("PRAGMA query_only = ON")  # type: ignore[union-attr]
    with pytest.raises(StoreReadOnly, match="let this user write"):
        store.commit(submission(1))
    assert store.events() == []
    store.close()


def test_a_read_only_server(store: Store, url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("SQLite has no server")
    driver = store._database.writer().connection.driver_connection
    assert driver is not None
    driver.execute("SET default_transaction_read_only = on")
    with pytest.raises(StoreReadOnly, match="name the primary"):
        store.commit(submission(1))
    driver.execute("SET default_transaction_read_only = off")
    store.commit(submission(1))


def test_a_damaged_database(folder: Path) -> None:
    store = Store.open(default_url(folder), folder)
    store.commit(events(1, 3000))
    store.close()
    path = folder / "betimes.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(StoreDamaged, match="restore the database"):
        Store.open(default_url(folder), folder)


def test_a_document_that_is_no_json(store: Store, url: str, folder: Path) -> None:
    if url != default_url(folder):
        pytest.skip("PostgreSQL takes none")
    store.commit(events(1, 3))
    connection = sqlite3.connect(folder / "betimes.db", isolation_level=None)
    connection.execute("UPDATE events SET data = '{' WHERE event_id = 2")
    connection.close()
    with pytest.raises(StoreDamaged, match="not JSON"):
        store.events()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://host/name", "mysql: not a kind of database that Betimes knows"),
        ("no address", "'no address' is not the address of a database"),
        ("sqlite://", "no file is named"),
        ("sqlite:///:memory:", "no file is named"),
        ("postgresql://betimes@/x?host=/nowhere", "no connection"),
        ("postgresql://u:hidden@localhost:1/x", r"u:\*\*\*@localhost:1/x: no connection"),
    ],
)
def test_an_address_that_leads_nowhere(folder: Path, address: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        Store.open(address, folder)


def test_a_lost_connection_is_made_again_unseen(postgres_url: str, folder: Path) -> None:
    store = Store.open(postgres_url, folder)
    store.commit(submission(1))
    end_sessions(postgres_url)
    store.commit(submission(2))
    end_sessions(postgres_url)
    _whole(store, 2)
    store.add_token(KeptToken("hash", "ada", "operator"))
    assert store.token("hash") == KeptToken("hash", "ada", "operator")
    store.close()


def test_a_database_that_knows_no_encoding_keeps_all_text(postgres_server: str, folder: Path) -> None:
    """As a server makes them that was set up under the locale C; psycopg then hands out bytes if not told otherwise."""
    with database(postgres_server, "ENCODING 'SQL_ASCII' TEMPLATE template0") as url:
        store = Store.open(url, folder)
        store.commit(submission(1))
        store.add_token(KeptToken("hash", "Åda Łoś", "operator"))
        store.close()
        again = Store.open(url, folder)
        assert again.token("hash") == KeptToken("hash", "Åda Łoś", "operator")
        _whole(again, 1)
        again.close()


def test_who_lost_the_database_to_another_stops(postgres_url: str, folder: Path, tmp_path: Path) -> None:
    store = Store.open(postgres_url, folder)
    store.commit(submission(1))
    end_sessions(postgres_url)
    other = Store.open(postgres_url, tmp_path / "other", as_copy=True)
    other.commit(submission(2))
    with pytest.raises(StoreInUse, match="in use by"):
        store.commit(submission(2))
    other.close()
    with pytest.raises(StoreInUse, match="another process"):
        store.commit(submission(2))
    store.close()


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("is_back", [True, False])
def test_a_commit_whose_answer_is_lost_is_written_once(
    postgres_url: str, folder: Path, tmp_path: Path, written: bool, is_back: bool
) -> None:
    """The connection is cut at COMMIT: after the server has got it, or before; and for a while, or for a moment."""
    with Relay(tmp_path, make_url(postgres_url).query["host"]) as relay:
        url = make_url(postgres_url).update_query_dict({"host": str(relay.folder)})
        store = Store.open(url.render_as_string(hide_password=False), folder)
        store.commit(submission(1))
        relay.cut_at_commit(pass_it_on=written, refuse_after=not is_back)
        if written and is_back:
            store.commit(submission(2))
        else:
            with pytest.raises(StoreUnreachable):
                store.commit(submission(2))
            relay.let_in()
            store.commit(submission(2))
        store.commit(submission(3))
        _whole(store, 3)
        assert len(store.quotes(2)) == 1
        store.close()


def test_waiting_for_a_lock_ends_when_it_is_given_up(url: str, folder: Path) -> None:
    if not url.startswith("sqlite"):
        pytest.skip("the same code waits in the server")
    store = Store.open(url, folder, busy_s=60)
    other = sqlite3.connect(folder / "betimes.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    def give_up() -> None:
        time.sleep(0.2)
        other.execute("ROLLBACK")

    thread = threading.Thread(target=give_up)
    thread.start()
    store.commit(submission(1))
    thread.join()
    other.close()
    _whole(store, 1)
    store.close()


def test_opened_again(opened: Opening) -> None:
    opened().commit(submission(1))
    store = opened()
    assert store.last_event_id() == 1
    store.commit(submission(2))
    _whole(store, 2)
