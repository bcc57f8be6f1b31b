"""Events that a disk or a hand has changed are found, and not read as if they were right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import StoreDamaged
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import recovered
from betimes.service.store import Store, default_url
from betimes.service.store.batch import Batch, Snapshot

COUNT = 6


def event(number: int, **changes: Any) -> Event:
    data = {"number": number, "message": "späť"}
    return replace(Event(number, 1.5 * number, "trouble", "executor", 7, "n-1", data), **changes)


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    folder.mkdir(exist_ok=True)
    store = Store.open(default_url(folder), folder)
    try:
        yield store
    finally:
        store.close()


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "betimes.db")) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A state directory with a few events, written by two services."""
    for first in (1, 4):
        with opened(tmp_path / "state") as store:
            store.commit(Batch(events=[event(number) for number in range(first, first + 3)]))
    return tmp_path / "state"


def test_what_was_written_is_read(kept: Path) -> None:
    with opened(kept) as store:
        expected = [event(number) for number in range(1, COUNT + 1)]
        assert list(store.each_event(page=2)) == expected
        assert list(store.each_event(4)) == expected[4:]
        store.check_log()
        assert store.damage is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET at_s = 4.625 WHERE event_id = 3",
        "UPDATE events SET kind = 'troublf' WHERE event_id = 3",
        "UPDATE events SET cause = 'user:bob' WHERE event_id = 3",
        "UPDATE events SET job = 6 WHERE event_id = 3",
        "UPDATE events SET job = NULL WHERE event_id = 3",
        "UPDATE events SET node = 'n-0' WHERE event_id = 3",
        "UPDATE events SET data = replace(data, '3', '1') WHERE event_id = 3",
        "UPDATE events SET data = '{' WHERE event_id = 3",
        "UPDATE events SET checksum = NULL WHERE event_id = 3",
        "UPDATE events SET checksum = replace(checksum, substr(checksum, 1, 1), 'x') WHERE event_id = 3",
        "UPDATE events SET data = (SELECT data FROM events WHERE event_id = 2) WHERE event_id = 3",
    ],
)
def test_an_event_that_was_changed_is_found(kept: Path, statement: str) -> None:
    change(kept, statement)
    with opened(kept) as store:
        with pytest.raises(StoreDamaged, match=r"event [34], or the one before, is not as it was written"):
            list(store.each_event())
        with pytest.raises(StoreDamaged):
            store.check_log()
        assert store.damage is not None


def test_the_link_to_events_before_a_snapshot_and_in_files_is_checked(kept: Path) -> None:
    with opened(kept) as store:
        store.commit(Batch(snapshot=Snapshot(4, 6.0, "1", b"{}")))
        store.archive(4)
        assert [each.event_id for each in store.each_event(4)] == [5, 6]
    with opened(kept) as store:  # all archived but these: the chain goes on
        store.commit(Batch(events=[event(7)]))
        assert [each.event_id for each in store.each_event(4)] == [5, 6, 7]
        store.commit(Batch(snapshot=Snapshot(7, 6.0, "1", b"{}")))
        store.archive(7)
    with opened(kept) as store:
        store.commit(Batch(events=[event(8)]))
        assert [each.event_id for each in store.each_event(7)] == [8]
    change(kept, "UPDATE meta SET value = 'other' WHERE name = 'store.archived_checksum'")
    with opened(kept) as store, pytest.raises(StoreDamaged):
        list(store.each_event(7))


def test_events_from_before_there_were_checksums_are_read_and_the_chain_starts_after_them(kept: Path) -> None:
    change(kept, "UPDATE events SET checksum = NULL")
    with opened(kept) as store:
        store.commit(Batch(events=[event(7), event(8)]))
        assert len(list(store.each_event())) == 8
    change(kept, "UPDATE events SET job = 6 WHERE event_id = 8")
    with opened(kept) as store, pytest.raises(StoreDamaged, match="event 8"):
        list(store.each_event())


def test_an_event_that_this_version_does_not_know_is_refused() -> None:
    with pytest.raises(StoreDamaged, match="event 1 is of no known kind"):
        recovered(None, [event(1, kind="troublf")])


@pytest.mark.parametrize("data", [{}, {"epoch_as": 3.0}])
def test_an_event_that_lacks_what_its_kind_needs_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(StoreDamaged, match=r"event 1 \(opened\) cannot be read \(KeyError: 'epoch_at'\)"):
        recovered(None, [event(1, kind="opened", job=None, node=None, data=data)])
