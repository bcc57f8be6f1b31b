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
import secrets
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar, overload

import httpx

from betimes.client import Client
from betimes.client.calls import Way
from betimes.client.models import spec_of
from betimes.cluster import Cluster
from betimes.errors import ServiceError
from betimes.service.access.address import Found
from betimes.service.access.auth import Tokens
from betimes.service.api import create_app
from betimes.service.executors.virtual import EXIT_CODE, WORK
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.replay import machines_for
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.groups import parse_groups
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.queues import parse_queues
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.views.models import JobView, Submitted

T = TypeVar("T")

WEEK_S = 7 * 86_400.0
MOST_NAMED = 5  # jobs in a message
URL = "http://127.0.0.1"  # at which nothing listens


class InMemoryService(Client):
    """A client with its service: store, clock, nodes and cloud are in memory, nothing is run, and no file outlives it.

    It is a `betimes.Client`: each call is a request to the API of the real service, in this process, and has the same
    arguments, answers and errors. Time begins at 0 s and stands still: `advance`, `finish` and `wait` let it pass, and
    what follows (`logs` and `events` with `follow=True`) is refused. Use it in a `with` statement; its methods block,
    so within a coroutine it refuses to work.

    cluster: the nodes, and the machines that a fake cloud offers; by default a pool of four cores. policy: one that the
    service knows by name. restart_s: what a job loses when its units change. seed: of what a policy decides by lot.
    user: who submits. resources: how much there is of what it counts besides machines. queues, groups: as tables of
    the settings.
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
        queues: Sequence[Mapping[str, Any]] = (),
        groups: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._token = secrets.token_urlsafe()
        super().__init__(URL, self._token, transport=httpx.MockTransport(self._answer))
        # The state directory of a service of the user's is not read, and a call that fails is not made again: the wall
        # clock changes nothing here.
        self._way = Way(lambda: Found(URL, self._token), patience_s=0.0)
        self._cluster = Cluster.pool(4) if cluster is None else cluster
        self._policy, self._user = policy, user
        self._settings = Settings(
            restart_s=restart_s,
            seed=seed,
            resources=dict(resources or {}),
            queues=parse_queues(queues),
            groups=parse_groups(groups),
        )
        self._runner: asyncio.Runner | None = None
        self._open = AsyncExitStack()
        self._lock = threading.Lock()  # as a `Client`, it may be shared by threads; the event loop may not
        self._assembly: Assembly | None = None
        self._api: httpx.ASGITransport | None = None

    def __enter__(self) -> Self:
        """Start the service. Raises PolicyError, ClusterError."""
        if self._assembly is not None:
            raise ServiceError("the service has been started already; make another one")
        self._runner = asyncio.Runner()
        try:
            self._do(self._start())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End the service: jobs that are not over are forgotten."""
        if self._runner is not None:
            self._do(self._open.aclose())
            self._runner.close()
            self._runner = None

    @property
    def now_s(self) -> float:
        """Seconds since the service was started."""
        return self._parts.clock.now_s()

    @overload
    def submit(
        self,
        spec: JobSpec,
        /,
        *,
        key: str | None = None,
        work_s: float | None = None,
        exit_code: int = 0,
    ) -> Submitted: ...

    @overload
    def submit(
        self,
        spec: Sequence[JobSpec],
        /,
        *,
        key: str | None = None,
        work_s: float | None = None,
        exit_code: int = 0,
    ) -> list[Submitted]: ...

    @overload
    def submit(
        self,
        /,
        *,
        key: str | None = None,
        work_s: float | None = None,
        exit_code: int = 0,
        **fields: Any,
    ) -> Submitted: ...

    def submit(
        self,
        spec: JobSpec | Sequence[JobSpec] | None = None,
        /,
        *,
        key: str | None = None,
        work_s: float | None = None,
        exit_code: int = 0,
        **fields: Any,
    ) -> Submitted | list[Submitted]:
        """Submit a job, given as a JobSpec or by its fields, or several; they start at this instant if they can.

        work_s: seconds that each truly takes on one unit, half as long on two; by default its `estimate_s` on all of
        its units, else 60. exit_code: what it exits with then. All else, errors too, is as in `Client.submit`.
        """
        truth = {WORK: repr(float(work_s))} if work_s is not None else {}
        truth |= {EXIT_CODE: str(exit_code)} if exit_code else {}
        if isinstance(spec, Sequence):
            return super().submit([_with(each, truth) for each in spec], key=key)
        return super().submit(_with(spec_of(spec, fields), truth), key=key)

    def report_progress(self, job: int, done: float, total: float) -> None:
        """A job says how far it is, as with `betimes.progress`. Raises Unknown; Conflict for one that does not run."""
        runs, service = self.job(job).runs, self._parts
        self._do(service.backend.progress(job, runs[-1].number if runs else 0, done, total))
        self._do(service.settle())

    def wait(self, job: int, timeout: float | None = None) -> JobView:
        """Let time pass until a job is over. Raises Unknown; TimeoutError, with the job's reason, after `timeout`
        seconds of the service's time, or at once if nothing is due that would let it end.
        """
        limit_s = math.inf if timeout is None else timeout
        until_s = self.now_s + limit_s
        while not (view := self.job(job).job).status.is_over:
            self._go_on(until_s, limit_s, [job])
        return view

    def advance(self, for_s: float) -> None:
        """Let so many seconds pass: what is due until then happens, each at its own instant."""
        if not 0.0 <= for_s < math.inf:
            raise ValueError(f"advance({for_s}): expected seconds, 0 or more; `finish` goes on to the end")
        self._do(self._parts.advance_to(self.now_s + for_s))

    def finish(self, limit_s: float = WEEK_S) -> None:
        """Let time pass until every job is over. Raises TimeoutError, with the jobs' reasons, after `limit_s`, or at
        once if nothing is due that would let them end.
        """
        until_s = self.now_s + limit_s
        while jobs := self._parts.controller.scheduler.ledger.jobs:
            self._go_on(until_s, limit_s, jobs)

    def _go_on(self, until_s: float, limit_s: float, jobs: Iterable[int]) -> None:
        """Let time pass to the next thing that is due, by `until_s`. jobs: that have to be over, for the error."""
        due_s = self._parts.controller.next_due_at()
        if due_s < math.inf:
            self._do(self._parts.advance_to(min(due_s, until_s)))
        if due_s > until_s or due_s == math.inf:
            raise TimeoutError(self._unfinished(limit_s, due_s, sorted(jobs)))

    @property
    def _parts(self) -> Assembly:
        if self._assembly is None or self._runner is None:
            state = "has not been started" if self._assembly is None else "has ended"
            raise ServiceError(f"the service {state}; use it within `with InMemoryService() as service:`")
        return self._assembly

    async def _start(self) -> None:
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
        tokens = Tokens(assembly.store, assembly.backend.role_of)
        tokens.admit(self._token, self._user)
        self._assembly, self._api = assembly, httpx.ASGITransport(create_app(assembly.backend, tokens))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        """The application's answer, after everything that the request brings about at this instant."""
        if request.url.path.endswith("/stream") or request.url.params.get("follow") == "true":
            raise ServiceError(
                "time stands still in InMemoryService, so there is nothing to follow; let time pass, then read without "
                "`follow`"
            )
        return self._do(self._asked(self._parts, request))

    async def _asked(self, service: Assembly, request: httpx.Request) -> httpx.Response:
        assert self._api is not None
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=request.content)
        response = await self._api.handle_async_request(sent)
        body = await response.aread()
        await service.settle()
        return httpx.Response(response.status_code, headers=response.headers, content=body)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._runner is not None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with self._lock:
                return self._runner.run(work)
        work.close()
        raise ServiceError(
            "InMemoryService blocks, and an event loop is running here; use it in a function that is not `async`"
        )

    def _unfinished(self, limit_s: float, due_s: float, left: Sequence[int]) -> str:
        lines: list[str] = []
        for number in left[:MOST_NAMED]:
            view = self.job(number).job
            why = f": {view.reason.text}" if view.reason is not None else ""
            lines.append(f"job {number} is {view.status}{why}")
        if len(left) > MOST_NAMED:
            lines.append(f"{len(left) - MOST_NAMED} more are not over")
        when = "nothing more is due" if due_s == math.inf else f"{limit_s:,.0f} s have passed"
        return f"{when} at {self.now_s:,.0f} s: " + "; ".join(lines)


def _with(spec: JobSpec, truth: Mapping[str, str]) -> JobSpec:
    return spec.model_copy(update={"env": {**spec.env, **truth}})
