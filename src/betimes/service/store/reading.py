"""Reads: each answer is one statement on a reader's connection, so it shows one commit, whole."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, Text, and_, case, cast, func, or_, select, true

from betimes.errors import StoreArchived, StoreDamaged
from betimes.service.access.auth import KeptToken
from betimes.service.scheduling.events import Event
from betimes.service.store.batch import Row, Snapshot, checksum_of
from betimes.service.store.databases import schema
from betimes.service.store.databases.database import Database
from betimes.service.store.queries import (
    By,
    charged,
    listing,
    reached_its_limit,
    runs_between,
    runs_of,
    usage,
)

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter

ARCHIVED_UPTO = "store.archived_upto"  # in `meta`
ARCHIVED_CHECKSUM = "store.archived_checksum"  # likewise, of that event
_JOBS_AT_ONCE = 1000
_EVENT_BYTES = 100  # of an event beside its data, and its place in indexes
UPLOAD = re.compile('"upload":"([0-9a-f]{64})"')
_EVENTS, _JOBS, _RUNS, _QUOTES = schema.events, schema.jobs, schema.runs, schema.quotes
_OF_EVENT = tuple(_EVENTS.c[name] for name in ("event_id", "at_s", "kind", "cause", "job", "node"))
_TOKENS, _META, _SNAPSHOTS = schema.tokens.c, schema.meta.c, schema.snapshots.c


class Reader:
    """Reads a database; any thread may.

    `damaged` are the events of the snapshots that `latest_snapshot` found damaged.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.damaged: list[int] = []
        mark = database.placeholder
        self._answer = f'SELECT body FROM answers WHERE "user" = {mark} AND "key" = {mark}'

    # --- the log

    def events(
        self,
        after: int = 0,
        limit: int = 1000,
        job: int | None = None,
        kinds: Collection[str] = (),
        by: str | None = None,
    ) -> list[Event]:
        """The next `limit` events after event `after`, oldest first; no `kinds`: all of them; by: of a user's doing.

        Raises StoreArchived where events after `after` are in a file; of one job, those that are kept are returned.
        """
        after = max(after, 0)
        query = select(*_OF_EVENT, _EVENTS.c.data).where(
            _EVENTS.c.event_id > after,
            true() if job is None else _EVENTS.c.job == job,
            _EVENTS.c.kind.in_(sorted(kinds)) if kinds else true(),
            true() if by is None else _EVENTS.c.cause == f"user:{by}",
        )
        with self._database.reading() as connection:
            found = connection.execute(query.order_by(_EVENTS.c.event_id).limit(limit))
            events = [Event(*row) for row in found]
        # Checked afterwards: an archive sets `meta` first, and then removes events, oldest first.
        if job is None and not (events and events[0].event_id == after + 1):
            self._check_kept(after)
        return events

    def _check_kept(self, after: int) -> None:
        upto = self.archived_upto
        if after < upto:
            raise StoreArchived(
                f"{self._database.name}: events up to {upto} are archived in files (archive/events-*.jsonl.gz); "
                "ask for later ones, or read the files",
                upto,
            )

    def each_event(self, after: int = 0, page: int = 5000) -> Iterator[Event]:
        """All events after event `after`, `page` of them at a time, as recovery reads them.

        Raises StoreDamaged for one that is not as it was written, StoreArchived as `events` does.
        """
        before = self.checksum_at(after) if after > 0 else ""
        query = select(*_OF_EVENT, cast(_EVENTS.c.data, Text), _EVENTS.c.checksum).order_by(
            _EVENTS.c.event_id
        )
        while True:
            with self._database.reading() as connection:
                found: Sequence[Any] = connection.execute(
                    query.where(_EVENTS.c.event_id > after).limit(page)
                ).all()
            if not (found and found[0][0] == after + 1):
                self._check_kept(after)
            for *columns, data, checksum in found:
                event = Event(*columns)
                if checksum is None and before:
                    raise self._damaged(event.event_id)
                if (
                    checksum is not None
                    and before is not None
                    and checksum_of(before, event, data) != checksum
                ):
                    raise self._damaged(event.event_id)
                before = checksum or ""
                yield replace(event, data=schema.from_json(data))
            if len(found) < page:
                return
            after = found[-1][0]

    def checksum_at(self, event_id: int) -> str | None:
        """The checksum of an event, kept or the last one archived; empty: it has none. None: it is not known."""
        with self._database.reading() as connection:
            query = select(_EVENTS.c.checksum).where(_EVENTS.c.event_id == event_id)
            found = connection.execute(query).first()
        if found is not None:
            return found[0] or ""
        return self.meta(ARCHIVED_CHECKSUM) if event_id == self.archived_upto else None

    def _damaged(self, event_id: int) -> StoreDamaged:
        return StoreDamaged(
            f"{self._database.name}: event {event_id}, or the one before, is not as it was written: a disk or a hand "
            "has changed the database; restore it from a backup"
        )

    def last_before(self, at: float) -> int:
        """The last event before an instant; ids have no gaps, and events are in the order of time."""
        kept = range(self.archived_upto, self.last_event_id())
        return kept.start + bisect_left(kept, at, key=lambda before: self.events(before, 1)[0].at_s)

    def last_beyond(self, size_bytes: int) -> int:
        """The last event before the newest ones that take so much room; 0: all kept ones take less."""
        room = func.length(cast(_EVENTS.c.data, Text)) + _EVENT_BYTES
        sums = select(
            _EVENTS.c.event_id, func.sum(room).over(order_by=_EVENTS.c.event_id.desc()).label("room")
        )
        each = sums.subquery()
        return self._one(select(func.max(each.c.event_id)).where(each.c.room > size_bytes)) or 0

    @property
    def archived_upto(self) -> int:
        """The last event kept only in a file; 0: none is."""
        found = self.meta(ARCHIVED_UPTO)
        return 0 if found is None else int(found)

    def last_event_id(self) -> int:
        """The number of the newest event, kept or archived; 0: there is none."""
        return max(self._one(select(func.max(_EVENTS.c.event_id))) or 0, self.archived_upto)

    def first_kept(self) -> int | None:
        """The number of the oldest event in the table; None: it is empty."""
        return self._one(select(func.min(_EVENTS.c.event_id)))

    # --- jobs and what belongs to them

    def last_job_id(self) -> int:
        """The highest number of a job that the rows or the log still have; 0: they have none."""
        numbers = select(func.max(_JOBS.c.job_id)), select(func.max(_EVENTS.c.job))
        return max(self._one(query) or 0 for query in numbers)

    def job(self, job_id: int) -> Row | None:
        """The row of a job; None: there is none."""
        found = self._rows(select(_JOBS).where(_JOBS.c.job_id == job_id))
        return found[0] if found else None

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """The jobs that meet every condition of `wanted`, newest first, at most `wanted.limit`."""
        return self._rows(listing(wanted))

    def jobs_of(self, job_ids: Sequence[int]) -> dict[int, Row]:
        """The rows of jobs, by their numbers; those that there are."""
        found: dict[int, Row] = {}
        for at in range(0, len(job_ids), _JOBS_AT_ONCE):
            some = job_ids[at : at + _JOBS_AT_ONCE]
            for row in self._rows(select(_JOBS).where(_JOBS.c.job_id.in_(some))):
                found[row["job_id"]] = row
        return found

    def owners(self, job_ids: Sequence[int]) -> dict[int, str]:
        """The users of jobs, by their numbers; of those that there are."""
        found: dict[int, str] = {}
        with self._database.reading() as connection:
            for at in range(0, len(job_ids), _JOBS_AT_ONCE):
                some = _JOBS.c.job_id.in_(job_ids[at : at + _JOBS_AT_ONCE])
                rows = connection.execute(select(_JOBS.c.job_id, _JOBS.c.user).where(some))
                found.update((number, user) for number, user in rows)
        return found

    def runs_between(self, from_at: float, to_at: float, most: int, user: str | None = None) -> list[Row]:
        """The latest `most` runs that overlap a window, with the names, users and statuses of their jobs.

        user: whose jobs; null: everybody's.
        """
        return self._rows(runs_between(from_at, to_at, most, user))

    def usage(self, since_at: float, until_at: float, by: By | None, user: str | None = None) -> list[Row]:
        """Sums over the runs of a user, or of all (`queries.usage`); a scan of the period's runs."""
        return self._rows(usage(since_at, until_at, by, user, is_postgres=self._database.is_remote))

    def charged(self, since_at: float, until_at: float, by: By | None) -> list[Row]:
        """Sums of charges for rented machines (`queries.charged`)."""
        return self._rows(charged(since_at, until_at, by))

    def runs_of(self, number: int) -> list[Row]:
        """The runs of a job, or of an array, with the specification of each one's job."""
        return self._rows(runs_of(number))

    def finished(self, job_ids: Sequence[int]) -> dict[int, float | None]:
        """Those of these jobs that there are, and when each was over; None: it is not."""
        at = case((_JOBS.c.status.in_(schema.OVER), _JOBS.c.finished_at))
        found: dict[int, float | None] = {}
        for start in range(0, len(job_ids), _JOBS_AT_ONCE):
            some = job_ids[start : start + _JOBS_AT_ONCE]
            with self._database.reading() as connection:
                rows = connection.execute(select(_JOBS.c.job_id, at).where(_JOBS.c.job_id.in_(some)))
                found.update(tuple(row) for row in rows)
        return found

    def live_jobs(self) -> list[Row]:
        """The jobs that are not over, oldest first."""
        return self._rows(select(_JOBS).where(_JOBS.c.status.in_(schema.LIVE)).order_by(_JOBS.c.job_id))

    def uploads(self) -> set[str]:
        """The SHA-256 of every directory that a job names; of all jobs, so that it may take a second."""
        text = cast(_JOBS.c.spec, Text)
        query = select(_JOBS.c.job_id, text).where(text.like('%"upload":"%')).order_by(_JOBS.c.job_id)
        found: set[str] = set()
        after = 0
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(query.where(_JOBS.c.job_id > after).limit(_JOBS_AT_ONCE)).all()
            found.update(upload for _, spec in rows for upload in UPLOAD.findall(spec))
            if len(rows) < _JOBS_AT_ONCE:
                return found
            after = rows[-1][0]

    def runs(self, job_id: int) -> list[Row]:
        """The runs of a job, first one first."""
        return self._rows(select(_RUNS).where(_RUNS.c.job_id == job_id).order_by(_RUNS.c.number))

    def quotes(self, job_id: int) -> list[Row]:
        """The quotes of a job, first one first."""
        return self._rows(select(_QUOTES).where(_QUOTES.c.job_id == job_id).order_by(_QUOTES.c.quote_id))

    def promises(self, since_at: float, until_at: float, user: str | None = None) -> list[Row]:
        """The first and the latest promise of each job that finished in a period, or reached its limit, by its end.

        user: of whose jobs; null: everybody's.
        A row is the quote's, with `user`, `name`, `submitted_at`, `started_at`, `finished_at`, `slurm_start_at` and
        `spec` of its job, `is_first` and `is_latest`.
        Promises that a hold has made void count for nothing.
        """
        of_job = ("user", "name", "submitted_at", "started_at", "finished_at", "slurm_start_at", "spec")
        jobs = [_JOBS.c[name] for name in (*of_job, "promised_finish_at")]
        query = (
            select(_QUOTES, *jobs)
            .join(_JOBS, _JOBS.c.job_id == _QUOTES.c.job_id)
            .where(
                _JOBS.c.finished_at.between(since_at, until_at),
                or_(_JOBS.c.status == "finished", and_(_JOBS.c.status == "failed", reached_its_limit())),
                _QUOTES.c.finish_at.is_not(None),
                true() if user is None else _JOBS.c.user == user,
            )
            .order_by(_JOBS.c.finished_at, _QUOTES.c.job_id, _QUOTES.c.quote_id)
        )
        found: list[Row] = []
        for _, rows in groupby(self._rows(query), key=itemgetter("job_id")):
            valid = [*dropwhile(lambda row: row["finish_at"] != row["promised_finish_at"], rows)]
            last = len(valid) - 1
            found += [
                {**row, "is_first": at == 0, "is_latest": at == last}
                for at, row in enumerate(valid)
                if at in (0, last)
            ]
        return found

    # --- the rest

    def nodes(self) -> list[Row]:
        """The nodes, by name."""
        found = self._rows(select(schema.nodes))
        return sorted(found, key=lambda row: row["name"])  # databases differ in their collations

    def answer(self, user: str, key: str) -> Any:
        """The answer to `user` under idempotency key `key`; None: none yet."""
        # Used at every submission, and without SQLAlchemy, which takes twenty times as long.
        found = self._database.look_up(self._answer, (user, key))
        return None if found is None else schema.from_json(found[0])

    def token(self, hashed: str) -> KeptToken | None:
        """The token of a hash; None: there is none."""
        found = self._rows(select(schema.tokens).where(_TOKENS.hash == hashed))
        return _kept(found[0]) if found else None

    def tokens(self, user: str | None = None) -> list[KeptToken]:
        """The tokens of users, or of one, in the order in which they were made."""
        of_user = true() if user is None else _TOKENS.user == user
        query = select(schema.tokens).where(_TOKENS.name.is_not(None), of_user)
        return [_kept(row) for row in self._rows(query.order_by(_TOKENS.made_at, _TOKENS.hash))]

    def meta(self, name: str) -> str | None:
        """The value written under `name`; None: none."""
        return self._one(select(_META.value).where(_META.name == name))

    def latest_snapshot(self) -> Snapshot | None:
        """The newest sound snapshot; damaged ones are skipped and listed in `damaged`."""
        self.damaged = []
        for snapshot, is_sound in self._snapshots():
            if is_sound:
                return snapshot
            self.damaged.append(snapshot.event_id)
        return None

    def sound_snapshot_beside(self, event_id: int) -> int:
        """The event of the newest sound snapshot other than that of `event_id`; 0: there is none."""
        for snapshot, is_sound in self._snapshots():
            if is_sound and snapshot.event_id != event_id:
                return snapshot.event_id
        return 0

    def _snapshots(self) -> Iterator[tuple[Snapshot, bool]]:
        """The snapshots, newest first, and whether each is sound."""
        with self._database.reading() as connection:
            newest_first = select(_SNAPSHOTS.event_id).order_by(_SNAPSHOTS.event_id.desc())
            ids = connection.execute(newest_first).scalars().all()
        for event_id in ids:
            query = select(schema.snapshots).where(_SNAPSHOTS.event_id == event_id)
            with self._database.reading() as connection:
                found = connection.execute(query).first()
            if found is not None:
                snapshot = Snapshot(found.event_id, found.at_s, found.version, bytes(found.body))
                yield snapshot, found.sha256 == snapshot.sha256()

    def _one(self, query: Select[Any]) -> Any:
        with self._database.reading() as connection:
            return connection.execute(query).scalar()

    def _rows(self, query: Select[Any]) -> list[Row]:
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _kept(row: Row) -> KeptToken:
    return KeptToken(row.pop("hash"), **row)
