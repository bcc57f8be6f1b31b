"""The interface of the service to the API: `ServiceBackend` has it, and the tests' fake."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from betimes.service.executors.log_files import LogReader
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.view import TuningView
from betimes.service.views.models import (
    AccuracyView,
    By,
    EventView,
    FleetPlanView,
    FleetView,
    Health,
    HelpsView,
    JobFilter,
    JobStory,
    JobView,
    Lease,
    NodeSpec,
    NodeView,
    Page,
    PolicyView,
    PortfolioView,
    Quote,
    Submitted,
    TuneSpec,
    UploadLimits,
    UploadView,
    WhatIfSpec,
    WhatIfView,
)


class Backend(Protocol):
    """The service, as the API sees it. Calls may overlap; errors are those of `betimes.errors`."""

    async def submit(self, specs: Sequence[JobSpec], user: str, key: str | None = None) -> list[Submitted]:
        """Take all of the jobs, or none; the same key again gives the same answer. Raises Refused, Conflict."""
        ...

    async def quote(self, spec: JobSpec, user: str) -> Quote:
        """A job's promise if submitted now. Raises Refused."""
        ...

    @property
    def upload_limits(self) -> UploadLimits:
        """How large a directory may be."""
        ...

    @property
    def most_upload_bytes(self) -> int:
        """How large the archive of a directory may be."""
        ...

    async def upload(self, sha256: str) -> UploadView:
        """A directory that was sent. Raises Unknown."""
        ...

    async def receive_upload(self, sha256: str, pieces: AsyncIterator[bytes]) -> UploadView:
        """Take the archive of a directory. Raises Refused for one that cannot be used, Unavailable for want of room."""
        ...

    async def cancel(self, ids: Sequence[int], user: str, where_possible: bool = False) -> list[JobView]:
        """End jobs. Raises Unknown, Conflict."""
        ...

    async def hold(self, ids: Sequence[int], user: str, where_possible: bool = False) -> list[JobView]:
        """Keep jobs from starting. Raises Unknown, Conflict."""
        ...

    async def release(self, ids: Sequence[int], user: str, where_possible: bool = False) -> list[JobView]:
        """Let held jobs start. Raises Unknown, Conflict."""
        ...

    async def progress(self, job: int, attempt: int, done: float, total: float) -> None:
        """How far a run has come. Raises Unknown, Conflict."""
        ...

    def check_run_token(self, job: int, attempt: int, token: str) -> bool:
        """Whether a token is that of exactly this run; compares in constant time, and reads no database."""
        ...

    async def jobs(self, which: JobFilter, /) -> Page[JobView]:
        """Some of the jobs, newest first."""
        ...

    async def job(self, number: int, /) -> JobStory:
        """Everything about a job. Raises Unknown."""
        ...

    async def helps(self, number: int, within_s: float, /) -> HelpsView:
        """What would help a job that waits, tried within so much processor time. Raises Unknown."""
        ...

    async def open_log(self, number: int, attempt: int | None, rank: int, tail: int | None, /) -> LogReader:
        """A run's output on one of its nodes, or so many of the last lines. Raises Unknown."""
        ...

    async def nodes(self) -> list[NodeView]:
        """Every node."""
        ...

    async def add_nodes(self, spec: NodeSpec, user: str) -> list[NodeView]:
        """Add nodes. Raises Refused, Conflict."""
        ...

    async def drain(self, name: str, user: str) -> NodeView:
        """Start nothing more on a node. Raises Unknown, Conflict."""
        ...

    async def undrain(self, name: str, user: str) -> NodeView:
        """Use a node again. Raises Unknown, Conflict."""
        ...

    async def heartbeat(self, name: str) -> Lease:
        """A heartbeat; the next one must come within the lease. Raises Unknown, Conflict."""
        ...

    async def policy(self) -> PolicyView:
        """The policy in force."""
        ...

    async def set_policy(self, text: str, user: str) -> PolicyView:
        """Decide by another policy from now on, or by a point of the latest front. Raises PolicyError, Conflict."""
        ...

    async def fleet(self) -> FleetView:
        """The rented fleet and its cost."""
        ...

    async def fleet_plan(self) -> FleetPlanView:
        """The policy's next changes. Raises Conflict for one that does not plan in rounds."""
        ...

    async def portfolio(self, last: int) -> PortfolioView:
        """The newest selections of portfolios, newest first."""
        ...

    async def what_if(self, asked: WhatIfSpec, user: str) -> WhatIfView:
        """Who would finish when after changes, which are not made.

        Raises Refused, Unknown, Conflict and PolicyError as the changes would.
        """
        ...

    async def accuracy(
        self, since_s: float | None, until_s: float, by: By | None, listed: bool
    ) -> AccuracyView:
        """How well the promises of a period held, from so long ago (null: from the first) until so long ago.

        Raises Refused for a period that ends before it begins.
        """
        ...

    async def tune(self, spec: TuneSpec, user: str) -> TuningView:
        """Begin a search, in the place of one that is going on. Raises Refused, Conflict."""
        ...

    async def tuning(self) -> TuningView:
        """The search that is going on, and the latest front."""
        ...

    async def stop_tuning(self) -> TuningView:
        """Let the search end with the front so far. Raises Conflict where none is going on."""
        ...

    async def events(
        self, after: int, limit: int, job: int | None, kinds: tuple[str, ...]
    ) -> Page[EventView]:
        """Lines of the event log, oldest first."""
        ...

    def watch(self, after: int) -> AsyncIterator[EventView]:
        """Every event past `after`: from the log, then as they happen, without gaps. A slow reader has a bounded number
        of events in memory, and the rest is read from the log.
        """
        ...

    async def health(self) -> Health:
        """Whether work can be taken."""
        ...
