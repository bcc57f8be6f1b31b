"""The tables that a service makes or finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, make_url, text

from betimes.errors import StoreError, StoreTooNew
from betimes.service.scheduling.job_states import Status
from betimes.service.store.databases import schema
from tests.service.store.conftest import Opening


def _engine(url: str) -> Engine:
    driver = "postgresql+psycopg" if url.startswith("postgresql") else "sqlite"
    return create_engine(make_url(url).set(drivername=driver))


def test_statuses_are_those_of_the_views() -> None:
    assert tuple(status for status in Status if not status.is_over) == schema.LIVE
    assert tuple(status for status in Status if status.is_over) == schema.OVER


def test_tables_that_cannot_all_be_made_leave_nothing_behind(opened: Opening, url: str) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    event.listen(schema.jobs, "after_create", fails)
    try:
        with pytest.raises(StoreError, match="No space left"):
            opened()
    finally:
        event.remove(schema.jobs, "after_create", fails)
    engine = _engine(url)
    tables = "sqlite_master" if engine.dialect.name == "sqlite" else "pg_stat_user_tables"
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT count(*) FROM {tables}")).scalar() == 0
    engine.dispose()
    assert opened().last_event_id() == 0


@pytest.mark.parametrize(
    ("version", "error", "message"),
    [
        ("9999", StoreTooNew, r"newer version of Betimes .*9999"),
        ("0003", StoreError, r"unreleased version of Betimes .*0003.* another database and state directory"),
    ],
)
def test_a_database_of_another_version_is_left_alone(
    opened: Opening, url: str, version: str, error: type[StoreError], message: str
) -> None:
    opened().close()
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(schema.version.update().values(version_num=version))
    engine.dispose()
    with pytest.raises(error, match=message):
        opened()


def test_tables_of_another_program_are_left_alone(opened: Opening, url: str, folder: Path) -> None:
    folder.mkdir()
    engine = _engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE jobs (id INTEGER)"))
    engine.dispose()
    with pytest.raises(StoreError, match="another program"):
        opened()
