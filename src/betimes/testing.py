"""A service in memory for tests: jobs only take time, and time passes only when the test says so.

>>> from betimes.testing import InMemoryService
>>> with InMemoryService() as service:
...     job = service.submit(command=["train"], work_s=600).job_id
...     service.finish()
...     service.job(job).job.finished_at
600.0
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, Literal, Self, TypeVar, Unpack

from betimes.client.calls import Conditions, uploaded
from betimes.client.models import spec_of
from betimes.cluster import Cluster
from betimes.errors import ServiceError, Unknown
from betimes.service.executors.virtual import EXIT_CODE, WORK
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.replay import machines_for
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.uploads.archive import pack
from betimes.service.views.models import (
    AccuracyView,
    By,
    EventView,
    FleetPlanView,
    FleetView,
    HelpsView,
    JobFilter,
    JobStory,
    JobView,
    MaintenanceSpec,
    MaintenanceView,
    NodeView,
    PolicyView,
    Quote,
    Submitted,
    Uploaded,
    UsageView,
    WhatIfSpec,
    WhatIfView,
)

T = TypeVar("T")

WEEK_S = 7 * 86_400.0
MOST_NAMED = 5  # jobs in a message


class InMemoryService:
    """The service with its store, clock, nodes and cloud in memory; nothing is run, and no file outlives it.

    The scheduler, the policies, the promises and the events are those of the real service. Time begins at 0 s and
    stands still: `advance` and `finish` let it pass. Use it in a `with` statement; its methods block, so within a
    coroutine it refuses to work. Errors are those of `betimes.Client`.

    cluster: the nodes, and the machines that a fake cloud offers; by default a pool of four cores. policy: one that the
    service knows by name. restart_s: what a job loses when its units change. seed: of what a policy decides by lot.
    user: who submits. resources: how much there is of what it counts besides machines.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        policy: str = "fifo",
        restart_s: float = 0.0,
        seed: int = 0,
        user: str = "tester",
        resources: Mapping[str, int] | None = None,
    ) -> None:
        self._cluster = Cluster.pool(4) if cluster is None else cluster
        self._policy, self._user = policy, user
        self._settings = Settings(restart_s=restart_s, seed=seed, resources=dict(resources or {}))
        self._runner: asyncio.Runner | None = None
        self._open = AsyncExitStack()
        self._assembly: Assembly | None = None

    def __enter__(self) -> Self:
        """Start the service. Raises PolicyError, ClusterError."""
        if self._assembly is not None:
            raise ServiceError("the service has been started already; make another one")
        self._runner = asyncio.Runner()
        try:
            self._assembly = self._do(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the service: jobs that are not over are forgotten."""
        if self._runner is not None:
            self._do(self._open.aclose())
            self._runner.close()
            self._runner = None

    @property
    def now_s(self) -> float:
        """Seconds since the service was started."""
        return self._parts.clock.now_s()

    def submit(
        self,
        spec: JobSpec | None = None,
        /,
        *,
        work_s: float | None = None,
        exit_code: int = 0,
        **fields: Any,
    ) -> Submitted:
        """Submit a job, given as a JobSpec or by its fields; it starts at this instant if it can.

        work_s: seconds that it truly takes on one unit, half as long on two; by default its `estimate_s` on all of
        its units, else 60. exit_code: what it exits with then. Raises Refused, Unknown.
        """
        given = spec_of(spec, fields)
        truth = {WORK: repr(float(work_s))} if work_s is not None else {}
        truth |= {EXIT_CODE: str(exit_code)} if exit_code else {}
        complete = given.model_copy(update={"env": {**given.env, **truth}})
        return self._ask(self._parts.backend.submit([complete], self._user))[0]

    def quote(self, spec: JobSpec | None = None, /, **fields: Any) -> Quote:
        """What a job would be promised if it were submitted now. Raises Refused, Unknown."""
        return self._ask(self._parts.backend.quote(spec_of(spec, fields), self._user))

    def upload(self, folder: str | Path) -> Uploaded:
        """Send a directory, for jobs that name its `sha256` as `upload`. Raises InputError."""
        return self._ask(self._upload(Path(folder)))

    async def _upload(self, folder: Path) -> Uploaded:
        backend = self._parts.backend
        with TemporaryFile() as archive:
            packed = pack(folder, archive, backend.upload_limits.most_bytes)
            try:
                await backend.upload(packed.sha256)
            except Unknown:
                archive.seek(0)
                await backend.receive_upload(packed.sha256, _all_of(archive))
                return Uploaded(**uploaded(folder, packed, sent=True))
        return Uploaded(**uploaded(folder, packed, sent=False))

    def job(self, job: int) -> JobStory:
        """A job with its promises, runs and events. Raises Unknown."""
        return self._ask(self._parts.backend.job(job))

    def helps(self, job: int, within_s: float = 60.0) -> HelpsView:
        """What would help a job that waits; within_s: processor time for the tries. Raises Unknown."""
        return self._ask(self._parts.backend.helps(job, within_s))

    def jobs(self, **which: Unpack[Conditions]) -> Sequence[JobView]:
        """Jobs, newest first; at most 100, or `limit`."""
        return self._ask(self._parts.backend.jobs(JobFilter(**which))).items  # pyright: ignore[reportArgumentType]

    def events(self, job: int | None = None, kinds: Sequence[str] = ()) -> Sequence[EventView]:
        """The event log, oldest first; at most 10,000 events."""
        return self._ask(self._parts.backend.events(0, 10_000, job, tuple(kinds))).items

    def report_progress(self, job: int, done: float, total: float) -> None:
        """A job says how far it is, as with `betimes.progress`. Raises Unknown; Conflict for one that does not run."""
        runs = self.job(job).runs
        self._ask(self._parts.backend.progress(job, runs[-1].number if runs else 0, done, total))

    def cancel(self, *jobs: int) -> Sequence[JobView]:
        """Cancel jobs, all or none. Raises Unknown; Conflict for one that is over."""
        return self._ask(self._parts.backend.steer("cancel", jobs, self._user))

    def hold(self, *jobs: int) -> Sequence[JobView]:
        """Keep jobs from starting, all or none. Raises Unknown; Conflict for one that does not wait."""
        return self._ask(self._parts.backend.steer("hold", jobs, self._user))

    def release(self, *jobs: int) -> Sequence[JobView]:
        """Let held jobs start, all or none. Raises Unknown; Conflict for one that is not held."""
        return self._ask(self._parts.backend.steer("release", jobs, self._user))

    def requeue(self, *jobs: int) -> Sequence[JobView]:
        """Stop jobs that run, and start them again, all or none. Raises Unknown; Conflict for one that does not run."""
        return self._ask(self._parts.backend.steer("requeue", jobs, self._user))

    def suspend(self, *jobs: int) -> Sequence[JobView]:
        """Suspend jobs that run, and keep their units, all or none. Raises Unknown; Conflict for one that cannot be."""
        return self._ask(self._parts.backend.steer("suspend", jobs, self._user))

    def resume(self, *jobs: int) -> Sequence[JobView]:
        """Let suspended jobs go on, all or none. Raises Unknown; Conflict for one that is not suspended."""
        return self._ask(self._parts.backend.steer("resume", jobs, self._user))

    def edit(self, *jobs: int, **changes: Any) -> Sequence[JobView]:
        """Change jobs by fields of `JobChanges`, all or none. Raises Unknown, Conflict, Refused."""
        return self._ask(self._parts.backend.edit(jobs, JobChanges(**changes), self._user))

    def nodes(self) -> Sequence[NodeView]:
        """The nodes."""
        return self._ask(self._parts.backend.nodes())

    def drain(self, node: str) -> NodeView:
        """Start nothing more on a node. Raises Unknown, Conflict."""
        return self._ask(self._parts.backend.drain(node, self._user))

    def undrain(self, node: str) -> NodeView:
        """Use a drained node again. Raises Unknown, Conflict."""
        return self._ask(self._parts.backend.undrain(node, self._user))

    def maintenance(self) -> Sequence[MaintenanceView]:
        """Windows of maintenance that are announced or go on, the next first."""
        return self._ask(self._parts.backend.maintenance())

    def add_maintenance(
        self, from_at: float, to_at: float, *, nodes: Sequence[str] = (), reason: str = "", stop: bool = False
    ) -> MaintenanceView:
        """Announce maintenance, on all owned nodes if none are named. Raises Refused, Unknown."""
        spec = MaintenanceSpec(from_at=from_at, to_at=to_at, nodes=[*nodes], reason=reason, stop=stop)
        return self._ask(self._parts.backend.add_maintenance(spec, self._user))

    def remove_maintenance(self, number: int) -> MaintenanceView:
        """Call maintenance off, or end it early. Raises Unknown."""
        return self._ask(self._parts.backend.remove_maintenance(number, self._user))

    def policy(self) -> PolicyView:
        """The policy in force."""
        return self._ask(self._parts.backend.policy())

    def fleet(self) -> FleetView:
        """What is rented, and what it costs."""
        return self._ask(self._parts.backend.fleet())

    def fleet_plan(self) -> FleetPlanView:
        """What the policy would change now. Raises Conflict for one that does not plan in rounds."""
        return self._ask(self._parts.backend.fleet_plan())

    def what_if(self, asked: WhatIfSpec | None = None, /, **fields: Any) -> WhatIfView:
        """Who would finish when after changes, given as a WhatIfSpec or by its fields; nothing is changed."""
        spec = asked if asked is not None else WhatIfSpec(**fields)
        return self._ask(self._parts.backend.what_if(spec, self._user))

    def accuracy(
        self,
        since_s: float | None = None,
        until_s: float = 0.0,
        *,
        by: By | None = None,
        promises: bool = False,
    ) -> AccuracyView:
        """How well promises held. Raises Refused for a period that ends before it begins."""
        return self._ask(self._parts.backend.accuracy(since_s, until_s, by, promises))

    def usage(
        self,
        since_s: float | None = None,
        until_s: float = 0.0,
        *,
        by: Literal["user", "name", "label", "account"] | None = None,
    ) -> UsageView:
        """What jobs used. Raises Refused for a period that ends before it begins."""
        return self._ask(self._parts.backend.usage(since_s, until_s, by))

    def set_policy(self, policy: str) -> PolicyView:
        """Decide by another policy from now on. Raises PolicyError, Conflict."""
        return self._ask(self._parts.backend.set_policy(policy, self._user))

    def advance(self, for_s: float) -> None:
        """Let so many seconds pass: what is due until then happens, each at its own instant."""
        if not 0.0 <= for_s < math.inf:
            raise ValueError(f"advance({for_s}): expected seconds, 0 or more; `finish` goes on to the end")
        self._do(self._parts.advance_to(self.now_s + for_s))

    def finish(self, limit_s: float = WEEK_S) -> None:
        """Let time pass until every job is over. Raises TimeoutError, with what they wait for, if nothing happens that
        would let them end, or not within `limit_s`.
        """
        parts, until_s = self._parts, self.now_s + limit_s
        while parts.controller.scheduler.ledger.jobs:
            due_s = parts.controller.next_due_at()
            if due_s > until_s or due_s == math.inf:
                raise TimeoutError(self._unfinished(limit_s, due_s))
            self._do(parts.advance_to(due_s))

    @property
    def _parts(self) -> Assembly:
        if self._assembly is None or self._runner is None:
            state = "has not been started" if self._assembly is None else "has ended"
            raise ServiceError(f"the service {state}; use it within `with InMemoryService() as service:`")
        return self._assembly

    async def _start(self) -> Assembly:
        cluster = self._cluster
        folder = self._open.enter_context(TemporaryDirectory(prefix="betimes-testing-"))
        service = assembled(
            machines_for(cluster) if cluster.groups else (),
            self._policy,
            Path(folder),
            clock=VirtualClock(0.0, 0.0),
            settings=self._settings,
            cloud=cloud_of(cluster) if cluster.offers else None,
        )
        assembly = await self._open.enter_async_context(service)
        await assembly.settle()
        return assembly

    def _ask(self, answer: Coroutine[Any, Any, T]) -> T:
        """Answer a request, and let everything happen that it brings about at this instant."""

        async def settled() -> T:
            found = await answer
            await self._parts.settle()
            return found

        return self._do(settled())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._runner is not None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._runner.run(work)
        work.close()
        raise ServiceError(
            "InMemoryService blocks, and an event loop is running here; use it in a function that is not `async`"
        )

    def _unfinished(self, limit_s: float, due_s: float) -> str:
        left = sorted(self._parts.controller.scheduler.ledger.jobs)
        lines: list[str] = []
        for number in left[:MOST_NAMED]:
            view = self.job(number).job
            why = f": {view.reason.text}" if view.reason is not None else ""
            lines.append(f"job {number} is {view.status}{why}")
        if len(left) > MOST_NAMED:
            lines.append(f"{len(left) - MOST_NAMED} more are not over")
        when = "nothing more is due" if due_s == math.inf else f"{limit_s:,.0f} s have passed"
        return f"{when} at {self.now_s:,.0f} s: " + "; ".join(lines)


async def _all_of(archive: IO[bytes]) -> AsyncIterator[bytes]:
    yield archive.read()
