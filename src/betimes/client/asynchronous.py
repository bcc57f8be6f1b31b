"""The client for programs that do other things while they wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import httpx

from betimes.client import calls, models, over_httpx, protocol
from betimes.client.calls import Conditions
from betimes.client.protocol import Aside, Emit, Pause, Read, Send, Shut
from betimes.client.way import way_to
from betimes.errors import NotReachable
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import (
    EventView,
    FleetPlanView,
    FleetView,
    Health,
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
    Uploaded,
)

if TYPE_CHECKING:
    from betimes.client.protocol import Feed, Step, Talk
    from betimes.service.tuning.view import TuningView


class AsyncClient:
    """The same as `betimes.Client`, with methods to `await` and iterators for `async for`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        state: str | Path | None = None,
        patience_s: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._way = way_to(models.decode, url, token, state, patience_s)
        self._http = httpx.AsyncClient(transport=transport, **over_httpx.client_options(url))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the client cannot be used after that."""
        await self._http.aclose()

    @overload
    async def submit(self, spec: JobSpec, /, *, key: str | None = None) -> Submitted: ...

    @overload
    async def submit(self, spec: Sequence[JobSpec], /, *, key: str | None = None) -> list[Submitted]: ...

    @overload
    async def submit(self, /, *, key: str | None = None, **fields: Any) -> Submitted: ...

    async def submit(
        self, spec: JobSpec | Sequence[JobSpec] | None = None, /, *, key: str | None = None, **fields: Any
    ) -> Submitted | list[Submitted]:
        """Submit a job, given as a JobSpec or by its fields, or several: all are accepted, or none.

        `key` is made up if it is not given; submitting again with the same key and jobs gives the same answer. Raises
        Refused for a job that cannot run here, Unknown for a job in `after` that does not exist, Conflict for a key
        that was used for other jobs.
        """
        if isinstance(spec, Sequence):
            return await self._ask(calls.submit_all([models.job_body(one, {}) for one in spec], key))
        return await self._ask(calls.submit(models.job_body(spec, fields), key))

    async def quote(self, spec: JobSpec | None = None, /, **fields: Any) -> Quote:
        """What a job would be promised if it were submitted now; nothing is stored. Raises Refused, Unknown."""
        return await self._ask(calls.quote(models.job_body(spec, fields)))

    async def upload(self, folder: str | Path) -> Uploaded:
        """Send a directory, unless the service has it; jobs that name its `sha256` as `upload` run in copies of it.

        Links may not lead out of it, and of permissions the executable bit is kept. Raises InputError for what cannot
        be sent, or is larger than the service takes; Unavailable where it has no room.
        """
        return await self._carry_out(protocol.upload(self._way, Path(folder)))

    async def jobs(self, **which: Unpack[Conditions]) -> Page[JobView]:
        """A page of jobs, newest first; `following` of the page, given as `after`, asks for the next."""
        return await self._ask(calls.jobs(which))

    def iterate_jobs(self, **which: Unpack[Conditions]) -> AsyncIterator[JobView]:
        """All jobs that the conditions hold for, newest first; pages are fetched as they are needed."""
        return self._feed(protocol.every_job(self._way, which))

    async def job(self, job: int) -> JobStory:
        """A job with its promises, runs and events. Raises Unknown."""
        return await self._ask(calls.job(job))

    @overload
    async def cancel(self, jobs: int, /) -> JobView: ...

    @overload
    async def cancel(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    async def cancel(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Cancel a job; or all of several, or none; or `where_possible` those of several that are not over.

        Raises Unknown, or Conflict for a job that is over.
        """
        return await self._steer("cancel", jobs, where_possible)

    @overload
    async def hold(self, jobs: int, /) -> JobView: ...

    @overload
    async def hold(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    async def hold(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Keep a job from starting; or all of several, or none; or `where_possible` those of several that wait.

        Raises Unknown, or Conflict for a job that does not wait.
        """
        return await self._steer("hold", jobs, where_possible)

    @overload
    async def release(self, jobs: int, /) -> JobView: ...

    @overload
    async def release(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    async def release(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Let a held job start when its turn comes; or all of several, or none; or `where_possible` those held.

        Raises Unknown, or Conflict for a job that is not held.
        """
        return await self._steer("release", jobs, where_possible)

    async def _steer(
        self, verb: str, jobs: int | Sequence[int], where_possible: bool
    ) -> JobView | list[JobView]:
        if isinstance(jobs, int):
            return await self._ask(calls.steer(verb, jobs))
        return await self._ask(calls.steer_all(verb, jobs, where_possible))

    async def wait(self, job: int, timeout: float | None = None) -> JobView:
        """The job once it is over. Raises Unknown; TimeoutError after `timeout` seconds (None: wait for ever)."""
        return await self._carry_out(protocol.wait(self._way, job, timeout))

    def logs(
        self,
        job: int,
        *,
        attempt: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        rank: int | None = None,
    ) -> AsyncIterator[bytes]:
        """The output of a job's run, in pieces.

        attempt: the number of the run, by default the latest. follow: go on until the run is over. tail: only so many
        of the last lines. rank: of a run on several nodes, which of them, by default 0. Raises Unknown for a job, run
        or rank that does not exist, a job that has not run, or output on a node that is gone.
        """
        if follow:
            return self._feed(protocol.followed_log(self._way, job, attempt, tail, rank))
        return self._feed(protocol.log(self._way, calls.log(job, attempt, follow, tail, rank)))

    async def nodes(self) -> list[NodeView]:
        """All nodes, also those that are lost."""
        return await self._ask(calls.nodes())

    async def add_nodes(self, spec: NodeSpec) -> list[NodeView]:
        """Add nodes of one type, or rent them from the service's cloud. Raises Refused, Conflict."""
        return await self._ask(calls.add_nodes(models.dump(spec)))

    async def drain(self, node: str) -> NodeView:
        """Start nothing more on a node; what runs there goes on. Raises Unknown, Conflict."""
        return await self._ask(calls.drain(node))

    async def undrain(self, node: str) -> NodeView:
        """Use a drained node again. Raises Unknown; Conflict for a node in another state."""
        return await self._ask(calls.drain(node, back=True))

    async def heartbeat(self, node: str) -> Lease:
        """Send a heartbeat of a node; the answer says by when the next is due.

        Without it the node is lost, and its jobs are requeued. Raises Unknown, Conflict.
        """
        return await self._ask(calls.heartbeat(node))

    async def policy(self) -> PolicyView:
        """The policy in force, and why its last decision did nothing, if so."""
        return await self._ask(calls.policy())

    async def fleet(self) -> FleetView:
        """What is rented now, what it costs an hour, and what a machine for each task would cost."""
        return await self._ask(calls.fleet())

    async def fleet_plan(self) -> FleetPlanView:
        """What the policy in force would rent, give back and move now, with reasons; nothing is changed by that.

        Raises Conflict for a policy that does not plan in rounds.
        """
        return await self._ask(calls.fleet_plan())

    async def portfolio(self, last: int = 20) -> PortfolioView:
        """The newest selections of portfolios, newest first: what was chosen and expected, and what came of it."""
        return await self._ask(calls.portfolio(last))

    async def set_policy(self, policy: str) -> PolicyView:
        """Put another policy in force, while jobs run; `front:3`, `front:PCS-balanced`: a point of the latest front.

        Returns once it is compiled, which can take minutes the first time. Raises Refused for a policy that is unknown
        or cannot be used here, Conflict.
        """
        return await self._ask(calls.set_policy(policy))

    async def tune(self, spec: TuneSpec | None = None, /, **fields: Any) -> TuningView:
        """Begin a search for a Pareto front on the service's recent jobs; it replaces one that is going on.

        Given as a TuneSpec or by its fields. Raises Refused, Conflict.
        """
        return await self._ask(calls.tune(models.tune_body(spec, fields)))

    async def tuning(self) -> TuningView:
        """The progress of the search, if one is going on, and the latest front."""
        return await self._ask(calls.tuning())

    async def stop_tuning(self) -> TuningView:
        """End the search with the front so far; `tuning` says when it has ended. Raises Conflict if none goes on."""
        return await self._ask(calls.stop_tuning())

    def events(
        self, after: int = 0, *, follow: bool = False, job: int | None = None, kinds: Sequence[str] = ()
    ) -> AsyncIterator[EventView]:
        """Events with numbers above `after`, oldest first, of one job or all, and of these kinds (none: all).

        follow: go on with new events, without end, and reconnect where the connection is lost.
        """
        talk = protocol.followed_events if follow else protocol.logged_events
        return self._feed(talk(self._way, after, job, tuple(kinds)))

    async def health(self) -> Health:
        """Whether the service is ready for work, and what is wrong if it is not."""
        return await self._ask(calls.health())

    async def _ask(self, call: calls.Call) -> Any:
        return await self._carry_out(protocol.ask(self._way, call))

    async def _carry_out(self, talk: Talk) -> Any:
        reply: Any = None
        while True:
            try:
                step = talk.send(reply)
            except StopIteration as end:
                return end.value
            reply = await self._step(step, {})

    async def _feed(self, feed: Feed) -> AsyncIterator[Any]:
        reply: Any = None
        reading: dict[httpx.Response, AsyncIterator[bytes]] = {}
        try:
            while True:
                try:
                    step = feed.send(reply)
                except StopIteration:
                    return
                if isinstance(step, Emit):
                    yield step.what
                    reply = None
                else:
                    reply = await self._step(step, reading)
        finally:
            for response in reading:
                await response.aclose()

    async def _step(self, step: Step, reading: dict[httpx.Response, AsyncIterator[bytes]]) -> Any:
        """Do what a conversation asks for; what fails on the way is its reply."""
        try:
            match step:
                case Send(call, stream):
                    response = await self._http.send(
                        over_httpx.request(self._way, self._http, call), stream=stream
                    )
                    if stream:
                        reading[response] = response.aiter_bytes()
                        if not response.is_success:
                            await response.aread()
                    return response
                case Read(response):
                    return await anext(reading[response], None)
                case Shut(response):
                    del reading[response]
                    await response.aclose()
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Aside(work):
                    return await asyncio.to_thread(work)
        except httpx.TransportError as error:
            return over_httpx.lost(error)
        except NotReachable as error:
            return error
        return None
