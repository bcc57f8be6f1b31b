"""Databases that older versions have written, one file a version: upgraded whole, or left as they were."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, delete, inspect, make_url, text

from betimes.errors import StoreError
from betimes.service.scheduling.fold import recovered
from betimes.service.store import Store, default_url
from betimes.service.store.databases import schema, upgrades

KEPT = {path.name[8:12]: path for path in Path(__file__).with_name("kept").iterdir()}


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def version_of(path: Path) -> str:
    return next(line for line in dump(path) if line.startswith('INSERT INTO "betimes_version"')).split("'")[1]


def tables(url: str) -> dict[str, tuple[list[Any], ...]]:
    """Columns, keys and indexes, in words of SQLAlchemy."""
    driver = "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"
    engine = create_engine(make_url(url).set(drivername=driver))
    found = inspect(engine)
    try:
        return {
            name: (
                [
                    (each["name"], str(each["type"]), each["nullable"], each["default"])
                    for each in found.get_columns(name)
                ],
                found.get_pk_constraint(name)["constrained_columns"],
                sorted((each["name"] or "", each["column_names"]) for each in found.get_indexes(name)),
            )
            for name in found.get_table_names()
        }
    finally:
        engine.dispose()


@pytest.fixture(params=sorted(KEPT))
def old(request: pytest.FixtureRequest, folder: Path) -> Path:
    """A state directory with the database of an older version."""
    folder.mkdir()
    (folder / "betimes.db").write_bytes(gzip.decompress(KEPT[request.param].read_bytes()))
    return folder


def test_a_database_of_every_version_before_is_kept() -> None:
    assert sorted(KEPT) == sorted(upgrades.UPGRADES)


def test_an_old_database_is_upgraded_and_kept(old: Path, tmp_path: Path) -> None:
    database = old / "betimes.db"
    before, version = dump(database), version_of(database)
    Store.open(default_url(tmp_path / "new"), tmp_path / "new").close()
    store = Store.open(default_url(old), old, as_copy=True)
    try:
        ledger = recovered(None, store.each_event())
        assert {number: job.status.value for number, job in ledger.jobs.items()} == {7: "held", 8: "running"}
        assert ledger.over[3] == "failed"
        assert store.job(2) is not None
        assert store.last_event_id() == 60
    finally:
        store.close()
    assert tables(default_url(old)) == tables(default_url(tmp_path / "new"))
    assert dump(old / f"betimes.db.{version}") == before
    assert (old / f"betimes.db.{version}").stat().st_mode & 0o077 == 0
    Store.open(default_url(old), old).close()  # once is enough


def test_an_upgrade_that_fails_changes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: Connection) -> None:
        connection.execute(delete(schema.events))
        raise OSError(28, "No space left on device")

    before = dump(old / "betimes.db")
    monkeypatch.setitem(upgrades.UPGRADES, max(KEPT), fails)
    with pytest.raises(StoreError, match="No space left"):
        Store.open(default_url(old), old, as_copy=True)
    assert dump(old / "betimes.db") == before
    monkeypatch.undo()
    Store.open(default_url(old), old, as_copy=True).close()


def test_tables_on_postgresql_are_upgraded_alike(postgres_url: str, old: Path, tmp_path: Path) -> None:
    Store.open(postgres_url, tmp_path / "state").close()
    new, then = tables(postgres_url), tables(default_url(old))
    engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:  # back to what it was
        for name, (columns, *_) in new.items():
            if name not in then:
                connection.execute(text(f"DROP TABLE {name}"))
                continue
            for column in {each[0] for each in columns} - {each[0] for each in then[name][0]}:
                connection.execute(text(f"ALTER TABLE {name} DROP COLUMN {column}"))
        connection.execute(schema.version.update().values(version_num=version_of(old / "betimes.db")))
    engine.dispose()
    Store.open(postgres_url, tmp_path / "state").close()
    assert {name: sorted(each[0]) for name, each in tables(postgres_url).items()} == {
        name: sorted(each[0]) for name, each in new.items()
    }
