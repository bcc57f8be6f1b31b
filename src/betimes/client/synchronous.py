"""The client for programs that wait for their answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from betimes.client import calls, protocol
from betimes.client.protocol import Aside, Emit, Pause, Read, Send, Shut
from betimes.client.way import Lost, way_to
from betimes.errors import NotReachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self, Unpack

    import httpx

    from betimes.client.calls import Conditions
    from betimes.client.protocol import Feed, Step, Talk
    from betimes.service.spec.job_spec import JobSpec
    from betimes.service.tuning.view import TuningView
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


class Client:
    """A live service, found by itself: `url`, else `state`, else BETIMES_URL, else BETIMES_STATE or the default.

    Errors are those that the service raises: Refused, Unknown, Conflict, NotAllowed, Unavailable; NotReachable where no
    service answers. A call that is lost on the way is made again for `patience_s` seconds if that does no harm. Close
    it, or use it in a `with` statement. Threads may share it.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        state: str | Path | None = None,
        patience_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        import httpx

        from betimes.client import models, over_httpx

        self._way = way_to(models.decode, url, token, state, patience_s)
        self._http = httpx.Client(transport=transport, **over_httpx.client_options(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client cannot be used after that."""
        self._http.close()

    @overload
    def submit(self, spec: JobSpec, /, *, key: str | None = None) -> Submitted: ...

    @overload
    def submit(self, spec: Sequence[JobSpec], /, *, key: str | None = None) -> list[Submitted]: ...

    @overload
    def submit(self, /, *, key: str | None = None, **fields: Any) -> Submitted: ...

    def submit(
        self, spec: JobSpec | Sequence[JobSpec] | None = None, /, *, key: str | None = None, **fields: Any
    ) -> Submitted | list[Submitted]:
        """Submit a job, given as a JobSpec or by its fields, or several: all are accepted, or none.

        `key` is made up if it is not given; submitting again with the same key and jobs gives the same answer. Raises
        Refused for a job that cannot run here, Unknown for a job in `after` that does not exist, Conflict for a key
        that was used for other jobs.
        """
        if isinstance(spec, (list, tuple)):
            return self._ask(calls.submit_all([self._job(one, {}) for one in spec], key))
        return self._ask(calls.submit(self._job(spec, fields), key))

    def quote(self, spec: JobSpec | None = None, /, **fields: Any) -> Quote:
        """What a job would be promised if it were submitted now; nothing is stored. Raises Refused, Unknown."""
        return self._ask(calls.quote(self._job(spec, fields)))

    def upload(self, folder: str | Path) -> Uploaded:
        """Send a directory, unless the service has it; jobs that name its `sha256` as `upload` run in copies of it.

        Links may not lead out of it, and of permissions the executable bit is kept. Raises InputError for what cannot
        be sent, or is larger than the service takes; Unavailable where it has no room.
        """
        return self._carry_out(protocol.upload(self._way, Path(folder)))

    def jobs(self, **which: Unpack[Conditions]) -> Page[JobView]:
        """A page of jobs, newest first; `following` of the page, given as `after`, asks for the next."""
        return self._ask(calls.jobs(which))

    def iterate_jobs(self, **which: Unpack[Conditions]) -> Iterator[JobView]:
        """All jobs that the conditions hold for, newest first; pages are fetched as they are needed."""
        return self._feed(protocol.every_job(self._way, which))

    def job(self, job: int) -> JobStory:
        """A job with its promises, runs and events. Raises Unknown."""
        return self._ask(calls.job(job))

    @overload
    def cancel(self, jobs: int, /) -> JobView: ...

    @overload
    def cancel(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    def cancel(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Cancel a job; or all of several, or none; or `where_possible` those of several that are not over.

        Raises Unknown, or Conflict for a job that is over.
        """
        return self._steer("cancel", jobs, where_possible)

    @overload
    def hold(self, jobs: int, /) -> JobView: ...

    @overload
    def hold(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    def hold(self, jobs: int | Sequence[int], /, *, where_possible: bool = False) -> JobView | list[JobView]:
        """Keep a job from starting; or all of several, or none; or `where_possible` those of several that wait.

        Raises Unknown, or Conflict for a job that does not wait.
        """
        return self._steer("hold", jobs, where_possible)

    @overload
    def release(self, jobs: int, /) -> JobView: ...

    @overload
    def release(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    def release(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Let a held job start when its turn comes; or all of several, or none; or `where_possible` those held.

        Raises Unknown, or Conflict for a job that is not held.
        """
        return self._steer("release", jobs, where_possible)

    def _steer(self, verb: str, jobs: int | Sequence[int], where_possible: bool) -> JobView | list[JobView]:
        if isinstance(jobs, int):
            return self._ask(calls.steer(verb, jobs))
        return self._ask(calls.steer_all(verb, jobs, where_possible))

    def wait(self, job: int, timeout: float | None = None) -> JobView:
        """The job once it is over. Raises Unknown; TimeoutError after `timeout` seconds (None: wait for ever)."""
        return self._carry_out(protocol.wait(self._way, job, timeout))

    def logs(
        self,
        job: int,
        *,
        attempt: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        rank: int | None = None,
    ) -> Iterator[bytes]:
        """The output of a job's run, in pieces.

        attempt: the number of the run, by default the latest. follow: go on until the run is over. tail: only so many
        of the last lines. rank: of a run on several nodes, which of them, by default 0. Raises Unknown for a job, run
        or rank that does not exist, a job that has not run, or output on a node that is gone.
        """
        if follow:
            return self._feed(protocol.followed_log(self._way, job, attempt, tail, rank))
        return self._feed(protocol.log(self._way, calls.log(job, attempt, follow, tail, rank)))

    def nodes(self) -> list[NodeView]:
        """All nodes, also those that are lost."""
        return self._ask(calls.nodes())

    def add_nodes(self, spec: NodeSpec) -> list[NodeView]:
        """Add nodes of one type, or rent them from the service's cloud. Raises Refused, Conflict."""
        return self._ask(calls.add_nodes(self._nodes(spec)))

    def drain(self, node: str) -> NodeView:
        """Start nothing more on a node; what runs there goes on. Raises Unknown, Conflict."""
        return self._ask(calls.drain(node))

    def undrain(self, node: str) -> NodeView:
        """Use a drained node again. Raises Unknown; Conflict for a node in another state."""
        return self._ask(calls.drain(node, back=True))

    def heartbeat(self, node: str) -> Lease:
        """Send a heartbeat of a node; the answer says by when the next is due.

        Without it the node is lost, and its jobs are requeued. Raises Unknown, Conflict.
        """
        return self._ask(calls.heartbeat(node))

    def policy(self) -> PolicyView:
        """The policy in force, and why its last decision did nothing, if so."""
        return self._ask(calls.policy())

    def fleet(self) -> FleetView:
        """What is rented now, what it costs an hour, and what a machine for each task would cost."""
        return self._ask(calls.fleet())

    def fleet_plan(self) -> FleetPlanView:
        """What the policy in force would rent, give back and move now, with reasons; nothing is changed by that.

        Raises Conflict for a policy that does not plan in rounds.
        """
        return self._ask(calls.fleet_plan())

    def portfolio(self, last: int = 20) -> PortfolioView:
        """The newest selections of portfolios, newest first: what was chosen and expected, and what came of it."""
        return self._ask(calls.portfolio(last))

    def set_policy(self, policy: str) -> PolicyView:
        """Put another policy in force, while jobs run; `front:3`, `front:PCS-balanced`: a point of the latest front.

        Returns once it is compiled, which can take minutes the first time. Raises Refused for a policy that is unknown
        or cannot be used here, Conflict.
        """
        return self._ask(calls.set_policy(policy))

    def tune(self, spec: TuneSpec | None = None, /, **fields: Any) -> TuningView:
        """Begin a search for a Pareto front on the service's recent jobs; it replaces one that is going on.

        Given as a TuneSpec or by its fields. Raises Refused, Conflict.
        """
        return self._ask(calls.tune(self._search(spec, fields)))

    def tuning(self) -> TuningView:
        """The progress of the search, if one is going on, and the latest front."""
        return self._ask(calls.tuning())

    def stop_tuning(self) -> TuningView:
        """End the search with the front so far; `tuning` says when it has ended. Raises Conflict if none goes on."""
        return self._ask(calls.stop_tuning())

    def events(
        self, after: int = 0, *, follow: bool = False, job: int | None = None, kinds: Sequence[str] = ()
    ) -> Iterator[EventView]:
        """Events with numbers above `after`, oldest first, of one job or all, and of these kinds (none: all).

        follow: go on with new events, without end, and reconnect where the connection is lost.
        """
        talk = protocol.followed_events if follow else protocol.logged_events
        return self._feed(talk(self._way, after, job, tuple(kinds)))

    def health(self) -> Health:
        """Whether the service is ready for work, and what is wrong if it is not."""
        return self._ask(calls.health())

    def _job(self, spec: Any, fields: Mapping[str, Any]) -> bytes:
        """A job as it is sent."""
        from betimes.client import models

        return models.job_body(spec, fields)

    def _search(self, spec: Any, fields: Mapping[str, Any]) -> bytes:
        """A search as it is sent."""
        from betimes.client import models

        return models.tune_body(spec, fields)

    def _nodes(self, spec: Any) -> bytes:
        """Nodes to add as they are sent."""
        from betimes.client import models

        return models.dump(spec)

    def _ask(self, call: calls.Call) -> Any:
        return self._carry_out(protocol.ask(self._way, call))

    def _carry_out(self, talk: Talk) -> Any:
        reply: Any = None
        while True:
            try:
                step = talk.send(reply)
            except StopIteration as end:
                return end.value
            reply = self._step(step, {})

    def _feed(self, feed: Feed) -> Iterator[Any]:
        reply: Any = None
        reading: dict[Any, Iterator[bytes]] = {}
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
                    reply = self._step(step, reading)
        finally:
            for response in reading:
                response.close()

    def _step(self, step: Step, reading: dict[Any, Iterator[bytes]]) -> Any:
        """Do what a conversation asks for; what fails on the way is its reply."""
        try:
            if isinstance(step, Send):
                response = self._send(step.call, step.stream)
                if step.stream:
                    reading[response] = self._pieces(response)
                return response
            if isinstance(step, Read):
                return next(reading[step.response], None)
            if isinstance(step, Shut):
                del reading[step.response]
                step.response.close()
            elif isinstance(step, Pause):
                time.sleep(step.seconds)
            elif isinstance(step, Aside):
                return step.work()
        except (Lost, NotReachable) as error:
            return error
        return None

    def _send(self, call: calls.Call, stream: bool) -> Any:
        """The response to a call, with its body unless that is a stream. Raises Lost, NotReachable."""
        import httpx

        from betimes.client import over_httpx

        try:
            response = self._http.send(over_httpx.request(self._way, self._http, call), stream=stream)
            if stream and not response.is_success:
                response.read()
        except httpx.TransportError as error:
            raise over_httpx.lost(error) from None
        return response

    def _pieces(self, response: Any) -> Iterator[bytes]:
        """The body of a response, as it comes."""
        import httpx

        from betimes.client import over_httpx

        try:
            yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise over_httpx.lost(error) from None
