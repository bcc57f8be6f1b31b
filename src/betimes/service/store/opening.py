"""A database found: whose it is, and how it comes to the tables of this version."""

from __future__ import annotations

from sqlalchemy import insert, inspect, select

from betimes.errors import StoreError, StoreTooNew
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.schema import VERSION, metadata, version


def bring_up_to_date(database: Database) -> None:
    """Make the tables of an empty database, all in one transaction, or check that they are those of this version.

    Raises StoreTooNew where a later version has been here, StoreError where an unreleased one has, or where the tables
    are another program's.
    """
    with database.reading() as connection:
        there = set(inspect(connection).get_table_names())
        found = connection.scalar(select(version.c.version_num)) if version.name in there else None
    if found == VERSION:
        return
    if found is None and there & set(metadata.tables):
        raise StoreError(
            f"{database.name}: holds tables of another program ({', '.join(sorted(there)[:5])}); "
            "give Betimes an empty database"
        )
    if found is not None and found < VERSION:
        raise StoreError(
            f"{database.name}: was written by an unreleased version of Betimes (its tables are {found}, this version "
            f"knows {VERSION}), which this one cannot read; let that version finish its jobs, and start this one with "
            "another database and state directory (betimes up --state DIR)"
        )
    if found is not None:
        raise StoreTooNew(
            f"{database.name}: was written by a newer version of Betimes (its tables are {found}, "
            f"this version knows {VERSION}); install the newer version"
        )
    with database.writing() as connection:
        metadata.create_all(connection, checkfirst=False)
        connection.execute(insert(version).values(version_num=VERSION))
