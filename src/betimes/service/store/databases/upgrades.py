"""Tables as this version needs them: made in an empty database, brought up to date in that of an older version.

A change of the tables is a new `schema.VERSION`, an entry of UPGRADES under the version before it, and a database of
that version in `tests/service/store/kept`: every one there has to come out with the tables that an empty one is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import DDL, Column, Connection, insert, inspect, select, update
from sqlalchemy.schema import CreateColumn

from betimes.errors import StoreError, StoreTooNew
from betimes.service.store.databases import schema
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.schema import Checked

log = logging.getLogger(__name__)


def _to_0007(connection: Connection) -> None:
    """Tokens have a name, and instants."""
    _add_column(connection, "tokens", "name", schema.TEXT)
    for name in ("made_at", "expires_at", "used_at", "revoked_at"):
        _add_column(connection, "tokens", name, schema.NUMBER)


def _to_0008(connection: Connection) -> None:
    """Runs have the time for which they stood still, and jobs that for which their last run ran, as far as known."""
    for name in ("stood_s", "suspended_at"):
        _add_column(connection, "runs", name, schema.NUMBER)
    _add_column(connection, "jobs", "ran_s", schema.NUMBER)
    last = "SELECT ended_at - runs.started_at FROM runs WHERE runs.job_id = jobs.job_id AND number = jobs.attempt"
    connection.execute(DDL(f"UPDATE jobs SET ran_s = ({last})"))


def _to_0009(connection: Connection) -> None:
    """Events have a checksum, those that are added from now on."""
    _add_column(connection, "events", "checksum", schema.TEXT)


def _to_0010(connection: Connection) -> None:
    """Rented machines are charged for, from now on; runs have their units that are not on rented machines."""
    schema.charges.create(connection)
    _add_column(connection, "runs", "owned_units", schema.WHOLE)


def _to_0011(connection: Connection) -> None:
    """Jobs of a Slurm that is watched have the start that it planned for them first, from now on."""
    _add_column(connection, "jobs", "slurm_start_at", schema.NUMBER)


def _add_column(connection: Connection, table: str, name: str, kind: Checked) -> None:
    """Add a column, null in all rows. Its kind is named anew, as that of `schema` may change later."""
    column = CreateColumn(Column(name, kind)).compile(dialect=connection.dialect)
    connection.execute(DDL(f"ALTER TABLE {table} ADD COLUMN {column}"))


UPGRADES: dict[str, Callable[[Connection], None]] = {
    "0006": _to_0007,
    "0007": _to_0008,
    "0008": _to_0009,
    "0009": _to_0010,
    "0010": _to_0011,
}
"""By version: what makes the tables of the next one, within a transaction; on SQLite as on PostgreSQL."""


def bring_up_to_date(database: Database) -> None:
    """Make or upgrade the tables, all in one transaction, so that a failure leaves them as they were.

    A SQLite file is first copied beside itself, as betimes.db.VERSION. Raises what `check_version` raises, and
    StoreError where the tables are another program's.
    """
    with database.reading() as connection:
        there = set(inspect(connection).get_table_names())
        found = (
            connection.scalar(select(schema.version.c.version_num)) if schema.version.name in there else None
        )
    if found == schema.VERSION:
        return
    if found is None:
        if there & set(schema.metadata.tables):
            raise StoreError(
                f"{database.name}: holds tables of another program ({', '.join(sorted(there)[:5])}); "
                "give Betimes an empty database"
            )
        with database.writing() as connection:
            schema.metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(schema.version).values(version_num=schema.VERSION))
        return
    check_version(found, database.name)
    kept = database.keep_copy(found)
    with database.writing() as connection:
        for version in sorted(UPGRADES):
            if version >= found:
                UPGRADES[version](connection)
        connection.execute(update(schema.version).values(version_num=schema.VERSION))
    log.warning(
        "%s: its tables are now those of this version (%s, were %s)%s",
        database.name,
        schema.VERSION,
        found,
        f"; the database as it was is kept in {kept}" if kept is not None else "",
    )


def check_version(found: str, name: str) -> None:
    """Raise StoreTooNew for tables of a later version of Betimes, StoreError for those of an unreleased one."""
    if found > schema.VERSION:
        raise StoreTooNew(
            f"{name}: was written by a newer version of Betimes (its tables are {found}, "
            f"this version knows {schema.VERSION}); install the newer version"
        )
    if found != schema.VERSION and found not in UPGRADES:
        raise StoreError(
            f"{name}: was written by an unreleased version of Betimes (its tables are {found}, this version "
            f"knows {schema.VERSION}), which this one cannot read; let that version finish its jobs, and start this "
            "one with another database and state directory (betimes up --service DIR)"
        )
