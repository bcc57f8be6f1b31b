"""What is read: each answer is one statement on a reader's connection, so it shows one commit, whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, Text, cast, func, select, true

from betimes.errors import StoreArchived
from betimes.service.scheduling.event_log import Event
from betimes.service.store.batch import Row
from betimes.service.store.databases import schema
from betimes.service.store.databases.codec import (
    JOBS,
    NODES,
    QUOTES,
    RUNS,
    Codec,
    decode_documents,
    decode_events,
    uploads_in,
)
from betimes.service.store.databases.database import Database
from betimes.service.store.listing import listing

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter

ARCHIVED_UPTO = "store.archived_upto"  # in `meta`
_JOBS_AT_ONCE = 1000
_EVENTS, _JOBS, _RUNS, _QUOTES = schema.events, schema.jobs, schema.runs, schema.quotes


class Reader:
    """Reads a database; any thread may."""

    def __init__(self, database: Database) -> None:
        self._database = database
        mark = "?" if database.dialect.paramstyle == "qmark" else "%s"
        names = ", ".join(column.name for column in _EVENTS.columns)
        self._tail = f"SELECT {names} FROM events WHERE event_id > {mark} ORDER BY event_id LIMIT {mark}"
        self._answer = f'SELECT body FROM answers WHERE "user" = {mark} AND "key" = {mark}'

    def events(self, after: int, limit: int, job: int | None, kinds: Collection[str]) -> list[Event]:
        """Events after `after`; raises StoreArchived where, of all jobs, the next one is in a file."""
        after = max(after, 0)
        with self._database.reading() as connection:
            if job is None and not kinds:
                cursor: Any = connection.exec_driver_sql(self._tail, (after, limit)).cursor
                found = (
                    cursor.fetchall()
                )  # the driver's own tuples, which take less time than SQLAlchemy's rows
                cursor.close()
            else:
                found = connection.execute(_some_events(after, limit, job, kinds)).all()
        # Looked at afterwards: what an archive removes meanwhile it removes oldest first, having said so.
        if job is None and not (found and found[0][0] == after + 1):
            self._check_kept(after)
        return decode_events(found)

    def _check_kept(self, after: int) -> None:
        upto = self.archived_upto()
        if after < upto:
            raise StoreArchived(
                f"{self._database.name}: events up to {upto} are archived in files (archive/events-*.jsonl.gz); "
                "ask for later ones, or read the files",
                upto,
            )

    def archived_upto(self) -> int:
        """The last event that is kept in a file only; 0: none is."""
        found = self.meta(ARCHIVED_UPTO)
        return 0 if found is None else int(found)

    def last_event_id(self) -> int:
        """The number of the newest event, kept or archived."""
        newest = self._one(select(func.max(_EVENTS.c.event_id)))[0]
        return max(newest or 0, self.archived_upto())

    def last_job_id(self) -> int:
        """The highest number of a job that the rows or the log still have; 0: they have none."""
        numbers = select(func.max(_JOBS.c.job_id)), select(func.max(_EVENTS.c.job))
        return max(self._one(query)[0] or 0 for query in numbers)

    def first_kept(self) -> int | None:
        """The number of the oldest event in the table; None: it is empty."""
        return self._one(select(func.min(_EVENTS.c.event_id)))[0]

    def job(self, job_id: int) -> Row | None:
        """The row of a job."""
        found = self._rows(JOBS, select(_JOBS).where(_JOBS.c.job_id == job_id))
        return found[0] if found else None

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """The jobs that meet every condition, newest first."""
        return self._rows(JOBS, listing(wanted))

    def jobs_of(self, job_ids: Sequence[int]) -> dict[int, Row]:
        """The rows of jobs, by their numbers."""
        found: dict[int, Row] = {}
        for at in range(0, len(job_ids), _JOBS_AT_ONCE):
            some = job_ids[at : at + _JOBS_AT_ONCE]
            for row in self._rows(JOBS, select(_JOBS).where(_JOBS.c.job_id.in_(some))):
                found[row["job_id"]] = row
        return found

    def live_jobs(self) -> list[Row]:
        """The jobs that are not over, oldest first."""
        return self._rows(JOBS, select(_JOBS).where(_JOBS.c.status.in_(schema.LIVE)).order_by(_JOBS.c.job_id))

    def uploads(self) -> set[str]:
        """The SHA-256 of every directory that a job names; of all jobs, so that it may take a second."""
        text = cast(_JOBS.c.spec, Text)
        query = select(_JOBS.c.job_id, text).where(text.like('%"upload":"%')).order_by(_JOBS.c.job_id)
        found: set[str] = set()
        after = 0
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(query.where(_JOBS.c.job_id > after).limit(_JOBS_AT_ONCE)).all()
            found.update(upload for _, spec in rows for upload in uploads_in(spec))
            if len(rows) < _JOBS_AT_ONCE:
                return found
            after = rows[-1][0]

    def runs(self, job_id: int) -> list[Row]:
        """The runs of a job."""
        return self._rows(RUNS, select(_RUNS).where(_RUNS.c.job_id == job_id).order_by(_RUNS.c.number))

    def quotes(self, job_id: int) -> list[Row]:
        """The quotes of a job."""
        return self._rows(
            QUOTES, select(_QUOTES).where(_QUOTES.c.job_id == job_id).order_by(_QUOTES.c.quote_id)
        )

    def nodes(self) -> list[Row]:
        """The nodes, by name."""
        found = self._rows(NODES, select(schema.nodes))
        return sorted(found, key=lambda row: row["name"])  # databases differ in their collations

    def answer(self, user: str, key: str) -> Any:
        """What a user was answered to an idempotency key."""
        found = self._database.look_up(self._answer, (user, key))
        return decode_documents([found[0][0]])[0] if found else None

    def token(self, hashed: str) -> tuple[str, str] | None:
        """User and role of a token."""
        tokens = schema.tokens.c
        found = self._one(select(tokens.user, tokens.role).where(tokens.hash == hashed))
        return None if found is None else (found[0], found[1])

    def meta(self, name: str) -> str | None:
        """A value by its name."""
        found = self._one(select(schema.meta.c.value).where(schema.meta.c.name == name))
        return None if found is None else found[0]

    def _one(self, query: Select[*tuple[Any, ...]]) -> Any:
        with self._database.reading() as connection:
            return connection.execute(query).first()

    def _rows(self, codec: Codec, query: Select[Any]) -> list[Row]:
        with self._database.reading() as connection:
            found = connection.execute(query).all()
        return codec.decode(found)


def _some_events(after: int, limit: int, job: int | None, kinds: Collection[str]) -> Select[Any]:
    return (
        select(_EVENTS)
        .where(
            _EVENTS.c.event_id > after,
            true() if job is None else _EVENTS.c.job == job,
            _EVENTS.c.kind.in_(sorted(kinds)) if kinds else true(),
        )
        .order_by(_EVENTS.c.event_id)
        .limit(limit)
    )
