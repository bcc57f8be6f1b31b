"""What every store offers, on disk or in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from betimes.service.scheduling.events import Event
from betimes.service.store.batch import Batch, Row, Snapshot

if TYPE_CHECKING:
    from betimes.service.views.models import JobFilter


class Storage(Protocol):
    """A store: one writer, any number of readers; every method may be called from any thread."""

    @property
    def log_id(self) -> str:
        """What tells this log from all others."""
        ...

    @property
    def damaged(self) -> list[int]:
        """The events of the snapshots that `latest_snapshot` found damaged."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a look-up is a round trip to a server, for which an event loop should not wait."""
        ...

    @property
    def is_in_memory(self) -> bool:
        """Whether a commit waits for no disk, so that it needs no thread of its own."""
        ...

    @property
    def archived_upto(self) -> int:
        """The last event that is kept in a file only; 0: none is."""
        ...

    def commit(self, batch: Batch) -> None:
        """Write all of `batch` or nothing; durable when it returns."""
        ...

    def probe(self) -> None:
        """Write as much as a large submission takes, and keep nothing of it; raises as `commit` does."""
        ...

    def events(
        self, after: int = 0, limit: int = 1000, job: int | None = None, kinds: Collection[str] = ()
    ) -> list[Event]:
        """The next `limit` events after event `after`, oldest first; none of `kinds`: all of them."""
        ...

    def each_event(self, after: int = 0, page: int = 5000) -> Iterator[Event]:
        """All events after event `after`, `page` of them at a time, as recovery reads them."""
        ...

    def last_event_id(self) -> int:
        """The number of the newest event; 0: there is none."""
        ...

    def job(self, job_id: int) -> Row | None:
        """The row of a job; None: there is none."""
        ...

    def jobs(self, wanted: JobFilter) -> list[Row]:
        """The jobs that meet every condition of `wanted`, newest first, at most `wanted.limit`."""
        ...

    def uploads(self) -> set[str]:
        """The SHA-256 of every directory that a job names which the store knows."""
        ...

    def jobs_of(self, job_ids: Sequence[int]) -> dict[int, Row]:
        """The rows of jobs, by their numbers; those that there are."""
        ...

    def live_jobs(self) -> list[Row]:
        """The jobs that are not over, oldest first."""
        ...

    def runs(self, job_id: int) -> list[Row]:
        """The runs of a job, first one first."""
        ...

    def quotes(self, job_id: int) -> list[Row]:
        """The quotes of a job, first one first."""
        ...

    def nodes(self) -> list[Row]:
        """The nodes, by name."""
        ...

    def answer(self, user: str, key: str) -> Any:
        """What `user` was answered to idempotency key `key`; None: nothing yet."""
        ...

    def add_token(self, hashed: str, user: str, role: str) -> None:
        """Keep a token, hashed; a token of that hash changes user and role."""
        ...

    def token(self, hashed: str) -> tuple[str, str] | None:
        """User and role of a token; None: there is none."""
        ...

    def meta(self, name: str) -> str | None:
        """What a batch wrote under `name`; None: nothing."""
        ...

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that is what was written; damaged ones are skipped and listed in `damaged`."""
        ...

    def archive(self, upto_event: int) -> Path:
        """Move the events up to `upto_event`, which a sound snapshot must include, to a file; returns the file."""
        ...

    def retain(self, over_before_at: float, batch: int = 1000) -> int:
        """Remove jobs that ended before that instant, with runs, quotes and old answers; returns how many jobs."""
        ...

    def close(self) -> None:
        """Give up ownership and every connection."""
        ...
