"""The migrations arrive at the tables that the code works with, from every revision, and keep the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, make_url, text

from betimes.errors import StoreError, StoreTooNew
from betimes.service.scheduling.jobs.job_states import Status
from betimes.service.store import Store, default_url
from betimes.service.store.databases import schema
from betimes.service.store.opening import MIGRATIONS, configuration
from betimes.service.store.renamed_kinds import RENAMED
from betimes.service.views.models import JobFilter
from tests.service.store.conftest import Opening
from tests.service.store.rows import event, job


def _engine(url: str) -> Engine:
    driver = "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"
    return create_engine(make_url(url).set(drivername=driver))


def test_migrated_tables_are_those_of_the_code(opened: Opening, url: str) -> None:
    opened().close()
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            options = {
                "version_table": schema.VERSION_TABLE,
                "compare_type": True,
                "compare_server_default": _another_default,
            }
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, schema.metadata) == []
    finally:
        engine.dispose()


def _another_default(_context: Any, _found: Any, column: Any, found: str | None, *_: Any) -> bool | None:
    """Alembic asks PostgreSQL whether two documents are equal, which it cannot say of `json`."""
    if column.type is not schema.DOCUMENT or found is None or column.server_default is None:
        return None
    return str(column.server_default.arg) != found.removesuffix("::json").strip("'")


def test_migrated_tables_are_to_the_word_those_of_the_code(folder: Path, tmp_path: Path) -> None:
    """SQLite keeps the statements that made a table: with strictness, defaults, and the conditions of indexes."""
    Store.open(default_url(folder), folder).close()
    migrated, direct = _engine(default_url(folder)), _engine(f"sqlite:///{tmp_path / 'direct.db'}")
    try:
        schema.metadata.create_all(direct)
        assert _statements(migrated) == _statements(direct)
    finally:
        migrated.dispose()
        direct.dispose()


def _statements(engine: Engine) -> dict[str, list[str]]:
    with engine.connect() as connection:
        query = text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name != :version")
        found = connection.execute(query, {"version": schema.VERSION_TABLE})
        # Constraints stand after the columns, in any order.
        return {name: sorted(line.strip().rstrip(",") for line in sql.splitlines()) for name, sql in found}


def test_revisions_are_those_of_the_scripts() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == schema.REVISIONS


def test_statuses_are_those_of_the_views() -> None:
    assert tuple(status for status in Status if not status.is_over) == schema.LIVE
    assert tuple(status for status in Status if status.is_over) == schema.OVER


def test_a_database_of_the_first_revision_is_brought_up_to_date_with_its_rows(
    opened: Opening, url: str, folder: Path
) -> None:
    from alembic import command

    folder.mkdir()
    engine = _engine(url)
    row = job(41, labels={"team": "vision", "run": "a"}, status="finished", array_id=40)
    with engine.begin() as connection:
        command.upgrade(configuration(connection), "0001")
        columns = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join(f":{name}" for name in row)
        values = {
            name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()
        }
        connection.execute(text(f"INSERT INTO jobs ({columns}) VALUES ({marks})"), values)
        connection.execute(
            text("INSERT INTO events VALUES (1, 1700000001.0, 'submitted', 'user:ada', 41, NULL, :data)"),
            {"data": '{"x":0.1}'},
        )
        for number, kind in enumerate(RENAMED, start=2):
            connection.execute(
                text("INSERT INTO events VALUES (:number, 1700000001.0, :kind, 'user:ada', 41, NULL, '{}')"),
                {"number": number, "kind": kind},
            )
    engine.dispose()
    store = opened()
    first, *others = store.events()
    assert first == event(1, job=41, x=0.1)
    assert [each.kind for each in others] == list(RENAMED.values())
    found = store.jobs(JobFilter(label={"team": "vision"}))
    assert [{name: one[name] for name in row} for one in found] == [row]
    assert store.jobs(JobFilter(label={"run": "a"}, array_id=40)) == found


def test_a_migration_that_fails_leaves_nothing_behind(
    opened: Opening, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import op

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(op, "create_index", fails)
        with pytest.raises(StoreError, match="No space left"):
            opened()
    engine = _engine(url)
    tables = "sqlite_master" if engine.dialect.name == "sqlite" else "pg_stat_user_tables"
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT count(*) FROM {tables}")).scalar() == 0
    engine.dispose()
    assert opened().last_event_id() == 0


def test_a_database_of_a_later_version_is_left_alone(opened: Opening, url: str) -> None:
    opened().close()
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(StoreTooNew, match=r"newer version of Betimes .*9999"):
        opened()


def test_tables_of_another_program_are_left_alone(opened: Opening, url: str, folder: Path) -> None:
    folder.mkdir()
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE jobs (id INTEGER)"))
    engine.dispose()
    with pytest.raises(StoreError, match="another program"):
        opened()
