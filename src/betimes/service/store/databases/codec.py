"""Rows as the database keeps them: every value checked and brought to its column's type, documents as JSON text."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Column, DefaultClause, Table

from betimes.errors import StoreDamaged, StoreRefused
from betimes.service.scheduling.event_log import Event
from betimes.service.store.batch import Row
from betimes.service.store.databases import schema

_LARGEST = 2**63 - 1
_UPLOAD = re.compile('"upload":"([0-9a-f]{64})"')
_MOST_SHOWN = 80  # characters of a value in a message


def _whole(value: Any) -> int:
    number = operator.index(value)  # also NumPy's integers, which SQLite would keep as bytes
    if not -_LARGEST <= number <= _LARGEST:
        raise ValueError("is beyond 64 bits")
    return number


def _number(value: Any) -> float:
    number = float(value) + 0.0  # SQLite keeps no minus zero, so that no store does
    if not math.isfinite(number):
        raise ValueError("is not finite; leave it out or give null")
    return number


def _text(value: Any) -> str:
    text = str.__str__(value)  # of an enumeration, its value
    if "\0" in text:
        raise ValueError("holds a NUL character")
    if not text.isascii():
        text.encode()  # half a surrogate pair is no text
    return text


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def _document(value: Any) -> str:
    return _encode(value)


def _bytes(value: Any) -> bytes:
    return bytes(value)


_KINDS: dict[int, Callable[[Any], Any]] = {
    id(schema.WHOLE): _whole,
    id(schema.NUMBER): _number,
    id(schema.TEXT): _text,
    id(schema.DOCUMENT): _document,
    id(schema.BYTES): _bytes,
}


def _default(column: Column[Any]) -> Any:
    if not isinstance(column.server_default, DefaultClause):
        return None
    text = str(column.server_default.arg)
    return int(text) if column.type is schema.WHOLE else text


class Codec:
    """How the rows of one table are written and read."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.name = table.name
        self.key = tuple(column.name for column in table.primary_key)
        self.columns = tuple(column.name for column in table.columns)
        self.nullable = frozenset(column.name for column in table.columns if column.nullable)
        self.required = frozenset(
            column.name for column in table.columns if not column.nullable and column.server_default is None
        )
        self.documents = tuple(
            at for at, column in enumerate(table.columns) if column.type is schema.DOCUMENT
        )
        self._encoders = {column.name: _KINDS[id(column.type)] for column in table.columns}
        self._blank = {column.name: _default(column) for column in table.columns}

    def encode(self, row: Row) -> Row:
        """A row as the database takes it; raises StoreRefused, naming row and column, where it cannot be kept."""
        encoders, nullable = self._encoders, self.nullable
        try:
            encoded = {
                name: None if value is None and name in nullable else encoders[name](value)
                for name, value in row.items()
            }
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            raise self._refusal(row) from None
        for name in self.key:
            if name not in encoded:
                raise StoreRefused(f"a row of {self.name} has no {name}")
        return encoded

    def merged(self, rows: Iterable[Row]) -> list[Row]:
        """Encoded rows, one a key: what several of one key come to when they act one after another."""
        merged: dict[Any, Row] = {}
        for row in rows:
            encoded = self.encode(row)
            key = self.key_of(encoded)
            earlier = merged.get(key)
            if earlier is None:
                merged[key] = encoded
            else:
                earlier.update(encoded)
        return list(merged.values())

    def key_of(self, row: Row) -> Any:
        """What tells a row from the others: a value, or a tuple of them."""
        return row[self.key[0]] if len(self.key) == 1 else tuple([row[name] for name in self.key])

    def blank(self) -> Row:
        """What the database puts into the columns of a new row that names none; encoded."""
        return dict(self._blank)

    def is_whole(self, row: Row) -> bool:
        """Whether the row may stand alone: it names every column that has no default."""
        return self.required <= row.keys()

    def check_new(self, row: Row) -> None:
        """Raise StoreRefused where the row is not whole."""
        missing = sorted(self.required - row.keys())
        if missing:
            raise StoreRefused(
                f"{self.describe(row)}: is not there yet, so the row must also name {', '.join(missing)}"
            )

    def describe(self, row: Row) -> str:
        """The row in a message: jobs 41."""
        return f"{self.name} {', '.join(str(row.get(name)) for name in self.key)}"

    def decode(self, found: Sequence[Sequence[Any]]) -> list[Row]:
        """Rows as users see them, from tuples of all columns in the table's order."""
        rows = [dict(zip(self.columns, values, strict=True)) for values in found]
        for at in self.documents:
            name = self.columns[at]
            for row, value in zip(rows, decode_documents([row[name] for row in rows]), strict=True):
                row[name] = value
        return rows

    def _refusal(self, row: Row) -> StoreRefused:
        for name, value in row.items():
            try:
                if name not in self._encoders:
                    raise ValueError(f"is no column of {self.name}")
                if value is None and name not in self.nullable:
                    raise ValueError("must not be null")
                if value is not None:
                    self._encoders[name](value)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                return StoreRefused(
                    f"{self.describe(row)}, column {name}: {_shown(value)} cannot be kept: {error}"
                )
        return StoreRefused(f"{self.describe(row)}: cannot be kept")


EVENTS = Codec(schema.events)
JOBS = Codec(schema.jobs)
RUNS = Codec(schema.runs)
QUOTES = Codec(schema.quotes)
NODES = Codec(schema.nodes)
ANSWERS = Codec(schema.answers)
TOKENS = Codec(schema.tokens)
SNAPSHOTS = Codec(schema.snapshots)
META = Codec(schema.meta)


def encode_event(event: Event) -> tuple[Any, ...]:
    """An event as a row of its table; raises StoreRefused where it cannot be kept."""
    job, node = event.job, event.node
    try:
        return (
            _whole(event.event_id),
            _number(event.at_s),
            _text(event.kind),
            _text(event.cause),
            None if job is None else _whole(job),
            None if node is None else _text(node),
            _encode(event.data) if event.data else "{}",
        )
    except (TypeError, ValueError, OverflowError, RecursionError):
        names = EVENTS.columns
        EVENTS.encode({name: getattr(event, name) for name in names})  # which says what is wrong
        raise


def decode_events(found: Sequence[Sequence[Any]]) -> list[Event]:
    """Events from tuples of all columns."""
    documents = decode_documents([row[6] for row in found])
    return [
        Event(row[0], row[1], row[2], row[3], row[4], row[5], document)
        for row, document in zip(found, documents, strict=True)
    ]


def uploads_in(spec: str) -> list[str]:
    """The SHA-256 of the directory that a job's specification names, as it is kept."""
    return _UPLOAD.findall(spec)


def decode_documents(texts: list[str | None]) -> list[Any]:
    """What each JSON text holds, null for null; parsed in one go, which takes a fraction of the time."""
    if not texts:
        return []
    try:
        return json.loads(f"[{','.join(['null' if text is None else text for text in texts])}]")
    except ValueError as error:
        raise StoreDamaged(
            f"the database is damaged: an entry is not JSON ({error}); restore it from a backup"
        ) from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
