"""A batch, written inside a transaction.

Statements are SQLAlchemy's, compiled once and then given to the driver with plain tuples: executed by SQLAlchemy, a
submission takes the service a third more processor time (docs/notes/service.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from sqlalchemy import ClauseElement, Connection, Table, bindparam, delete, insert, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect

from betimes.errors import StoreInUse, StoreRefused
from betimes.service.scheduling.events import Event
from betimes.service.store.batch import Batch, Row, Snapshot, checksum_of
from betimes.service.store.databases import schema
from betimes.service.store.databases.database import Database

_MOST_SHOWN = 80  # characters of a value in a message


def numbered(batch: Batch, last_event: int) -> int:
    """The number of the newest event once `batch` is written; raises StoreRefused where the numbers do not go on."""
    for event in batch.events:
        last_event += 1
        if event.event_id != last_event:
            raise StoreRefused(
                f"event {event.event_id} ({event.kind}) where {last_event} is next: events go on without gaps, "
                "so another process wrote, or two commits are out of order; load again"
            )
    if batch.snapshot is not None and not 0 <= batch.snapshot.event_id <= last_event:
        raise StoreRefused(
            f"a snapshot of event {batch.snapshot.event_id}, but the last one is {last_event}; "
            "commit its events with it or before it"
        )
    return last_event


class Writer:
    """Writes rows inside a transaction of `database`, whose connection it is given.

    checksum: of the last event, which grows with each that is added; empty: that has none. Raises StoreRefused, naming
    row and column, for bad values.
    """

    def __init__(self, database: Database, connection: Connection, checksum: str = "") -> None:
        self._database, self._dialect, self.checksum = database, connection.dialect, checksum
        self._cursor = connection.connection.cursor()

    def write(self, batch: Batch) -> None:
        """All of a batch. Raises StoreInUse where an event's number is taken."""
        if batch.events:
            self._add_events(batch)
        if batch.jobs:
            self.upsert(schema.jobs, batch.jobs)
            self._write_labels(batch.jobs)
        self.upsert(schema.runs, batch.runs)
        self.upsert(schema.nodes, batch.nodes)
        self._add(schema.quotes, batch.quotes)
        self._add(schema.charges, batch.charges)
        at_s = batch.events[-1].at_s if batch.events else None
        answers = [
            {"user": user, "key": key, "at_s": at_s, "body": body} for user, key, body in batch.answers
        ]
        self._add(schema.answers, answers)
        self.upsert(schema.meta, [{"name": name, "value": value} for name, value in batch.meta.items()])
        if batch.snapshot is not None:
            self.upsert(schema.snapshots, [_snapshot_row(batch.snapshot)])

    def upsert(self, table: Table, rows: list[Row]) -> None:
        """Add rows, or change the columns that they name; several of one key act one after another."""
        key, required = _key(table), _required(table)
        merged: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            _check(table, row)
            if len(row) == len(key):
                raise StoreRefused(f"a row of {table.name} names nothing but {', '.join(key)}")
            at = tuple([row[name] for name in key])
            merged[at] = merged[at] | row if at in merged else row
        for names, group in _by_columns(list(merged.values())).items():
            if required.issubset(names):
                self._execute(table, _upserting, names, group)
            elif self._execute(table, _updating, names, group) != len(group):
                raise StoreRefused(
                    f"{self._database.name}: some of {len(group)} rows of {table.name} that name only a part of the "
                    f"columns are not there yet; a new row also names {', '.join(sorted(required))}"
                )

    def _add(self, table: Table, rows: list[Row]) -> None:
        """Add rows, none of which may be there."""
        for row in rows:
            _check(table, row)
        for names, group in _by_columns(rows).items():
            self._execute(table, _adding, names, group)

    def _add_events(self, batch: Batch) -> None:
        names = tuple(schema.events.c.keys())
        rows = [self._event_row(event) for event in batch.events]
        try:
            self._execute(schema.events, _adding, names, rows)
        except StoreRefused:
            raise
        except Exception as error:
            if not isinstance(self._database.faults.meaning(error), StoreRefused):
                raise
            raise StoreInUse(
                f"{self._database.name}: another process writes to it (event {rows[0]['event_id']} or a later one is "
                "there already); stop this service, and find that process"
            ) from error

    def _event_row(self, event: Event) -> Row:
        row: Row = {name: getattr(event, name) for name in _BEFORE_CHECKSUM}
        try:
            row["data"] = schema.Encoded(schema.DOCUMENT.check(event.data))
            kept = Event(**{**row, "at_s": schema.NUMBER.check(event.at_s)})
            self.checksum = row["checksum"] = checksum_of(self.checksum, kept, row["data"])
        except (TypeError, ValueError, OverflowError, RecursionError):
            _refuse_bad_value(schema.events, [{**row, "data": event.data}])
            raise
        return row

    def _write_labels(self, jobs: list[Row]) -> None:
        """The labels again, one row each, so that jobs can be found by them."""
        labels = {row["job_id"]: row["labels"] for row in jobs if "labels" in row}
        for job, found in labels.items():
            if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
                raise StoreRefused(f"jobs {job}, column labels: {found!r} is no table of texts")
        self._execute(schema.job_labels, _dropping, ("job_id",), [{"job_id": job} for job in labels])
        rows = [
            {"key": key, "value": value, "job_id": job}
            for job, found in labels.items()
            for key, value in found.items()
        ]
        self._execute(schema.job_labels, _adding, ("key", "value", "job_id"), rows)

    def _execute(
        self,
        table: Table,
        make: Callable[[Table, tuple[str, ...], Dialect], ClauseElement],
        names: tuple[str, ...],
        rows: list[Row],
    ) -> int:
        """Write rows of those columns; returns how many there were."""
        if not rows:
            return 0
        sql, order = _compiled(make, table, names, self._dialect)
        try:
            values = [
                tuple([None if row[name] is None else check(row[name]) for name, check in order])
                for row in rows
            ]
        except (TypeError, ValueError, OverflowError, RecursionError):
            _refuse_bad_value(table, rows)
            raise
        try:
            self._cursor.executemany(sql, values)
        except Exception as error:
            if isinstance(self._database.faults.meaning(error), StoreRefused):
                _refuse_bad_value(table, rows)
            raise
        return self._cursor.rowcount


_BEFORE_CHECKSUM = tuple(column.name for column in schema.events.c if column.name != "checksum")
_OLD = "old_"  # before the name of a key's parameter where an update looks for its row


def _adding(table: Table, names: tuple[str, ...], _: Dialect) -> ClauseElement:
    return insert(table).values({name: bindparam(name, type_=table.c[name].type) for name in names})


def _upserting(table: Table, names: tuple[str, ...], dialect: Dialect) -> ClauseElement:
    adding = (postgresql if dialect.name == "postgresql" else sqlite).insert(table)
    changed = {name: adding.excluded[name] for name in names if name not in _key(table)}
    values = {name: bindparam(name, type_=table.c[name].type) for name in names}
    return adding.values(values).on_conflict_do_update(index_elements=_key(table), set_=changed)


def _updating(table: Table, names: tuple[str, ...], _: Dialect) -> ClauseElement:
    values = {name: bindparam(name, type_=table.c[name].type) for name in names if name not in _key(table)}
    here = [table.c[name] == bindparam(_OLD + name, type_=table.c[name].type) for name in _key(table)]
    return update(table).where(*here).values(values)


def _dropping(table: Table, names: tuple[str, ...], _: Dialect) -> ClauseElement:
    return delete(table).where(*(table.c[name] == bindparam(name) for name in names))


@cache
def _compiled(
    make: Callable[[Table, tuple[str, ...], Dialect], ClauseElement],
    table: Table,
    names: tuple[str, ...],
    dialect: Dialect,
) -> tuple[str, list[tuple[str, Callable[[Any], Any]]]]:
    """A statement as its driver takes it, and the columns of its parameters in their order, each with its check."""
    compiled: Any = make(table, names, dialect).compile(dialect=dialect)
    order = [name.removeprefix(_OLD) for name in compiled.positiontup]
    return str(compiled), [(name, _checks(table)[name]) for name in order]


@cache
def _key(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


@cache
def _checks(table: Table) -> dict[str, Callable[[Any], Any]]:
    """By column: the conversion of a value to the stored one."""
    return {column.name: column.type.check for column in table.c if isinstance(column.type, schema.Checked)}


@cache
def _required(table: Table) -> frozenset[str]:
    """The columns that a new row names."""
    return frozenset(c.name for c in table.c if not c.nullable and c.server_default is None)


def _snapshot_row(snapshot: Snapshot) -> Row:
    return {
        "event_id": snapshot.event_id,
        "at_s": snapshot.at_s,
        "version": snapshot.version,
        "sha256": snapshot.sha256(),
        "body": snapshot.body,
    }


def _by_columns(rows: list[Row]) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    return groups


def _check(table: Table, row: Row) -> None:
    for name in _key(table):
        if row.get(name) is None:
            raise StoreRefused(f"a row of {table.name} has no {name}")
    strangers = row.keys() - _checks(table).keys()
    if strangers:
        raise StoreRefused(
            f"{_named(table, row)}, column {', '.join(sorted(strangers))}: there is no column of that name"
        )


def _refuse_bad_value(table: Table, rows: list[Row]) -> None:
    """Raise StoreRefused for the first value that its column cannot keep: a statement's error does not name it."""
    for row in rows:
        for column in table.c:
            if column.name not in row:
                continue
            value = row[column.name]
            try:
                if value is None and not column.nullable:
                    raise ValueError("must not be null")
                if value is not None:
                    _checks(table)[column.name](value)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                text = repr(value)
                shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
                raise StoreRefused(
                    f"{_named(table, row)}, column {column.name}: {shown} cannot be kept: {error}"
                ) from None


def _named(table: Table, row: Row) -> str:
    """The row in a message: jobs 41."""
    return f"{table.name} {', '.join(str(row.get(name)) for name in _key(table))}"
