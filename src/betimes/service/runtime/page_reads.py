"""Reads of the pages, without a turn and without a new play-out for each of them.

Rows come from the store, ends and their order from the last forecast. While somebody looks, `renew` has the forecast
made again, rarely enough to take at most one part in `SHARE` of a core.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from betimes.errors import Unknown
from betimes.service.runtime.queue_order import Found, Group, Place, QueueOrder, Total
from betimes.service.runtime.seen import Seen
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.runtime.to_views import job_view
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.promises import INTERVAL
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.ends import End, last_end
from betimes.service.views.models import AccuracyView, By, JobFilter, JobStory, JobView

log = logging.getLogger(__name__)

RENEW_S = 2.0  # between two forecasts made for pages, at least
SHARE = 50  # likewise, in times of what the last one took
LATELY_S = 7 * 86_400.0  # of which the first page sums up promises
ACCOUNT_S = 30.0  # for which that sum is good enough, at least
MOST_RUNS = 5000  # in a window of the timeline
MOST_WAITING = 20_000  # jobs of the forecast in the timeline
RESERVED = "reserved"  # status of a start on nodes that are kept, or vacated, for a job


Ends = tuple[float, float, float]
"""The low end, the median and the high end of when a job ends, from now on."""


class Row(NamedTuple):
    """A job of the queue, or the first of an array or a pipeline."""

    job: JobView
    group: Group | None  # null: one job
    counts: dict[str, int]  # of a group: its live jobs by status
    end: End | None  # likewise: that of the last of them, as things stand; null: not known
    units: int  # likewise: in all, as in `Total`


class Queue(NamedTuple):
    """A page of the queue; `standing`: the live jobs on all of its pages by status."""

    rows: list[Row]
    following: Place | None
    standing: dict[str, Total]


class Span(NamedTuple):
    """A run, or a job that waits, in the timeline; NaN and null: not known."""

    job_id: int
    name: str
    user: str
    status: str
    places: list[tuple[str, int]]  # nodes and units; none: it waits
    from_at: float
    to_at: float  # of a run that goes on: when it is expected to end
    outcome: str | None = None
    grace: tuple[float, float] | None = None  # it was asked to leave, and must have left
    is_moved: bool = False  # the run before it was on other nodes


class _Kept(NamedTuple):
    """An order of the queue, and until when, by the monotonic clock, it is good enough."""

    order: QueueOrder
    until_s: float


class _KeptAccount(NamedTuple):
    """An account of promises, and until when, by the monotonic clock, it is good enough."""

    account: AccuracyView
    until_s: float


class _Orders:
    """The order of the queue; of a long one it may be some seconds old."""

    def __init__(self, backend: ServiceBackend) -> None:
        self._backend = backend
        self._kept: _Kept | None = None

    def of(self, live: list[Job]) -> QueueOrder:
        """The order of these jobs."""
        kept, began_s = self._kept, time.monotonic()
        if kept is None or began_s >= kept.until_s:
            order = QueueOrder(live, self._backend.promises.latest)
            now_s = time.monotonic()
            self._kept = kept = _Kept(order, now_s + SHARE * (now_s - began_s))
        return kept.order


class PageReads:
    """The service as the pages see it."""

    def __init__(self, backend: ServiceBackend) -> None:
        self.backend, self._controller, self.seen = backend, backend.controller, Seen(backend)
        self._renewing: asyncio.Future[Any] | None = None
        self._renewed_s = -RENEW_S
        self._kept_account: _KeptAccount | None = None
        self._orders = _Orders(backend)

    def of(self, seen: Seen) -> PageReads:
        """The same for a reader who sees that of the service; only this one has forecasts renewed."""
        if seen.only is None:
            return self
        made = copy.copy(self)
        made.seen = seen
        return made

    @property
    def now_at(self) -> float:
        """The present by the service's clock."""
        return self._controller.clock.now_s()

    @property
    def last_end_at(self) -> float:
        """The expected end of the last of the live jobs that are shown; the present if that is not known."""
        found, jobs = self.backend.promises.latest, self.backend.scheduler.ledger.jobs
        if found is None:
            return self.now_at
        is_known = np.isfinite(found.finish_at)
        if self.seen.only is not None:
            is_known &= [number in jobs and self.seen.shows(jobs[number].user) for number in found.job]
        return float(found.finish_at[is_known].max(initial=self.now_at))

    @property
    def runs_end_at(self) -> float:
        """The expected end of the last of the jobs that run and are shown; the present if that is not known."""
        found = self.backend.promises.latest
        jobs, shows = [*self.backend.scheduler.ledger.jobs.values()], self.seen.shows
        runs = [job.job_id for job in jobs if job.run is not None and shows(job.user)]
        ends = [end for number in runs if found is not None and (end := found.times(number)[1]) is not None]
        return max([self.now_at, *ends])

    def version(self) -> str:
        """Changes with everything that the pages show, but for the present."""
        forecast, advice = self.backend.promises.version, self.backend.adviser.version
        return f"{self._controller.store.last_event_id()}-{forecast}-{advice}"

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

    async def queue(
        self,
        wanted: JobFilter,
        pipeline: int | None = None,
        after: Place | None = None,
        *,
        fold: str = "",
        sort: str = "end",
        descends: bool = False,
    ) -> Queue:
        """The live jobs, by default in the order in which they are expected to end now. Raises StoreError.

        fold: one of `queue_order.FOLDS`; empty: pipelines, or as much of these as is not looked for. sort: `end`, or
        one of `queue_order.SORTS`.
        """
        shown = self.seen.filtered(wanted)
        if shown is None:
            return Queue([], None, {})
        wanted = shown
        store, jobs = self._controller.store, self.backend.scheduler.ledger.jobs
        live = [*jobs.values()]
        usual = "none" if wanted.array_id is not None else "array" if pipeline is not None else "pipeline"

        def read() -> tuple[list[Found], Mapping[int, Mapping[str, Any]], dict[str, Total]]:
            order = self._orders.of(live)
            is_wanted = order.wanted(jobs, wanted, pipeline)
            rows = order.page(jobs, is_wanted, fold or usual, after, sort, descends)
            found = list(islice(rows, wanted.limit + 1))
            return found, store.jobs_of([each.job for each in found]), order.standing(jobs, is_wanted)

        found, rows, standing = await asyncio.to_thread(read)
        following = found[wanted.limit - 1].place if len(found) > wanted.limit else None
        waiting, now_at = self.backend.scheduler.wait_reasons(self.backend.promises.latest), self.now_at
        return Queue(
            [
                Row(
                    self.seen.shown(job_view(rows[each.job], waiting, now_at)),
                    each.group,
                    each.counts,
                    last_end([end for job in each.last if (end := self._end(*job)) is not None]),
                    each.units,
                )
                for each in found[: wanted.limit]
                if each.job in rows
            ],
            following,
            standing,
        )

    def ends(self, job: JobView) -> Ends | None:
        """The end of a live job, as things stand now; three times the point where no interval is known; null: never."""
        expected_at = None if job.estimate is None else job.estimate.finish_at
        return None if expected_at is None else self.ends_of(job.job_id, expected_at)

    def ends_of(self, number: int, expected_at: float) -> Ends | None:
        """The same of a job that is expected to end at an instant; null: it is over."""
        end = self._end(number, expected_at)
        return None if end is None else self.from_now(end)

    def from_now(self, end: End) -> Ends:
        """The same of an end."""
        known = (end.finish_low_at, end.finish_median_at, end.finish_high_at)
        low_at, median_at, high_at = (max(self.now_at, end.finish_at if at is None else at) for at in known)
        return low_at, median_at, high_at

    def _end(self, number: int, expected_at: float) -> End | None:
        """The end of a job that is expected to end at an instant; null: it is over."""
        live = self.backend.scheduler.ledger.jobs.get(number)
        if live is None:
            return None
        scheduler, now_at, latest = self.backend.scheduler, self.now_at, self.backend.promises.latest
        start_at = None if latest is None else latest.times(number)[0]
        believed_at = math.nan if latest is None else latest.believed_end_at(number)
        errors, queue = scheduler.ledger.promise_errors, scheduler.queue
        earliest_at = scheduler.earliest_at(live, now_at)
        known = errors.around(live, now_at, start_at, expected_at, queue, earliest_at, believed_at).fields
        return End(expected_at, *(known.get(name) for name in INTERVAL))

    def earliest_at(self, number: int) -> float:
        """Before that instant a live job certainly does not begin, and so does not end; now, where nothing keeps it."""
        live = self.backend.scheduler.ledger.jobs.get(number)
        return self.now_at if live is None else self.backend.scheduler.earliest_at(live, self.now_at)

    async def over(self, wanted: JobFilter) -> list[JobView]:
        """Jobs of any status, newest first. Raises StoreError."""
        shown = self.seen.filtered(wanted)
        if shown is None:
            return []
        rows = await asyncio.to_thread(self._controller.store.jobs, shown)
        waiting, now_at = self.backend.scheduler.wait_reasons(self.backend.promises.latest), self.now_at
        return [self.seen.shown(job_view(row, waiting, now_at)) for row in rows]

    async def listed(self, number: int) -> JobView:
        """A job as lists show it. Raises Unknown, StoreError."""
        found = await self.over(JobFilter(after=number + 1, limit=1))
        if not found or found[0].job_id != number:
            raise Unknown(f"there is no job {number}")
        return found[0]

    async def live_of(self, kind: str, number: int) -> list[int]:
        """The numbers of the jobs of an array, or of the pipeline of a job, that are not over."""
        jobs = self.backend.scheduler.ledger.jobs
        live = [*jobs.values()]
        return await asyncio.to_thread(lambda: QueueOrder(live, None).jobs_of(jobs, kind, number))

    async def job(self, number: int) -> JobStory:
        """Everything about a job. Raises Unknown, StoreError."""
        return await self.seen.job(number, renews=False)

    async def accuracy(self, by: By) -> AccuracyView:
        """The accuracy of promises, also by user, name, policy or horizon. Raises StoreError."""
        return await self.seen.accuracy(None, 0.0, by, False)

    async def lately(self) -> AccuracyView:
        """The accuracy of the promises of the last `LATELY_S`, as of up to some minutes ago. Raises StoreError."""
        if self.seen.only is not None:
            return await self.seen.accuracy(LATELY_S, 0.0, None, False)
        began_s = time.monotonic()
        if self._kept_account is None or began_s >= self._kept_account.until_s:
            account = await self.backend.accuracy(LATELY_S, 0.0, None, False)
            now_s = time.monotonic()
            until_s = now_s + max(ACCOUNT_S, SHARE * (now_s - began_s))
            self._kept_account = _KeptAccount(account, until_s)
        return self._kept_account.account

    def is_running(self, number: int, run: int) -> bool:
        """Whether a run goes on."""
        job = self.backend.scheduler.ledger.jobs.get(number)
        return job is not None and job.run is not None and job.run.number == run

    def named(self, numbers: Iterable[int]) -> dict[int, tuple[str, str]]:
        """The names and users of jobs, by their numbers; of those that are not over, and are shown."""
        jobs = self.backend.scheduler.ledger.jobs
        found = [jobs[number] for number in numbers if number in jobs]
        return {job.job_id: (job.spec.title, job.user) for job in found if self.seen.shows(job.user)}

    async def held(self, from_at: float, to_at: float) -> list[tuple[float, float, float, float, float]]:
        """The latest `MOST_RUNS` runs in a window: from, until at most now, and the GPUs, cores and GiB they hold."""
        store, nodes, now_at = self._controller.store, self.backend.scheduler.ledger.nodes, self.now_at

        def read() -> list[tuple[float, float, float, float, float]]:
            rows = store.runs_between(from_at, to_at, MOST_RUNS)
            jobs = store.jobs_of(list({row["job_id"] for row in rows}))
            units = {number: JobSpec.model_validate(row["spec"]).unit for number, row in jobs.items()}
            found: list[tuple[float, float, float, float, float]] = []
            for row in rows:
                gpu = cpu = memory_gib = 0.0
                for name, count in row["places"]:
                    node = nodes.get(name)
                    needed = units[row["job_id"]].on(node.family if node is not None else "")
                    if needed is not None:
                        gpu, cpu = gpu + count * needed[0], cpu + count * needed[1]
                        memory_gib += count * needed[2]
                ended_at = row["ended_at"]
                until_at = ended_at if ended_at is not None else now_at
                found.append((row["started_at"], until_at, gpu, cpu, memory_gib))
            return found

        return await asyncio.to_thread(read)

    async def timeline(self, from_at: float, to_at: float) -> list[Span]:
        """Runs and expected runs in a window, the latest `MOST_RUNS` runs and the first `MOST_WAITING` others."""
        read, only = self._controller.store.runs_between, self.seen.only
        rows = await asyncio.to_thread(read, from_at, to_at, MOST_RUNS, only)
        found, jobs = self.backend.promises.latest, self.backend.scheduler.ledger.jobs
        now_at = self.now_at
        nodes_of = {(row["job_id"], row["number"]): {node for node, _ in row["places"]} for row in rows}
        spans: list[Span] = []
        for row in rows:
            number, run = row["job_id"], row["number"]
            before, job = nodes_of.get((number, run - 1)), jobs.get(number)
            is_moved = before not in (None, nodes_of[number, run])
            expected_at = found.times(number)[1] if found is not None else None
            grace = _grace(job) if job is not None and job.run is not None and job.run.number == run else None
            spans.append(_run(row, expected_at, now_at)._replace(grace=grace, is_moved=is_moved))
        if found is None or to_at <= now_at:
            return spans
        for number, start_at, finish_at in found.in_order_of_starts():
            job = jobs.get(number)
            if start_at >= to_at or len(spans) - len(rows) >= MOST_WAITING:
                break
            if job is None or job.run is not None or job.status is not Status.QUEUED or finish_at <= from_at:
                continue
            if not self.seen.shows(job.user):
                continue
            name, user = job.spec.title, job.user
            spans.append(Span(number, name, user, job.status.value, [], start_at, finish_at))
            if job.binding is not None:
                spans.append(Span(number, name, user, RESERVED, job.binding["places"], start_at, finish_at))
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
        row["outcome"],
    )


def _grace(job: Job) -> tuple[float, float] | None:
    """The grace period of a run that is stopping."""
    by_at = job.run.stop_by_at if job.run is not None and job.run.stopping else None
    return (by_at - job.spec.grace_s, by_at) if by_at is not None else None


def _heed(renewing: asyncio.Future[Any]) -> None:
    """Note a forecast that failed: the pages go on with the one before it."""
    if not renewing.cancelled() and (error := renewing.exception()) is not None:
        log.warning("no new forecast for the pages: %s", error)
