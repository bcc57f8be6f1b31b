"""A database found: whose it is, and how it comes to the tables of this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from betimes.errors import StoreError, StoreTooNew
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.schema import REVISIONS, VERSION_TABLE, metadata

MIGRATIONS = Path(__file__).with_name("migrations")


def bring_up_to_date(database: Database) -> None:
    """Make the tables, or migrate those of an earlier version, in one transaction.

    Raises StoreTooNew where a later version has been here, StoreError where the tables are another program's.
    """
    with database.reading() as connection:
        there = set(inspect(connection).get_table_names())
        version = _version(connection) if VERSION_TABLE in there else None
    if version == REVISIONS[-1]:
        return
    if version is None and there & set(metadata.tables):
        raise StoreError(
            f"{database.name}: holds tables of another program ({', '.join(sorted(there)[:5])}); "
            "give Betimes an empty database"
        )
    if version is not None and version not in REVISIONS:
        raise StoreTooNew(
            f"{database.name}: was written by a newer version of Betimes (its tables are {version}, "
            f"this version knows {REVISIONS[-1]}); install the newer version"
        )
    upgrade(database, REVISIONS[-1])


def upgrade(database: Database, revision: str) -> None:
    """Run the migrations up to `revision`: all of them, or none."""
    from alembic import command  # a third of a second, for nothing where the tables are up to date

    with database.migrating() as connection:
        command.upgrade(configuration(connection), revision)


def configuration(connection: Connection) -> Any:
    """Alembic's, for migrating over `connection`, inside the transaction that it is in."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings


def _version(connection: Connection) -> str | None:
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
