"""What the pages show, read without a turn and without a new play-out for each of them.

Rows come from the store, ends from the last forecast. While somebody looks, `renew` has the forecast made again, rarely
enough to take at most one part in `SHARE` of a core.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.runtime.to_views import job_view
from betimes.service.scheduling.job_states import Status
from betimes.service.store.databases.schema import LIVE
from betimes.service.store.listing import Place
from betimes.service.views.models import AccuracyView, By, JobFilter, JobStory, JobView

log = logging.getLogger(__name__)

RENEW_S = 2.0  # between two forecasts made for pages, at least
SHARE = 50  # likewise, in times of what the last one took
MOST_RUNS = 5000  # in a window of the timeline
MOST_WAITING = 20_000  # jobs of the forecast in the timeline


class Row(NamedTuple):
    """A job of the queue, or the first of an array with the numbers of all of its live jobs by status."""

    job: JobView
    folded: dict[str, int]  # empty: one job
    last_at: float | None  # of an array: the last promised end


class Queue(NamedTuple):
    """A page of the queue; `standing`: the live jobs on all of its pages by status."""

    rows: list[Row]
    following: Place | None
    standing: dict[str, int]


class Span(NamedTuple):
    """A run, or a job that waits, in the timeline; NaN and null: not known."""

    job_id: int
    name: str
    user: str
    status: str
    places: list[tuple[str, int]]  # nodes and units; none: it waits
    from_at: float
    to_at: float  # of a run that goes on: when it is expected to end
    is_over: bool
    outcome: str | None


class PageReads:
    """The service as the pages see it."""

    def __init__(self, backend: ServiceBackend) -> None:
        self.backend, self._controller = backend, backend.controller
        self._renewing: asyncio.Future[Any] | None = None
        self._renewed_s = -RENEW_S

    @property
    def now_at(self) -> float:
        """The present by the service's clock."""
        return self._controller.clock.now_s()

    @property
    def last_end_at(self) -> float:
        """When the last of the live jobs is expected to end; the present if that is not known."""
        found = self.backend.promises.latest
        known = found.finish_at[np.isfinite(found.finish_at)] if found is not None else np.empty(0)
        return float(known.max(initial=self.now_at))

    def version(self) -> str:
        """Changes with everything that the pages show, but for the present."""
        return f"{self._controller.store.last_event_id()}-{self.backend.promises.version}"

    def renew(self) -> None:
        """Have the forecast brought up to date, if it is not and it is time; returns at once."""
        promises, scheduler = self.backend.promises, self._controller.scheduler
        is_busy = self._renewing is not None and not self._renewing.done()
        pause_s = RENEW_S if promises.latest is None else max(RENEW_S, SHARE * promises.usual_s)
        is_fresh = promises.latest is not None and promises.version >= scheduler.version
        if is_busy or is_fresh or scheduler.stands_by or time.monotonic() - self._renewed_s < pause_s:
            return
        self._renewed_s = time.monotonic()
        self._renewing = asyncio.ensure_future(promises.forecast())
        self._renewing.add_done_callback(_heed)

    async def queue(self, wanted: JobFilter, after: Place | None) -> Queue:
        """The live jobs in the order of their promised ends. Raises StoreError."""
        store, more = self._controller.store, wanted.model_copy(update={"limit": wanted.limit + 1})

        def read() -> tuple[list[Any], list[Any], dict[str, int]]:
            rows = store.queue(more, after)
            ids = [] if wanted.array_id is not None else [row["array_id"] for row in rows if row["array_id"]]
            return rows, store.arrays(wanted, ids), store.standing(wanted)

        rows, arrays, standing = await asyncio.to_thread(read)
        following = None
        if len(rows) > wanted.limit:
            rows = rows[: wanted.limit]
            following = rows[-1]["promised_finish_at"], rows[-1]["job_id"]
        waiting = self.backend.scheduler.wait_reasons(self.backend.promises.latest)
        folded: dict[int, dict[str, int]] = {}
        last_at: dict[int, float] = {}
        for row in arrays:
            folded.setdefault(row["array_id"], {})[row["status"]] = row["jobs"]
            if row["last_at"] is not None:
                last_at[row["array_id"]] = max(row["last_at"], last_at.get(row["array_id"], 0.0))
        return Queue(
            [
                Row(job_view(row, waiting), folded.get(row["array_id"], {}), last_at.get(row["array_id"]))
                for row in rows
            ],
            following,
            standing,
        )

    async def over(self, wanted: JobFilter) -> list[JobView]:
        """Jobs of any status, newest first. Raises StoreError."""
        rows = await asyncio.to_thread(self._controller.store.jobs, wanted)
        waiting = self.backend.scheduler.wait_reasons(self.backend.promises.latest)
        return [job_view(row, waiting) for row in rows]

    async def live_of_array(self, array_id: int, most: int) -> list[int]:
        """The numbers of the jobs of an array that are not over."""
        wanted = JobFilter(array_id=array_id, status=[Status(status) for status in LIVE], limit=most)
        return [row["job_id"] for row in await asyncio.to_thread(self._controller.store.jobs, wanted)]

    async def job(self, number: int) -> JobStory:
        """Everything about a job. Raises Unknown, StoreError."""
        return await self.backend.job(number, renews=False)

    async def accuracy(self, by: By) -> AccuracyView:
        """How well promises held, also by user, name, policy or horizon. Raises StoreError."""
        return await self.backend.accuracy(None, 0.0, by, False)

    def is_running(self, number: int, run: int) -> bool:
        """Whether a run goes on."""
        job = self.backend.scheduler.ledger.jobs.get(number)
        return job is not None and job.run is not None and job.run.number == run

    async def timeline(self, from_at: float, to_at: float) -> list[Span]:
        """Runs and expected runs in a window, the latest `MOST_RUNS` runs and the first `MOST_WAITING` others."""
        rows = await asyncio.to_thread(self._controller.store.runs_between, from_at, to_at, MOST_RUNS)
        found, jobs = self.backend.promises.latest, self.backend.scheduler.ledger.jobs
        now_at = self.now_at
        spans = [
            _run(row, found.times(row["job_id"])[1] if found is not None else None, now_at) for row in rows
        ]
        if found is None or to_at <= now_at:
            return spans
        for number, start_at, finish_at in found.in_order_of_starts():
            job = jobs.get(number)
            if start_at >= to_at or len(spans) - len(rows) >= MOST_WAITING:
                break
            if job is None or job.run is not None or job.status is not Status.QUEUED or finish_at <= from_at:
                continue
            status, spec = job.status.value, job.spec
            spans.append(Span(number, spec.title, job.user, status, [], start_at, finish_at, False, None))
        return spans


def _run(row: Mapping[str, Any], expected_at: float | None, now_at: float) -> Span:
    ended_at = row["ended_at"]
    to_at = ended_at if ended_at is not None else max(now_at, expected_at or now_at)
    places = [(node, units) for node, units in row["places"]]
    return Span(
        row["job_id"],
        row["name"],
        row["user"],
        row["status"],
        places,
        row["started_at"],
        to_at,
        ended_at is not None,
        row["outcome"],
    )


def _heed(renewing: asyncio.Future[Any]) -> None:
    """Note a forecast that failed: the pages go on with the one before it."""
    if not renewing.cancelled() and (error := renewing.exception()) is not None:
        log.warning("no new forecast for the pages: %s", error)
