"""A batch made ready before its transaction begins, and written inside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete

from betimes.errors import StoreInUse, StoreRefused
from betimes.service.store.batch import Batch, Row, Snapshot
from betimes.service.store.databases import schema
from betimes.service.store.databases.codec import (
    ANSWERS,
    EVENTS,
    JOBS,
    META,
    NODES,
    QUOTES,
    RUNS,
    SNAPSHOTS,
    Codec,
    encode_event,
)
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.statements import Statements, Step


@dataclass(frozen=True)
class Prepared:
    """What a transaction will do; equal for equal batches."""

    steps: list[Step]
    last_event: int  # once it has been written
    snapshot: int | None = field(default=None)  # the event of the snapshot in it


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


def new_rows(codec: Codec, rows: list[Row]) -> list[Row]:
    """Encoded rows to add; raises StoreRefused where two are of one key."""
    encoded = codec.merged(rows)
    if len(encoded) < len(rows):
        keys = [codec.key_of(codec.encode(row)) for row in rows]
        twice = next(row for at, row in enumerate(rows) if keys[at] in keys[:at])
        raise StoreRefused(f"{codec.describe(twice)}: twice in one batch")
    return encoded


def answer_rows(batch: Batch) -> list[Row]:
    """The rows of a batch's answers; their time is that of the batch's last event."""
    at_s = batch.events[-1].at_s if batch.events else None
    return [{"user": user, "key": key, "at_s": at_s, "body": body} for user, key, body in batch.answers]


def snapshot_row(snapshot: Snapshot) -> Row:
    """A snapshot's row, with its digest."""
    return SNAPSHOTS.encode(
        {
            "event_id": snapshot.event_id,
            "at_s": snapshot.at_s,
            "version": snapshot.version,
            "sha256": snapshot.sha256(),
            "body": snapshot.body,
        }
    )


def meta_rows(meta: dict[str, str]) -> list[Row]:
    """The rows of a batch's names and values."""
    return META.merged({"name": name, "value": value} for name, value in meta.items())


def prepare(batch: Batch, statements: Statements, last_event: int) -> Prepared:
    """Check and encode all of a batch; raises StoreRefused, having touched nothing."""
    last_event = numbered(batch, last_event)
    steps: list[Step] = []
    if batch.events:
        steps.append(Step(statements.event, [encode_event(event) for event in batch.events], EVENTS))
    if batch.jobs:
        jobs = JOBS.merged(batch.jobs)
        steps += statements.upserting(JOBS, jobs)
        steps += _label_steps(statements, jobs, batch.jobs)
    if batch.runs:
        steps += statements.upserting(RUNS, RUNS.merged(batch.runs))
    if batch.nodes:
        steps += statements.upserting(NODES, NODES.merged(batch.nodes))
    if batch.quotes:
        steps += statements.inserting(QUOTES, new_rows(QUOTES, batch.quotes))
    if batch.answers:
        steps += statements.inserting(ANSWERS, new_rows(ANSWERS, answer_rows(batch)))
    if batch.meta:
        steps += statements.upserting(META, meta_rows(batch.meta))
    if batch.snapshot is not None:
        steps += statements.upserting(SNAPSHOTS, [snapshot_row(batch.snapshot)])
    return Prepared(steps, last_event, None if batch.snapshot is None else batch.snapshot.event_id)


def run(steps: list[Step], cursor: Any, database: Database) -> None:
    """Write inside a transaction; raises StoreInUse where an event's number is taken, StoreRefused as told above."""
    for step in steps:
        try:
            cursor.executemany(step.sql, step.rows)
        except Exception as error:
            if step.codec is EVENTS and isinstance(database.faults.meaning(error), StoreRefused):
                raise StoreInUse(
                    f"{database.name}: another process writes to it (event {step.rows[0][0]} or a later one is "
                    "there already); stop this service, and find that process"
                ) from error
            raise
        if step.must_match and cursor.rowcount != len(step.rows):
            raise StoreRefused(
                f"{database.name}: {len(step.rows) - cursor.rowcount} of {len(step.rows)} rows of "
                f"{step.codec.name} that name only a part of the columns are not there yet; "
                f"a new row also names {', '.join(sorted(step.codec.required))}"
            )


def drop_snapshots(database: Database, written: int, kept: int) -> Step:
    """Remove all snapshots but two."""
    table = schema.snapshots
    compiled: Any = (
        delete(table)
        .where(table.c.event_id != bindparam("written"), table.c.event_id != bindparam("kept"))
        .compile(dialect=database.dialect)
    )
    values = {"written": written, "kept": kept}
    return Step(str(compiled), [tuple(values[name] for name in compiled.positiontup)], SNAPSHOTS)


def _label_steps(statements: Statements, jobs: list[Row], given: list[Row]) -> Iterator[Step]:
    """The labels again, one row each, so that jobs can be found by them."""
    labels: dict[int, dict[str, str]] = {row["job_id"]: row["labels"] for row in given if "labels" in row}
    if not labels:
        return
    named = [row["job_id"] for row in jobs if "labels" in row]
    yield Step(statements.drop_labels, [(job,) for job in named], JOBS)
    rows = [label for job in named for label in label_rows(job, labels[job])]
    if rows:
        yield Step(statements.label, rows, JOBS)


def label_rows(job: int, labels: Any) -> list[tuple[str, str, int]]:
    """Key, value and job of each label; raises StoreRefused where they are no texts."""
    if not isinstance(labels, dict) or not all(
        isinstance(part, str) and "\0" not in part for pair in labels.items() for part in pair
    ):
        raise StoreRefused(f"jobs {job}, column labels: {labels!r} is no table of texts")
    return [(str(key), str(value), job) for key, value in labels.items()]
