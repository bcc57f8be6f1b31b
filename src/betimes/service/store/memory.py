"""A store in memory, for tests and trials: the same answers and the same refusals, and nothing on a disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from betimes.errors import StoreArchived, StoreRefused
from betimes.service.scheduling.event_log import Event
from betimes.service.store.batch import Batch, Row, Snapshot
from betimes.service.store.databases.codec import (
    ANSWERS,
    JOBS,
    META,
    NODES,
    QUOTES,
    RUNS,
    Codec,
    decode_documents,
    decode_events,
    encode_event,
    uploads_in,
)
from betimes.service.store.databases.schema import LIVE, OVER
from betimes.service.store.event_file import archive_path, archives, write_archive
from betimes.service.store.writing import answer_rows, label_rows, meta_rows, new_rows, numbered

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter

_CODECS = (JOBS, RUNS, NODES, QUOTES, ANSWERS, META)
Rows = dict[Any, Row]  # encoded, by key


class MemoryStore:
    """Dictionaries that behave as the tables do; see `Storage` for what it offers.

    folder: where `archive` puts its files; without one it refuses.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder).absolute()
        self._lock = threading.RLock()
        self._events: list[tuple[Any, ...]] = []  # encoded; the first is number archived_upto + 1
        self._tables: dict[str, Rows] = {codec.name: {} for codec in _CODECS}
        self._tokens: dict[str, tuple[str, str]] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self.is_remote, self.is_in_memory = False, True
        self.archived_upto = 0
        self.log_id = uuid4().hex
        self.damaged: list[int] = []

    @classmethod
    def open(cls, _url: str, folder: str | Path, **_options: float) -> MemoryStore:
        """An empty store, whatever the address: called as `Store.open` is."""
        return cls(folder)

    def close(self) -> None:
        """Nothing is held."""

    # --- writing

    def commit(self, batch: Batch) -> None:
        """Take all of `batch`, or, raising StoreRefused, nothing."""
        for name in batch.meta:
            if name.startswith("store."):
                raise StoreRefused(f"meta {name}: names in store. are the store's own")
        with self._lock:
            numbered(batch, self.last_event_id())
            events = [encode_event(event) for event in batch.events]
            for row in batch.jobs:
                label_rows(row.get("job_id", 0), row.get("labels") or {})
            changed = {
                JOBS: self._upserted(JOBS, JOBS.merged(batch.jobs)),
                RUNS: self._upserted(RUNS, RUNS.merged(batch.runs)),
                NODES: self._upserted(NODES, NODES.merged(batch.nodes)),
                QUOTES: self._inserted(QUOTES, new_rows(QUOTES, batch.quotes)),
                ANSWERS: self._inserted(ANSWERS, new_rows(ANSWERS, answer_rows(batch))),
                META: self._upserted(META, meta_rows(batch.meta)),
            }
            known = self._tables[JOBS.name].keys() | changed[JOBS].keys()
            for codec in (RUNS, QUOTES):
                for row in changed[codec].values():
                    if row["job_id"] is not None and row["job_id"] not in known:
                        raise StoreRefused(f"{codec.describe(row)}: there is no job {row['job_id']}")
            self._events += events
            for codec, rows in changed.items():
                self._tables[codec.name].update(rows)
            if batch.snapshot is not None:
                self._keep(batch.snapshot)

    def probe(self) -> None:
        """There is always room."""

    def _upserted(self, codec: Codec, rows: list[Row]) -> Rows:
        table, changed = self._tables[codec.name], {}
        for row in rows:
            key = codec.key_of(row)
            if len(row) == len(codec.key):
                raise StoreRefused(f"a row of {codec.name} names nothing but {', '.join(codec.key)}")
            if key in table:
                changed[key] = table[key] | row
            else:
                codec.check_new(row)
                changed[key] = codec.blank() | row
        return changed

    def _inserted(self, codec: Codec, rows: list[Row]) -> Rows:
        for row in rows:
            codec.check_new(row)
            if codec.key_of(row) in self._tables[codec.name]:
                raise StoreRefused(f"{codec.describe(row)}: is there already")
        return {codec.key_of(row): codec.blank() | row for row in rows}

    def _keep(self, snapshot: Snapshot) -> None:
        others = [event_id for event_id in self._snapshots if event_id != snapshot.event_id]
        kept = {event_id: self._snapshots[event_id] for event_id in sorted(others)[-1:]}
        self._snapshots = kept | {snapshot.event_id: snapshot}

    def add_token(self, hashed: str, user: str, role: str) -> None:
        """Keep a token, hashed; a token of that hash changes user and role."""
        with self._lock:
            self._tokens[hashed] = (user, role)

    def archive(self, upto_event: int) -> Path:
        """Move the events up to `upto_event`, which a snapshot must include, to a file; returns the file."""
        with self._lock:
            if self._folder is None:
                raise StoreRefused("this MemoryStore has no folder to archive to; give it one")
            if upto_event <= self.archived_upto:
                files = archives(self._folder).items()
                return next(path for (first, last), path in files if first <= upto_event <= last)
            newest = max(self._snapshots, default=0)
            if upto_event > newest:
                raise StoreRefused(
                    f"events up to {upto_event} cannot be archived: the newest snapshot ends at event {newest}; "
                    "make a newer one first"
                )
            count = upto_event - self.archived_upto
            path = archive_path(self._folder, self.archived_upto + 1, upto_event)
            write_archive(path, decode_events(self._events[:count]))
            del self._events[:count]
            self.archived_upto = upto_event
            return path

    def retain(self, over_before_at: float, batch: int = 1000) -> int:
        """Remove jobs that ended before that instant, with runs, quotes and old answers; returns how many jobs."""
        with self._lock:
            old = {
                job
                for job, row in self._tables[JOBS.name].items()
                if row["status"] in OVER
                and row["finished_at"] is not None
                and row["finished_at"] < over_before_at
            }
            for codec in (JOBS, RUNS, QUOTES):
                self._drop(codec, lambda row: row["job_id"] in old)
            self._drop(ANSWERS, lambda row: row["at_s"] is not None and row["at_s"] < over_before_at)
            return len(old)

    def _drop(self, codec: Codec, goes: Callable[[Row], bool]) -> None:
        rows = self._tables[codec.name]
        self._tables[codec.name] = {key: row for key, row in rows.items() if not goes(row)}

    # --- reading

    def events(
        self, after: int = 0, limit: int = 1000, job: int | None = None, kinds: Collection[str] = ()
    ) -> list[Event]:
        """The next `limit` events after event `after`; raises StoreArchived as `Store.events` does."""
        with self._lock:
            after = max(after, 0)
            if job is None and after < self.archived_upto:
                raise StoreArchived(
                    f"events up to {self.archived_upto} are archived in files; ask for later ones, or read the files",
                    self.archived_upto,
                )
            found: list[tuple[Any, ...]] = []
            for row in self._events[max(after - self.archived_upto, 0) :]:
                if len(found) >= limit:
                    break
                if (job is None or row[4] == job) and (not kinds or row[2] in kinds):
                    found.append(row)
            return decode_events(found)

    def each_event(self, after: int = 0, page: int = 5000) -> Iterator[Event]:
        """All events after event `after`, `page` of them at a time."""
        while found := self.events(after, page):
            yield from found
            after = found[-1].event_id

    def last_event_id(self) -> int:
        """The number of the newest event; 0: there is none."""
        return self.archived_upto + len(self._events)

    def job(self, job_id: int) -> Row | None:
        """The row of a job; None: there is none."""
        with self._lock:
            row = self._tables[JOBS.name].get(job_id)
        return None if row is None else JOBS.decode([tuple(row[name] for name in JOBS.columns)])[0]

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """The jobs that meet every condition of `wanted`, newest first, at most `wanted.limit`."""
        found = [row for row in reversed(self._rows(JOBS)) if _meets(row, wanted)]
        return found[: wanted.limit]

    def jobs_of(self, job_ids: Sequence[int]) -> dict[int, Row]:
        """The rows of jobs, by their numbers; those that there are."""
        return {job_id: row for job_id in job_ids if (row := self.job(job_id)) is not None}

    def live_jobs(self) -> list[Row]:
        """The jobs that are not over, oldest first."""
        return self._rows(JOBS, lambda row: row["status"] in LIVE)

    def uploads(self) -> set[str]:
        """The SHA-256 of every directory that a job names which the store knows."""
        with self._lock:
            return {found for row in self._tables[JOBS.name].values() for found in uploads_in(row["spec"])}

    def runs(self, job_id: int) -> list[Row]:
        """The runs of a job, first one first."""
        return self._rows(RUNS, lambda row: row["job_id"] == job_id)

    def quotes(self, job_id: int) -> list[Row]:
        """The quotes of a job, first one first."""
        return self._rows(QUOTES, lambda row: row["job_id"] == job_id)

    def nodes(self) -> list[Row]:
        """The nodes, by name."""
        return self._rows(NODES)

    def answer(self, user: str, key: str) -> Any:
        """What `user` was answered to idempotency key `key`; None: nothing yet."""
        found = self._tables[ANSWERS.name].get((user, key))
        return None if found is None else decode_documents([found["body"]])[0]

    def token(self, hashed: str) -> tuple[str, str] | None:
        """User and role of a token; None: there is none."""
        return self._tokens.get(hashed)

    def meta(self, name: str) -> str | None:
        """What a batch wrote under `name`; None: nothing."""
        found = self._tables[META.name].get(name)
        return None if found is None else found["value"]

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        with self._lock:
            return self._snapshots[max(self._snapshots)] if self._snapshots else None

    def _rows(self, codec: Codec, wanted: Callable[[Row], bool] = lambda _: True) -> list[Row]:
        with self._lock:
            rows = sorted(self._tables[codec.name].items())
        return codec.decode([tuple(row[name] for name in codec.columns) for _, row in rows if wanted(row)])


def _meets(row: Row, wanted: JobFilter) -> bool:
    return (
        (not wanted.status or row["status"] in wanted.status)
        and (wanted.user is None or row["user"] == wanted.user)
        and (wanted.name is None or row["name"] == wanted.name)
        and (wanted.array_id is None or row["array_id"] == wanted.array_id)
        and (wanted.after is None or row["job_id"] < wanted.after)
        and wanted.label.items() <= row["labels"].items()
    )
