"""Snapshots: found by their digests; the one just written and the newest sound one before it are kept."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from betimes.service.store.batch import Snapshot
from betimes.service.store.databases import schema
from betimes.service.store.databases.database import Database

_TABLE = schema.snapshots.c


class Snapshots:
    """The snapshots of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.damaged: list[int] = []

    def latest(self) -> Snapshot | None:
        """The newest sound one; lists in `damaged` the events of those that were skipped."""
        self.damaged = []
        for snapshot, is_sound in self._newest_first():
            if is_sound:
                return snapshot
            self.damaged.append(snapshot.event_id)
        return None

    def kept_beside(self, event_id: int) -> int:
        """The event of the newest sound snapshot other than that of `event_id`; 0: there is none."""
        for snapshot, is_sound in self._newest_first():
            if is_sound and snapshot.event_id != event_id:
                return snapshot.event_id
        return 0

    def _newest_first(self) -> Iterator[tuple[Snapshot, bool]]:
        with self._database.reading() as connection:
            ids = connection.execute(select(_TABLE.event_id).order_by(_TABLE.event_id.desc())).scalars().all()
        for event_id in ids:
            with self._database.reading() as connection:
                found = connection.execute(
                    select(schema.snapshots).where(_TABLE.event_id == event_id)
                ).first()
            if found is not None:
                snapshot = Snapshot(found.event_id, found.at_s, found.version, bytes(found.body))
                yield snapshot, found.sha256 == snapshot.sha256()
