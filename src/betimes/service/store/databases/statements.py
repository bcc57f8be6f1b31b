"""The statements that write, compiled once for a database and given to its driver with plain tuples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from sqlalchemy import ClauseElement, bindparam, delete, insert, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect

from betimes.errors import StoreRefused
from betimes.service.store.batch import Row
from betimes.service.store.databases import schema
from betimes.service.store.databases.codec import Codec

Parameters = tuple[Any, ...]
Verb = Literal["insert", "upsert", "update"]
_OLD = "old_"  # before the name of a key's parameter where an update looks for its row


@dataclass(frozen=True, slots=True)
class Step:
    """A statement and the parameters of each of its rows."""

    sql: str
    rows: list[Parameters]
    codec: Codec
    must_match: bool = False  # every row has to be there already


class Statements:
    """Compiled statements, by table and by the columns that they name."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._upsert = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
        self._compiled: dict[
            tuple[str, Verb, tuple[str, ...]], tuple[str, Callable[[Row], Parameters], tuple[str, ...]]
        ] = {}
        columns = schema.events.columns
        self.event, _ = self._compile(
            insert(schema.events).values({c.name: bindparam(c.name) for c in columns})
        )
        labels = schema.job_labels.c
        self.drop_labels, _ = self._compile(
            delete(schema.job_labels).where(labels.job_id == bindparam("job_id"))
        )
        self.label, _ = self._compile(
            insert(schema.job_labels).values({c.name: bindparam(c.name) for c in schema.job_labels.columns})
        )

    def inserting(self, codec: Codec, rows: list[Row]) -> list[Step]:
        """Steps that add encoded rows, none of which may be there."""
        for row in rows:
            codec.check_new(row)
        return self._steps(codec, {"insert": rows})

    def upserting(self, codec: Codec, rows: list[Row]) -> list[Step]:
        """Steps that add encoded rows or change the columns that they name."""
        whole = [row for row in rows if codec.is_whole(row)]
        parts = [row for row in rows if not codec.is_whole(row)] if len(whole) < len(rows) else []
        return self._steps(codec, {"upsert": whole, "update": parts})

    def _steps(self, codec: Codec, by_verb: dict[Verb, list[Row]]) -> list[Step]:
        steps: list[Step] = []
        for verb, rows in by_verb.items():
            groups: dict[tuple[str, ...], list[Row]] = {}
            for row in rows:
                groups.setdefault(tuple(row), []).append(row)
            for names, group in groups.items():
                sql, parameters = self._statement(codec, verb, names)
                steps.append(Step(sql, [parameters(row) for row in group], codec, verb == "update"))
        return steps

    def _statement(
        self, codec: Codec, verb: Verb, names: tuple[str, ...]
    ) -> tuple[str, Callable[[Row], Parameters]]:
        found = self._compiled.get((codec.name, verb, names))
        if found is None:
            sql, order = self._compile(self._written(codec, verb, names))
            order = tuple(name.removeprefix(_OLD) for name in order)
            found = self._compiled[codec.name, verb, names] = sql, _parameters(order), order
        return found[0], found[1]

    def _written(self, codec: Codec, verb: Verb, names: tuple[str, ...]) -> ClauseElement:
        table = codec.table
        values = {name: bindparam(name, type_=table.c[name].type) for name in names}
        changed = [name for name in names if name not in codec.key]
        if verb == "insert":
            return insert(table).values(values)
        if not changed:
            raise StoreRefused(f"a row of {codec.name} names nothing but {', '.join(codec.key)}")
        if verb == "update":
            here = [table.c[name] == bindparam(_OLD + name, type_=table.c[name].type) for name in codec.key]
            return update(table).where(*here).values({name: values[name] for name in changed})
        adding = self._upsert(table).values(values)
        return adding.on_conflict_do_update(
            index_elements=[table.c[name] for name in codec.key],
            set_={name: adding.excluded[name] for name in changed},
        )

    def _compile(self, statement: ClauseElement) -> tuple[str, tuple[str, ...]]:
        compiled: Any = statement.compile(dialect=self._dialect)
        return str(compiled), tuple(compiled.positiontup)


def _parameters(order: tuple[str, ...]) -> Callable[[Row], Parameters]:
    if len(order) == 1:
        return lambda row: (row[order[0]],)
    return itemgetter(*order)
