"""Snapshots: the newest two sound ones are kept, and a damaged one is skipped."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, make_url, text

from betimes.errors import StoreRefused
from betimes.service.store import Batch, Snapshot, Store
from tests.service.store.conftest import Opening
from tests.service.store.rows import event, events


def snapshot(number: int, body: bytes = b"\0state") -> Snapshot:
    return Snapshot(number, 1_700_000_000.25, "0.3.0", body + str(number).encode())


def _damage(url: str, event_id: int, column: str = "body", value: object = b"other") -> None:
    driver = "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"
    engine = create_engine(make_url(url).set(drivername=driver))
    with engine.begin() as connection:
        statement = text(f"UPDATE snapshots SET {column} = :value WHERE event_id = :event_id")
        assert connection.execute(statement, {"value": value, "event_id": event_id}).rowcount == 1
    engine.dispose()


def test_the_newest_is_read_back(opened: Opening) -> None:
    store = opened()
    store.commit(Batch(events=[event(1)], snapshot=snapshot(1)))
    store.commit(Batch(events=[event(2), event(3)], snapshot=snapshot(2)))
    assert opened().latest_snapshot() == snapshot(2)


@pytest.mark.parametrize(
    ("column", "value"), [("body", b"other"), ("at_s", 5.0), ("version", "9"), ("sha256", "0")]
)
def test_a_damaged_one_is_skipped_and_named(store: Store, url: str, column: str, value: object) -> None:
    store.commit(Batch(events=[event(1)], snapshot=snapshot(1)))
    store.commit(Batch(events=[event(2)], snapshot=snapshot(2)))
    _damage(url, 2, column, value)
    assert store.latest_snapshot() == snapshot(1)
    assert store.damaged == [2]
    _damage(url, 1)
    assert store.latest_snapshot() is None
    assert store.damaged == [2, 1]


def test_two_sound_ones_are_kept(store: Store, url: str) -> None:
    for number in (1, 2, 3):
        store.commit(Batch(events=[event(number)], snapshot=snapshot(number)))
    _damage(url, 3)
    store.commit(Batch(events=[event(4)], snapshot=snapshot(4)))  # beside it the newest sound one, 2
    _damage(url, 4)
    assert store.latest_snapshot() == snapshot(2)
    assert store.damaged == [4]


def test_one_of_the_same_event_replaces_the_other(store: Store) -> None:
    store.commit(events(1, 2))
    store.commit(Batch(snapshot=snapshot(2, b"first")))
    store.commit(Batch(snapshot=snapshot(2, b"second")))
    assert store.latest_snapshot() == snapshot(2, b"second")


def test_one_of_events_to_come_is_refused(store: Store) -> None:
    with pytest.raises(StoreRefused, match="snapshot of event 2, but the last one is 1"):
        store.commit(Batch(events=[event(1)], snapshot=snapshot(2)))
    assert store.last_event_id() == 0
