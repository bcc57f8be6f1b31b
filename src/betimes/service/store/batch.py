"""A transaction's content: events, and the rows that they change."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from betimes.service.scheduling.events import Event

Row = dict[str, Any]
"""Column -> value, as in `schema`; documents (labels, spec, reason, places) as Python values."""
Answer = tuple[str, str, Any]  # user, idempotency key, a JSON value


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state after an event, from which recovery starts."""

    event_id: int  # the last event that it includes
    at_s: float  # seconds since 1970
    version: str  # of Betimes
    body: bytes

    def sha256(self) -> str:
        """The digest of all of it, to check that it is read back as written."""
        digest = hashlib.sha256(f"{self.event_id}\n{self.at_s!r}\n{self.version}\n".encode())
        digest.update(self.body)
        return digest.hexdigest()


def checksum_of(before: str, event: Event, data: str) -> str:
    """Of an event as it is stored and of the one before, so that a row that was changed is found. data: its text.

    before: the checksum of the event before; empty where that has none.
    """
    columns = (event.event_id, repr(event.at_s), event.kind, event.cause, event.job, event.node, data)
    text = "\0".join((before, *map(str, columns)))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(slots=True)
class Batch:
    """The content of one transaction.

    A row of `jobs`, `runs` or `nodes` changes the columns that it names and leaves the others; a row that is not
    there yet must name every column that has no default. Several rows of one key act one after another.
    """

    events: list[Event] = field(default_factory=list[Event])  # ids go on from the last one, without gaps
    jobs: list[Row] = field(default_factory=list[Row])  # by job_id
    runs: list[Row] = field(default_factory=list[Row])  # by job_id and number
    nodes: list[Row] = field(default_factory=list[Row])  # by name
    quotes: list[Row] = field(default_factory=list[Row])  # new ones only
    charges: list[Row] = field(default_factory=list[Row])  # new ones only
    answers: list[Answer] = field(default_factory=list[Answer])  # new ones only
    snapshot: Snapshot | None = None
    meta: dict[str, str] = field(default_factory=dict[str, str])
