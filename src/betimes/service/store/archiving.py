"""Moves the log's beginning to a file. Each step leaves a state from which the next call can go on.

::

    events in the table ............ the file is written beside its name, read back, and given its name
    file, events in the table ...... `meta` is set to their end: from here on the file counts, the table does not
    file, meta, events in the table  they are removed, a few at a time
    file, meta
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

from sqlalchemy import Delete, delete

from betimes.errors import StoreRefused
from betimes.service.scheduling.events import Event
from betimes.service.store.databases.schema import events
from betimes.service.store.event_file import archive_path, archives, write_archive
from betimes.service.store.reading import ARCHIVED_CHECKSUM, ARCHIVED_UPTO, Reader

_PAGE = 5000  # events read at once
_BATCH = 2000  # events removed in a transaction


class Archive:
    """Moves events of a database to files of its state directory."""

    def __init__(
        self,
        folder: Path,
        reader: Reader,
        say: Callable[[dict[str, str]], None],
        remove: Callable[[Delete], int],
    ) -> None:
        self._folder, self._reader, self._say, self._remove = folder, reader, say, remove

    def take(self, upto: int) -> Path:
        """Move the events up to `upto`; also finishes an interrupted call."""
        self._remove_archived()
        done = self._reader.archived_upto
        if upto <= done:
            return self._holding(upto)
        self._check(upto)
        first = done + 1
        path = archive_path(self._folder, first, upto)
        checksum = self._reader.checksum_at(upto)
        write_archive(path, self._events(first, upto))
        for (start, last), other in archives(self._folder).items():
            if start == first and last != upto:  # of a call interrupted before `meta` was set
                other.unlink()
        self._say({ARCHIVED_UPTO: str(upto), ARCHIVED_CHECKSUM: checksum or ""})
        self._remove_archived()
        return path

    def _remove_archived(self) -> None:
        first, upto = self._reader.first_kept(), self._reader.archived_upto
        if first is not None and first <= upto:
            for last in range(first + _BATCH - 1, upto + _BATCH, _BATCH):  # oldest first: the rest has no gap
                self._remove(delete(events).where(events.c.event_id <= min(last, upto)))

    def _holding(self, event: int) -> Path:
        for (first, last), path in archives(self._folder).items():
            if first <= event <= last:
                return path
        raise StoreRefused(
            f"event {event} was archived, and its file is missing in {self._folder / 'archive'}; "
            "put it back from a backup"
        )

    def _check(self, upto: int) -> None:
        snapshot = self._reader.latest_snapshot()
        covered = 0 if snapshot is None else snapshot.event_id
        if upto > covered:
            raise StoreRefused(
                f"events up to {upto} cannot be archived: the newest snapshot ends at event {covered}; "
                "make a newer one first"
            )

    def _events(self, first: int, upto: int) -> Iterator[Event]:
        return takewhile(lambda event: event.event_id <= upto, self._reader.each_event(first - 1, _PAGE))
