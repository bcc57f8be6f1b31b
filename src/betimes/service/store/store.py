"""The store: the service's data, in a database that it alone owns."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Delete, delete, make_url, select, true, tuple_, update
from sqlalchemy.exc import ArgumentError

from betimes.errors import StoreDamaged, StoreError, StoreRefused, StoreUnreachable
from betimes.service.access.address import LOCK_FILE
from betimes.service.access.auth import KeptToken
from betimes.service.store.archiving import Archive
from betimes.service.store.batch import Batch
from betimes.service.store.belonging import LOG, LastEvent, find_log
from betimes.service.store.databases import schema
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.ownership import FileLock
from betimes.service.store.databases.postgres import Postgres
from betimes.service.store.databases.sqlite import InMemory, SQLite
from betimes.service.store.databases.upgrades import bring_up_to_date
from betimes.service.store.reading import Reader
from betimes.service.store.writing import Writer, numbered

BUSY_S = 5.0  # how long to wait for the lock of another process

PROBE_BYTES = 64 * 1024

log = logging.getLogger(__name__)


def default_url(folder: Path) -> str:
    """The address of the SQLite database of a state directory."""
    return f"sqlite:///{folder.absolute() / 'betimes.db'}"


class Store(Reader):
    """One writer, any number of readers.

    Every method may be called from any thread. One thread writes at a time; readers have separate connections and hold
    up no commit. `log_id` identifies this log among all others.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        meta: dict[str, str],
        lock: FileLock | None = None,
        noted: LastEvent | None = None,
    ) -> None:
        """Of a database that is owned and up to date: use `open`. meta: from `find_log`."""
        super().__init__(database)
        self._lock, self._noted, self.log_id = lock, noted, meta[LOG]
        self._writing = threading.Lock()  # one transaction at a time
        self._maintaining = threading.Lock()  # one archive or removal at a time, beside the transactions
        self._archive = Archive(folder, self, self._commit_meta, self._remove)
        self._last_event = super().last_event_id()
        self._checksum = self.checksum_at(self._last_event) or ""  # of that event
        self.damage: str | None = None  # of the log, as `check_log` has found it
        self._doubted: tuple[Batch, int] | None = None  # and the last event before it
        if any(self.meta(name) != value for name, value in meta.items()):
            with self._database.writing() as connection:
                Writer(database, connection).write(Batch(meta=meta))
        self._note()

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
        with database.faults.translated():
            lock = FileLock(folder / LOCK_FILE, str(folder), folder)
        noted: LastEvent | None = None
        try:
            with database.faults.translated():
                noted = LastEvent(folder)
                database.own()
                meta = find_log(database, folder, noted, as_copy, accepts_loss)
                bring_up_to_date(database)
                return cls(database, folder, meta, lock, noted)
        except BaseException:
            if noted is not None:
                noted.close()
            database.close()
            lock.release()
            raise

    @classmethod
    def in_memory(cls, folder: str | Path) -> Store:
        """An empty store that ends with this process, for tests and trials. folder: where archives go."""
        database = InMemory(Path(folder).absolute())
        database.own()
        bring_up_to_date(database)
        return cls(database, database.folder, {LOG: uuid4().hex})

    def close(self) -> None:
        """Give up ownership and every connection."""
        with self._maintaining, self._writing:
            self._database.close()
            if self._noted is not None:
                self._noted.close()
            if self._lock is not None:
                self._lock.release()

    @property
    def name(self) -> str:
        """The database's path, or its address without the password."""
        return self._database.name

    @property
    def is_remote(self) -> bool:
        """Whether a look-up is a round trip to a server, for which an event loop should not wait."""
        return self._database.is_remote

    @property
    def is_in_memory(self) -> bool:
        """Whether a commit waits for no disk, so that it needs no separate thread."""
        return isinstance(self._database, InMemory)

    def last_event_id(self) -> int:
        """The number of the newest event, kept or archived; 0: there is none."""
        return self._last_event

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
            last_event = numbered(batch, self._last_event)
            drop = self._other_snapshots(batch)
            try:
                with self._database.writing() as connection:
                    writer = Writer(self._database, connection, self._checksum)
                    writer.write(batch)
                    if drop is not None:
                        connection.execute(drop)
            except StoreUnreachable:
                self._doubted = batch, self._last_event  # a commit that was done may have lost its answer
                raise
            self._last_event, self._checksum = last_event, writer.checksum
            if batch.events:
                self._note()

    def add_token(self, token: KeptToken) -> None:
        """Keep a token; one of that hash changes."""
        row = asdict(token)
        with self._writing, self._database.writing() as connection:
            Writer(self._database, connection).upsert(schema.tokens, [{"hash": row.pop("hashed"), **row}])

    def revoke_tokens(self, user: str | None, name: str | None, at: float) -> int:
        """Revoke a user's tokens of that name that are not, or the operator's (None, None); returns how many."""
        columns = schema.tokens.c
        whose = true() if user is None else columns.user == user
        which = (whose, columns.name == name, columns.revoked_at.is_(None))
        with self._writing, self._database.writing() as connection:
            return connection.execute(update(schema.tokens).where(*which).values(revoked_at=at)).rowcount

    def note_uses(self, used_at: Mapping[str, float]) -> None:
        """Note the instants of the last uses of tokens, by their hashes."""
        with self._writing, self._database.writing() as connection:
            for hashed, at in used_at.items():
                connection.execute(
                    update(schema.tokens).where(schema.tokens.c.hash == hashed).values(used_at=at)
                )

    def probe(self) -> None:
        """Write as much as a large submission takes, durably, and remove it again; raises as `commit` does.

        Raises StoreFull also where the disk of the state directory has less than a mebibyte left.
        """
        if self.is_in_memory:
            return
        self._database.faults.check_room()
        # Always other text: SQLite writes no page whose content is the same, and PostgreSQL compresses.
        self._commit_meta({"store.probe": secrets.token_hex(PROBE_BYTES // 2)})
        self._commit_meta({"store.probe": ""})

    def check_log(self) -> None:
        """Read every event that is kept, also those before the snapshot; raises StoreDamaged, and keeps its text."""
        try:
            for _ in self.each_event(self.archived_upto):
                pass
        except StoreDamaged as error:
            self.damage = str(error)
            raise

    def archive(self, upto_event: int) -> Path:
        """Move the events up to `upto_event` to a new file in `archive/`; returns the file.

        Interrupted at any point, it may be called again and loses nothing; commits go on meanwhile. Raises
        StoreRefused where no sound snapshot includes `upto_event`.
        """
        with self._maintaining, self._database.faults.translated():
            return self._archive.take(upto_event)

    def retain(self, over_before_at: float, batch: int = 1000) -> int:
        """Remove jobs that ended before that instant, with their runs and quotes; returns how many jobs.

        Answers to idempotency keys of that age go, too. `batch`: rows a transaction, so that commits, which go on in
        between, never wait long.
        """
        jobs, answers = schema.jobs.c, schema.answers.c
        over = (
            select(jobs.job_id)
            .where(jobs.finished_at < over_before_at, jobs.status.in_(schema.OVER))
            .order_by(jobs.finished_at, jobs.job_id)
            .limit(batch)
        )
        key = (answers.user, answers.key)
        old = select(*key).where(answers.at_s < over_before_at).limit(batch)
        removed = 0
        with self._maintaining:
            while count := self._remove(delete(schema.jobs).where(jobs.job_id.in_(over))):
                removed += count
            self._remove(delete(schema.charges).where(schema.charges.c.until_at < over_before_at))
            while self._remove(delete(schema.answers).where(tuple_(*key).in_(old))):
                pass
        return removed

    # --- helpers

    def _note(self) -> None:
        if self._noted is None:
            return
        try:
            self._noted.write(self.log_id, self._last_event)
        except OSError as error:  # the commit stands; the next one notes it, too
            log.warning("the last event is not noted beside the database: %s", error)

    def _commit_meta(self, meta: dict[str, str]) -> None:
        with self._writing, self._database.writing() as connection:
            Writer(self._database, connection).write(Batch(meta=meta))

    def _remove(self, rows: Delete) -> int:
        with self._writing, self._database.writing() as connection:
            return connection.execute(rows).rowcount

    def _other_snapshots(self, batch: Batch) -> Delete | None:
        """All but the one of the batch and the newest sound one before it."""
        if batch.snapshot is None:
            return None
        written = batch.snapshot.event_id
        kept = (written, self.sound_snapshot_beside(written))
        return delete(schema.snapshots).where(schema.snapshots.c.event_id.not_in(kept))

    def _was_written(self, batch: Batch) -> bool:
        """Whether exactly this batch was written by the commit whose answer was lost."""
        assert self._doubted is not None
        doubted, before = self._doubted
        with self._database.faults.translated():
            written = self._database.settle()
        self._doubted = None
        if written:
            self._last_event = numbered(doubted, before)
            self._checksum = self.checksum_at(self._last_event) or ""
        return written and batch == doubted


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
