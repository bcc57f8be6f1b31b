"""The store on disk."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from betimes.errors import StoreError, StoreRefused, StoreUnreachable
from betimes.service.access.address import LOCK_FILE
from betimes.service.scheduling.event_log import Event
from betimes.service.store.archiving import Archive
from betimes.service.store.batch import Batch, Row, Snapshot
from betimes.service.store.belonging import LOG, LastEvent, find_log
from betimes.service.store.databases.codec import TOKENS
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.ownership import FileLock
from betimes.service.store.databases.postgres import Postgres
from betimes.service.store.databases.sqlite import SQLite
from betimes.service.store.databases.statements import Statements, Step
from betimes.service.store.opening import bring_up_to_date
from betimes.service.store.reading import Reader
from betimes.service.store.removing import Removal
from betimes.service.store.snapshots import Snapshots
from betimes.service.store.writing import Prepared, drop_snapshots, prepare, run

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter

BUSY_S = 5.0  # how long to wait for the lock of another process

PROBE_BYTES = 64 * 1024

log = logging.getLogger(__name__)


def default_url(folder: Path) -> str:
    """The address of the SQLite database of a state directory."""
    return f"sqlite:///{folder.absolute() / 'betimes.db'}"


class Store:
    """The database of a service, which it alone owns; see `Storage` for what it offers.

    Every method may be called from any thread. One thread writes at a time; readers have connections of their own and
    hold up no commit.
    """

    is_in_memory = False

    def __init__(
        self, database: Database, lock: FileLock, folder: Path, noted: LastEvent, meta: dict[str, str]
    ) -> None:
        """Of a database that is owned and up to date: use `open`. meta: what `find_log` has found."""
        self._database, self._lock, self._folder = database, lock, folder
        self._noted, self.log_id = noted, meta[LOG]
        self._writing = threading.Lock()  # one transaction at a time
        self._maintaining = threading.Lock()  # one archive or removal at a time, beside the transactions
        self._statements = Statements(database.dialect)
        self._reader = Reader(database)
        self._snapshots = Snapshots(database)
        self._removal = Removal(database, self._writing)
        self._archive = Archive(folder, self._reader, self._snapshots, self._removal, self._commit_meta)
        self._last_event = self._reader.last_event_id()
        self._doubted: Prepared | None = None
        if any(self.meta(name) != value for name, value in meta.items()):
            self._run(prepare(Batch(meta=meta), self._statements, self._last_event).steps)
        self._noted.write(self.log_id, self._last_event)

    @classmethod
    def open(
        cls,
        url: str,
        folder: str | Path,
        busy_s: float = BUSY_S,
        *,
        as_copy: bool = False,
        accepts_loss: bool = False,
    ) -> Store:
        """Open or create a database and own it, and the state directory `folder`, until `close`.

        url: `sqlite:///PATH` or `postgresql://USER@HOST/NAME`. busy_s: how long a commit waits for a lock, s. as_copy,
        accepts_loss: see `find_log`. Raises StoreInUse (naming the one who has it), StoreTooNew, or another StoreError.
        """
        folder = Path(folder).absolute()
        database = _database(url, folder, busy_s)
        with database.faults.told():
            lock = FileLock(folder / LOCK_FILE, str(folder), folder)
        noted: LastEvent | None = None
        try:
            with database.faults.told():
                noted = LastEvent(folder)
                database.own()
                meta = find_log(database, folder, noted, as_copy, accepts_loss)
                bring_up_to_date(database)
                return cls(database, lock, folder, noted, meta)
        except BaseException:
            if noted is not None:
                noted.close()
            database.close()
            lock.release()
            raise

    def close(self) -> None:
        """Give up ownership and every connection."""
        with self._maintaining, self._writing:
            self._database.close()
            self._noted.close()
            self._lock.release()

    @property
    def name(self) -> str:
        """The database's path, or its address without the password."""
        return self._database.name

    # --- writing

    def commit(self, batch: Batch) -> None:
        """Write all of `batch` in one transaction, durable on return; on an error nothing of it is written.

        Raises StoreRefused (the batch cannot be kept; also where its events do not go on from the last one),
        StoreFull, StoreLocked, StoreReadOnly, StoreDamaged, StoreInUse (another process writes: stop), StoreUnreachable
        (the server is away: commit the same batch again, which connects again and never writes it twice).
        """
        for name in batch.meta:
            if name.startswith("store."):
                raise StoreRefused(f"meta {name}: names in store. are the store's own")
        with self._writing:
            if self._doubted is not None and self._was_written(batch):
                return
            prepared = prepare(batch, self._statements, self._last_event)
            steps = prepared.steps
            if prepared.snapshot is not None:
                kept = self._snapshots.kept_beside(prepared.snapshot)
                steps = [*steps, drop_snapshots(self._database, prepared.snapshot, kept)]
            try:
                self._run(steps)
            except StoreUnreachable:
                self._doubted = prepared  # the answer may be lost of a commit that was done
                raise
            self._last_event = prepared.last_event
            if batch.events:
                self._note()

    def add_token(self, hashed: str, user: str, role: str) -> None:
        """Keep a token, hashed; a token of that hash changes user and role."""
        row = TOKENS.encode({"hash": hashed, "user": user, "role": role})
        with self._writing:
            self._run(self._statements.upserting(TOKENS, [row]))

    def probe(self) -> None:
        """Write as much as a large submission takes, durably, and remove it again; raises as `commit` does.

        Raises StoreFull also where the disk of the state directory has less than a mebibyte left.
        """
        self._database.faults.check_room()
        # Always other text: SQLite writes no page whose content is the same, and PostgreSQL compresses.
        self._commit_meta("store.probe", secrets.token_hex(PROBE_BYTES // 2))
        self._commit_meta("store.probe", "")

    def archive(self, upto_event: int) -> Path:
        """Move the events up to `upto_event` to a file of their own in `archive/`; returns the file.

        Interrupted at any point, it may be called again and loses nothing; commits go on meanwhile. Raises
        StoreRefused where no sound snapshot includes `upto_event`.
        """
        with self._maintaining, self._database.faults.told():
            return self._archive.take(upto_event)

    def retain(self, over_before_at: float, batch: int = 1000) -> int:
        """Remove jobs that ended before that instant, with their runs and quotes; returns how many jobs.

        Answers to idempotency keys of that age go, too. `batch`: rows a transaction; commits go on in between.
        """
        with self._maintaining:
            removed = self._removal.jobs(over_before_at, batch)
            self._removal.answers(over_before_at, batch)
            return removed

    # --- reading

    def events(
        self, after: int = 0, limit: int = 1000, job: int | None = None, kinds: Collection[str] = ()
    ) -> list[Event]:
        """The next `limit` events after event `after`, oldest first; none of `kinds`: all of them.

        Raises StoreArchived where events after `after` are in a file; of one job, those that are kept are returned.
        """
        return self._reader.events(after, limit, job, kinds)

    def each_event(self, after: int = 0, page: int = 5000) -> Iterator[Event]:
        """All events after event `after`, `page` of them at a time, as recovery reads them."""
        while found := self._reader.events(after, page, None, ()):
            yield from found
            after = found[-1].event_id

    def last_event_id(self) -> int:
        """The number of the newest event, kept or archived; 0: there is none."""
        return self._last_event

    @property
    def is_remote(self) -> bool:
        """Whether a look-up is a round trip to a server, for which an event loop should not wait."""
        return self._database.is_remote

    @property
    def archived_upto(self) -> int:
        """The last event that is kept in a file only; 0: none is."""
        return self._reader.archived_upto()

    def job(self, job_id: int) -> Row | None:
        """The row of a job; None: there is none."""
        return self._reader.job(job_id)

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """The jobs that meet every condition of `wanted`, newest first, at most `wanted.limit`."""
        return self._reader.jobs(wanted)

    def jobs_of(self, job_ids: Sequence[int]) -> dict[int, Row]:
        """The rows of jobs, by their numbers; those that there are."""
        return self._reader.jobs_of(job_ids)

    def live_jobs(self) -> list[Row]:
        """The jobs that are not over, oldest first."""
        return self._reader.live_jobs()

    def uploads(self) -> set[str]:
        """The SHA-256 of every directory that a job names which the store knows."""
        return self._reader.uploads()

    def runs(self, job_id: int) -> list[Row]:
        """The runs of a job, first one first."""
        return self._reader.runs(job_id)

    def quotes(self, job_id: int) -> list[Row]:
        """The quotes of a job, first one first."""
        return self._reader.quotes(job_id)

    def nodes(self) -> list[Row]:
        """The nodes, by name."""
        return self._reader.nodes()

    def answer(self, user: str, key: str) -> Any:
        """What `user` was answered to idempotency key `key`; None: nothing yet."""
        return self._reader.answer(user, key)

    def token(self, hashed: str) -> tuple[str, str] | None:
        """User and role of a token; None: there is none."""
        return self._reader.token(hashed)

    def meta(self, name: str) -> str | None:
        """What a batch wrote under `name`; None: nothing."""
        return self._reader.meta(name)

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is what was written; damaged ones are skipped and listed in `damaged`."""
        return self._snapshots.latest()

    @property
    def damaged(self) -> list[int]:
        """The events of the snapshots that `latest_snapshot` found damaged."""
        return self._snapshots.damaged

    # --- helpers

    def _run(self, steps: list[Step]) -> None:
        with self._database.writing() as cursor:
            run(steps, cursor, self._database)

    def _note(self) -> None:
        try:
            self._noted.write(self.log_id, self._last_event)
        except OSError as error:  # the commit stands; after the next one it is noted, too
            log.warning("the last event is not noted beside the database: %s", error)

    def _commit_meta(self, name: str, value: str) -> None:
        prepared = prepare(Batch(meta={name: value}), self._statements, self._last_event)
        with self._writing:
            self._run(prepared.steps)

    def _was_written(self, batch: Batch) -> bool:
        """Whether this very batch was written by the commit whose answer was lost."""
        doubted = self._doubted
        assert doubted is not None
        with self._database.faults.told():
            written = self._database.settle()
        self._doubted = None
        if not written:
            return False
        before, self._last_event = self._last_event, doubted.last_event
        try:
            return prepare(batch, self._statements, before) == doubted
        except StoreRefused:
            return False  # another batch, to be judged by the events that are there now


def _database(url: str, folder: Path, busy_s: float) -> Database:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError(f"{url!r} is not the address of a database; write {_FORMS}") from None
    match parsed.get_backend_name():
        case "sqlite":
            return SQLite(parsed, folder, busy_s)
        case "postgresql" | "postgres":
            return Postgres(parsed, folder, busy_s)
        case other:
            raise StoreError(f"{other}: not a kind of database that Betimes knows; write {_FORMS}")


_FORMS = "sqlite:///PATH/betimes.db or postgresql://USER@HOST/NAME"
