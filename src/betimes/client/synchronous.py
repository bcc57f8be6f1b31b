# Made from asynchronous.py by `make client`; a change made here is lost.
"""The client: `make client` generates `synchronous.py` from `asynchronous.py`.

The command line uses the synchronous one with another transport (`plain`) and must start fast: loading this module
imports the standard library only.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote as quoted

from betimes.client.calls import (
    API,
    CONNECT_S,
    ON_SOCKET,
    READ_S,
    SILENT_S,
    Call,
    Lost,
    Way,
    at_once,
    lost,
    silent,
    trusted,
    uploaded,
)
from betimes.client.sse import EventReader
from betimes.errors import NotReachable, TooMany, Unavailable, Unknown
from betimes.service.access.address import check_url, find_service, socket_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Self, Unpack

    import httpx

    from betimes.client.calls import Conditions
    from betimes.service.spec.job_spec import JobSpec
    from betimes.service.tuning.view import AdviceView, TuningView
    from betimes.service.views.groups import GroupView
    from betimes.service.views.models import (
        AccuracyView,
        AdviceSpec,
        By,
        CurvesView,
        EfficiencyView,
        EventView,
        FleetPlanView,
        FleetView,
        Health,
        HelpsView,
        JobStory,
        JobView,
        Lease,
        MaintenanceView,
        Me,
        NewToken,
        NodeSpec,
        NodeView,
        Page,
        PageLink,
        PolicyView,
        PortfolioView,
        Quote,
        Submitted,
        TokenView,
        TuneSpec,
        Uploaded,
        UsageView,
        UserView,
        WhatIfSpec,
        WhatIfView,
    )
    from betimes.service.views.queues import QueueView

OVER = ("finished", "failed", "cancelled")
WAIT_S = 30.0  # of one long-poll request
COMPILE_S = 900.0  # until another policy is in force: its engine may have to be compiled first
PAGE = 1000  # events
PIECE_BYTES = 1 << 18  # of a file that is sent


class Client:
    """A live service, found by itself: `url`, else `state`, else BETIMES_URL, else BETIMES_STATE or the default, else
    the machine's shared service. A URL is `http://HOST:PORT`, or `unix:/PATH` of a service's Unix socket.

    Errors are those that the service raises: Refused, Unknown, Conflict, NotAllowed, Unavailable; NotReachable where no
    service answers. A call that is lost on the way is made again for `patience_s` seconds if that does no harm. Close
    the client, or use it in a `with` statement. `Client` may be shared by threads. `AsyncClient` has the same methods,
    to `await`, and iterators for `async for`; it is used in an `async with` statement.
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

        from betimes.client import models
        from betimes.service.access.host_names import is_loopback

        self._way = Way(partial(find_service, url, token, state), patience_s)
        self._codec: Any = models
        # Proxies of the environment do not apply to a service on this machine.
        given = check_url(url, "url") or os.environ.get("BETIMES_URL")
        elsewhere = given is not None and not is_loopback(httpx.URL(given).host)
        verify = trusted() if os.environ.get("BETIMES_CA") else True
        self._http = httpx.Client(transport=transport, trust_env=elsewhere, verify=verify)
        self._on_socket: httpx.Client | None = None  # from the first call over a Unix socket on

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client cannot be used after that."""
        self._http.close()
        if self._on_socket is not None:
            self._on_socket.close()

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
        if isinstance(spec, Sequence):
            body = b'{"jobs":[%s]}' % b",".join(self._codec.job_body(one, fields) for one in spec)
            within = "jobs"
        else:
            body, within = self._codec.job_body(spec, fields), ""
        headers = {"Idempotency-Key": key if key is not None else os.urandom(16).hex()}
        return self._ask(Call("POST", f"{API}/jobs", "Submitted", within, body=body, headers=headers))

    def quote(self, spec: JobSpec | None = None, /, **fields: Any) -> Quote:
        """Return the promise for a job if it were submitted now; nothing is stored. Raises Refused, Unknown."""
        return self._ask(Call("POST", f"{API}/quote", "Quote", body=self._codec.job_body(spec, fields)))

    def upload(self, folder: str | Path) -> Uploaded:
        """Send a directory, unless the service has it; jobs that name its `sha256` as `upload` run in copies of it.

        Links may not lead out of it, and of permissions the executable bit is kept. Raises InputError for what cannot
        be sent, or is larger than the service takes; Unavailable where it has no room.
        """
        import tempfile  # few commands need it

        from betimes.service.uploads.archive import pack

        folder = Path(folder)
        limits = self._ask(Call("GET", f"{API}/uploads", "UploadLimits"))
        with tempfile.TemporaryFile() as archive:
            packed = at_once(pack, folder, archive, limits.most_bytes, limits.most_files)
            path = f"{API}/uploads/{packed.sha256}"
            sent = False
            try:
                self._ask(Call("GET", path, "UploadView"))
            except Unknown:
                self._ask(Call("PUT", path, "UploadView", body=archive))
                sent = True
        about = json.dumps(uploaded(folder, packed, sent)).encode()
        return self._codec.decode("Uploaded", "", about, str(folder))

    def jobs(self, **which: Unpack[Conditions]) -> Page[JobView]:
        """A page of jobs, newest first; `following` of the page, given as `after`, asks for the next."""
        params = [("status", str(each)) for each in which.get("status", ())]
        params += [("label", f"{name}={value}") for name, value in which.get("label", {}).items()]
        params += [
            (name, str(value))
            for name, value in which.items()
            if name not in ("status", "label") and value is not None
        ]
        return self._ask(Call("GET", f"{API}/jobs", "Page of JobView", params=params))

    def iterate_jobs(self, **which: Unpack[Conditions]) -> Iterator[JobView]:
        """All jobs that the conditions hold for, newest first; pages are fetched as they are needed."""
        while True:
            page = self.jobs(**which)
            for job in page.items:
                yield job
            if page.following is None:
                return
            which["after"] = page.following

    def job(self, job: int) -> JobStory:
        """A job with its promises, runs and events. Raises Unknown."""
        return self._ask(_story(job))

    def helps(self, job: int, within_s: float = 2.0) -> HelpsView:
        """Return changes that would help a job that waits; within_s: processor time for the tries. Raises Unknown."""
        path, params = f"{API}/jobs/{job}/helps", [("within_s", f"{within_s}")]
        return self._ask(Call("GET", path, "HelpsView", params=params))

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

    @overload
    def requeue(self, jobs: int, /) -> JobView: ...

    @overload
    def requeue(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    def requeue(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Stop a job that runs, to start it again; or all of several, or none; or `where_possible` those that run.

        Raises Unknown, or Conflict for a job that does not run, or may not be started again.
        """
        return self._steer("requeue", jobs, where_possible)

    @overload
    def suspend(self, jobs: int, /) -> JobView: ...

    @overload
    def suspend(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    def suspend(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Suspend a job that runs, and keeps its units; or all of several, or none; or `where_possible`.

        Raises Unknown, or Conflict for a job that does not run, or not on the service's own machine.
        """
        return self._steer("suspend", jobs, where_possible)

    @overload
    def resume(self, jobs: int, /) -> JobView: ...

    @overload
    def resume(self, jobs: Sequence[int], /, *, where_possible: bool = False) -> list[JobView]: ...

    def resume(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False
    ) -> JobView | list[JobView]:
        """Let a suspended job go on; or all of several, or none; or `where_possible` those that are suspended.

        Raises Unknown, or Conflict for a job that is not suspended.
        """
        return self._steer("resume", jobs, where_possible)

    def signal(
        self, jobs: int | Sequence[int], /, signal: str, *, to: str = "steps", where_possible: bool = False
    ) -> list[JobView]:
        """Send a signal, such as "USR1", to jobs that run, and leave them to it; to all or none, or `where_possible`.

        to: the tasks of `srun` (`steps`), or without any the processes that handle the signal; the `command` alone; or
        `all` processes. Raises Unknown, Refused, or Conflict for a job that does not run.
        """
        numbers = [jobs] if isinstance(jobs, int) else list(jobs)
        which = {"jobs": numbers, "signal": signal, "to": to, "where_possible": where_possible}
        body = json.dumps(which).encode()
        return self._ask(Call("POST", f"{API}/jobs/signal", "JobView", "jobs", body=body, repeatable=False))

    @overload
    def edit(self, jobs: int, /, **changes: Any) -> JobView: ...

    @overload
    def edit(
        self, jobs: Sequence[int], /, *, where_possible: bool = False, **changes: Any
    ) -> list[JobView]: ...

    def edit(
        self, jobs: int | Sequence[int], /, *, where_possible: bool = False, **changes: Any
    ) -> JobView | list[JobView]:
        """Change a job, by fields of `JobChanges`: `estimate_s=600`; or all of several, or none; or `where_possible`.

        All of it can be changed while a job waits; name, labels, priority, estimate_s and time_limit_s while it runs.
        Raises Unknown, Conflict for what cannot be changed any more, and Refused for what the job cannot be.
        """
        return self._steer("edit", jobs, where_possible, changes)

    def _steer(
        self,
        verb: str,
        jobs: int | Sequence[int],
        where_possible: bool,
        changes: dict[str, Any] | None = None,
    ) -> JobView | list[JobView]:
        if isinstance(jobs, int):
            only = None if changes is None else json.dumps(changes).encode()
            call = Call("POST", f"{API}/jobs/{jobs}/{verb}", "JobView", body=only, repeatable=False)
            return self._ask(call)
        which: dict[str, Any] = {"jobs": list(jobs)}
        if changes is not None:
            which["changes"] = changes
        if where_possible:
            which["where_possible"] = True
        body = json.dumps(which).encode()
        return self._ask(Call("POST", f"{API}/jobs/{verb}", "JobView", "jobs", body=body, repeatable=False))

    def wait(self, job: int, timeout: float | None = None) -> JobView:
        """The job once it is over. Raises Unknown; TimeoutError after `timeout` seconds (None: wait for ever)."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            wait_s = max(0.0, min(deadline - time.monotonic(), WAIT_S))
            params = [("timeout_s", f"{wait_s:.3f}")]
            path = f"{API}/jobs/{int(job)}/wait"
            call = Call("GET", path, "JobView", params=params, read_s=wait_s + READ_S)
            found = self._ask(call, deadline)
            if found.status in OVER:
                return found
            if time.monotonic() >= deadline:
                raise TimeoutError(f"job {job} is still {found.status} after {timeout:g} s")
            sleep(0.1)  # a stopping service answers at once

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
            return self._followed_log(job, attempt, tail, rank)
        return self._log(_output(job, attempt, False, tail, rank))

    def nodes(self) -> list[NodeView]:
        """All nodes, also those that are lost."""
        return self._ask(Call("GET", f"{API}/nodes", "NodeView", "nodes"))

    def add_nodes(self, spec: NodeSpec) -> list[NodeView]:
        """Add nodes of one type, or rent them from the service's cloud. Raises Refused, Conflict."""
        body = self._codec.nodes_body(spec)
        return self._ask(Call("POST", f"{API}/nodes", "NodeView", "nodes", body=body, repeatable=False))

    def drain(self, node: str, reason: str = "") -> NodeView:
        """Start nothing more on a node; what runs there goes on. Raises Unknown, Conflict."""
        params = [("reason", reason)] if reason else []
        call = Call("POST", f"{_node(node)}/drain", "NodeView", params=params, repeatable=False)
        return self._ask(call)

    def undrain(self, node: str) -> NodeView:
        """Use a drained node again. Raises Unknown; Conflict for a node in another state."""
        return self._ask(Call("POST", f"{_node(node)}/undrain", "NodeView", repeatable=False))

    def queues(self) -> list[QueueView]:
        """The queues, which Slurm calls partitions: their nodes, defaults and limits."""
        return self._ask(Call("GET", f"{API}/queues", "QueueView", "queues"))

    def maintenance(self) -> list[MaintenanceView]:
        """Windows of maintenance that are announced or go on, the next first."""
        return self._ask(Call("GET", f"{API}/maintenance", "MaintenanceView", "maintenance"))

    def add_maintenance(
        self,
        from_at: float,
        to_at: float,
        *,
        nodes: Sequence[str] = (),
        reason: str = "",
        stop: bool = False,
        users: Sequence[str] = (),
    ) -> MaintenanceView:
        """Announce maintenance, on all owned nodes if none are named: only jobs start there that are over by then.

        stop: runs that are there are stopped in time, and requeued; else they go on. users: their jobs start there
        nevertheless. Raises Refused for a window that is past or ends before it begins, Unknown.
        """
        asked = {"from_at": from_at, "to_at": to_at, "nodes": [*nodes], "reason": reason, "stop": stop}
        asked |= {"users": [*users]}
        body = json.dumps(asked).encode()
        call = Call("POST", f"{API}/maintenance", "MaintenanceView", body=body, repeatable=False)
        return self._ask(call)

    def remove_maintenance(self, number: int) -> MaintenanceView:
        """Call a maintenance off, or end it early. Raises Unknown."""
        path = f"{API}/maintenance/{int(number)}"
        return self._ask(Call("DELETE", path, "MaintenanceView", repeatable=False))

    def heartbeat(self, node: str) -> Lease:
        """Send a heartbeat of a node; the answer has when the next is due.

        Without it the node is lost, and its jobs are requeued. Raises Unknown, Conflict.
        """
        return self._ask(Call("POST", f"{_node(node)}/heartbeat", "Lease"))

    def policy(self) -> PolicyView:
        """The policy in force, and why its last decision did nothing, if so."""
        return self._ask(Call("GET", f"{API}/policy", "PolicyView"))

    def fleet(self) -> FleetView:
        """Return the rented machines, their cost an hour, and the cost of a machine for each task."""
        return self._ask(Call("GET", f"{API}/fleet", "FleetView"))

    def give_back(self, machine: str | None = None, *, now: bool = False) -> FleetView:
        """Give back a rented machine; null: all, and nothing more is rented until the service starts again.

        now: with what runs there, which is requeued; else once nothing does. Raises Unknown, Conflict.
        """
        body = json.dumps({"machine": machine, "now": now}).encode()
        return self._ask(Call("POST", f"{API}/fleet/release", "FleetView", body=body, repeatable=False))

    def fleet_plan(self) -> FleetPlanView:
        """Return the policy's next steps: rent, give back and move, with reasons; nothing is changed.

        Raises Conflict for a policy that does not plan in rounds.
        """
        return self._ask(Call("GET", f"{API}/fleet/plan", "FleetPlanView"))

    def portfolio(self, last: int = 20) -> PortfolioView:
        """The newest selections of portfolios, newest first: what was chosen and expected, and what came of it."""
        return self._ask(Call("GET", f"{API}/portfolio?last={last}", "PortfolioView"))

    def what_if(self, asked: WhatIfSpec | None = None, /, **fields: Any) -> WhatIfView:
        """Return when each job would finish after changes, and when without them; nothing is changed.

        Given as a WhatIfSpec or by its fields. Raises Refused, Unknown, Conflict as the changes would.
        """
        body = self._codec.what_if_body(asked, fields)
        return self._ask(Call("POST", f"{API}/what-if", "WhatIfView", body=body))

    def accuracy(
        self,
        since_s: float | None = None,
        until_s: float = 0.0,
        *,
        by: By | None = None,
        promises: bool = False,
    ) -> AccuracyView:
        """The account of promises to jobs that finished from `since_s` ago (None: ever) until `until_s` ago.

        by: figures of each user, name, policy or horizon, too. promises: list the promises, too. Raises Refused for a
        period that ends before it begins.
        """
        asked = {"since_s": since_s, "until_s": until_s, "by": by, "promises": promises or None}
        params = [(name, str(value).lower()) for name, value in asked.items() if value is not None]
        return self._ask(Call("GET", f"{API}/accuracy", "AccuracyView", params=params))

    def usage(
        self,
        since_s: float | None = None,
        until_s: float = 0.0,
        *,
        by: Literal["user", "group", "name", "label", "account"] | None = None,
    ) -> UsageView:
        """Return the use of jobs from `since_s` ago (None: ever) until `until_s` ago; by: that of each group, too.

        Raises Refused for a period that ends before it begins.
        """
        asked = {"since_s": since_s, "until_s": until_s, "by": by}
        params = [(name, str(value)) for name, value in asked.items() if value is not None]
        return self._ask(Call("GET", f"{API}/usage", "UsageView", params=params))

    def efficiency(self, job: int) -> EfficiencyView:
        """Compare the use of a job, or of an array by its number, with its request, and suggest another request.

        Raises Unknown.
        """
        return self._ask(Call("GET", f"{API}/jobs/{job}/efficiency", "EfficiencyView"))

    def curves(self, job: int, attempt: int | None = None, rank: int = 0) -> CurvesView:
        """Return the cores and the memory that a run, by default the latest, has used since its start.

        rank: of a run on several nodes of a cluster, the node. Raises Unknown.
        """
        params = [("rank", str(rank)), *([] if attempt is None else [("attempt", str(attempt))])]
        return self._ask(Call("GET", f"{API}/jobs/{job}/curves", "CurvesView", params=params))

    def set_policy(self, policy: str) -> PolicyView:
        """Put another policy in force, while jobs run; `front:3`, `front:PCS-balanced`: a point of the latest front.

        Returns once it is compiled, which can take minutes the first time. Raises Refused for a policy that is unknown
        or cannot be used here, Conflict.
        """
        body = json.dumps({"policy": policy}).encode()
        return self._ask(Call("PUT", f"{API}/policy", "PolicyView", body=body, read_s=COMPILE_S))

    def me(self) -> Me:
        """The caller as the service knows it: name and role."""
        return self._ask(Call("GET", f"{API}/me", "Me"))

    def groups(self) -> list[GroupView]:
        """The groups of users, with what each has of its limits, budgets and share; without operating: the own one."""
        return self._ask(Call("GET", f"{API}/groups", "GroupView", "groups"))

    def users(self) -> list[UserView]:
        """Every user of the service that was added, by name."""
        return self._ask(Call("GET", f"{API}/users", "UserView", "users"))

    def add_user(self, name: str, **fields: Any) -> UserView:
        """Add a user by the fields of a User. Raises Refused; Conflict for a name that is taken."""
        body = json.dumps({"name": name, **fields}).encode()
        return self._ask(Call("POST", f"{API}/users", "UserView", body=body, repeatable=False))

    def change_user(self, name: str, **changes: Any) -> UserView:
        """Change fields of a user; of `limits`, those that are given, and None removes one. Raises Unknown, Refused."""
        body = json.dumps(changes).encode()
        return self._ask(Call("PATCH", f"{API}/users/{quoted(name, safe='')}", "UserView", body=body))

    def tokens(self, user: str | None = None) -> list[TokenView]:
        """The tokens of users, or of one, good or not."""
        params = [] if user is None else [("user", user)]
        return self._ask(Call("GET", f"{API}/tokens", "TokenView", "tokens", params=params))

    def make_token(self, user: str, name: str = "token", expires_s: float | None = None) -> NewToken:
        """Make a token for a user; expires_s: for how long it is good. Raises Unknown, Conflict for a name in use."""
        body = json.dumps({"user": user, "name": name, "expires_s": expires_s}).encode()
        return self._ask(Call("POST", f"{API}/tokens", "NewToken", body=body, repeatable=False))

    def revoke_token(self, user: str, name: str) -> list[TokenView]:
        """Let a token be accepted no more; the user's tokens then. Raises Unknown."""
        path = f"{API}/tokens/{quoted(user, safe='')}/{quoted(name, safe='')}"
        return self._ask(Call("DELETE", path, "TokenView", "tokens", repeatable=False))

    def tune(self, spec: TuneSpec | None = None, /, **fields: Any) -> TuningView:
        """Begin a search for a Pareto front on the service's recent jobs; it replaces one that is going on.

        Given as a TuneSpec or by its fields. Raises Refused, Conflict.
        """
        body = self._codec.tune_body(spec, fields)
        return self._ask(Call("POST", f"{API}/tune", "TuningView", body=body, repeatable=False))

    def tuning(self) -> TuningView:
        """The progress of the search, if one is going on, and the latest front."""
        return self._ask(Call("GET", f"{API}/tune", "TuningView"))

    def stop_tuning(self) -> TuningView:
        """End the search with the front so far; `tuning` shows when it has ended. Raises Conflict if none goes on."""
        return self._ask(Call("DELETE", f"{API}/tune", "TuningView", repeatable=False))

    def advise(self, spec: AdviceSpec | None = None, /, **fields: Any) -> AdviceView:
        """Begin to work out which policies are worth having for the service's last jobs; `advice` shows it.

        Given as an AdviceSpec or by its fields. Raises Refused, Conflict.
        """
        body = self._codec.advice_body(spec, fields)
        return self._ask(Call("POST", f"{API}/advice", "AdviceView", body=body, repeatable=False))

    def advice(self) -> AdviceView:
        """The advice that is being worked out, and the latest."""
        return self._ask(Call("GET", f"{API}/advice", "AdviceView"))

    def events(
        self,
        after: int = 0,
        *,
        follow: bool = False,
        job: int | None = None,
        kinds: Sequence[str] = (),
        by: str | None = None,
    ) -> Iterator[EventView]:
        """Events with numbers above `after`, oldest first, of one job or all, and of these kinds (none: all).

        by: what this user brought about. follow: go on with new events, without end, and reconnect where the connection
        is lost.
        """
        which = [("job", str(job))] * (job is not None) + [("kind", kind) for kind in kinds]
        which += [("by", by)] if by is not None else []
        return self._followed_events(after, which) if follow else self._logged_events(after, which)

    def health(self) -> Health:
        """Whether the service is ready for work, and what is wrong if it is not."""
        return self._ask(Call("GET", "/readyz", "Health"))

    def page_link(self) -> PageLink:
        """A link that signs a browser in to the pages, once, within a minute."""
        return self._ask(Call("POST", "/link", "PageLink"))

    def _log(self, call: Call) -> Iterator[bytes]:
        response = self._response(call, self._way.pauses(), stream=True)
        try:
            with response:
                while piece := response.read():
                    yield piece
        except Lost as error:
            raise self._way.lost(error, unsure=True) from error

    def _followed_log(
        self, job: int, attempt: int | None, tail: int | None, rank: int | None
    ) -> Iterator[bytes]:
        """A run's output until the run is over; after a lost connection it resumes at the last byte received.

        With `tail` the service cannot find that byte again, and output written in between is left out.
        """
        story = self.job(job)
        run = attempt or story.job.attempt or None  # None: wait for the first
        seen = 0
        pauses = self._way.pauses()
        call = _output(job, run, True, tail, rank)
        while True:
            response = self._response(call, pauses, stream=True)
            skip = seen if tail is None else 0
            try:
                with response:
                    while piece := response.read():
                        pauses = self._way.pauses()  # it was well until now
                        if len(piece) > skip:
                            seen += len(piece) - skip
                            yield piece[skip:]
                        skip = max(0, skip - len(piece))
                # The run is over, or the service is about to stop: ask now, as a restarted service cannot tell which.
                story = self._ask_once(_story(job))
                of_it = [each for each in story.runs if each.number == (run or 1)]
                is_over = story.job.attempt > (run or 1) or any(each.ended_at is not None for each in of_it)
                if is_over or story.job.status in OVER:
                    return
                failure: Exception = NotReachable("the service has stopped")
            except (Lost, NotReachable, Unavailable) as error:
                failure = error
            sleep(self._way.pause_after(call, failure, pauses))
            if story.job.attempt or run or seen:
                run = run or 1
            call = _output(job, run, True, None if tail is None else 0, rank)

    def _logged_events(self, after: int, which: list[tuple[str, str]]) -> Iterator[EventView]:
        """The events in the log at present."""
        following: int | None = after
        while following is not None:
            params = [("after", str(following)), ("limit", str(PAGE)), *which]
            page = self._ask(Call("GET", f"{API}/events", "Page of EventView", params=params))
            for event in page.items:
                yield event
            following = page.following

    def _followed_events(self, after: int, which: list[tuple[str, str]]) -> Iterator[EventView]:
        """Events without end; after a lost connection they resume behind the last one, each exactly once."""
        reader = EventReader(after)
        pauses = self._way.pauses()
        while True:
            headers = {"Last-Event-ID": str(reader.last), "Accept": "text/event-stream"}
            call = Call("GET", f"{API}/events/stream", None, params=which, headers=headers)
            response = self._response(call, pauses, stream=True)
            try:
                with response:
                    while piece := response.read():
                        pauses = self._way.pauses()  # it was well until now
                        for data in reader.feed(piece):
                            yield self._codec.decode("EventView", "", data, str(response.url))
                failure: Exception = NotReachable("the service has stopped")
            except Lost as error:
                failure = error
            reader.restart()
            sleep(self._way.pause_after(call, failure, pauses))

    def _ask(self, call: Call, deadline: float = math.inf) -> Any:
        """The answer to a call, retried after a lost connection if that does no harm.

        deadline: on the monotonic clock, for all attempts.
        """
        response = self._response(call, self._way.pauses(deadline))
        return self._codec.decode(call.answer, call.within, response.content, str(response.url))

    def _ask_once(self, call: Call) -> Any:
        """The answer to a call, without retries. Raises Lost, NotReachable, Unavailable."""
        response = self._send(call)
        self._way.check(call, response)
        return self._codec.decode(call.answer, call.within, response.content, str(response.url))

    def _response(self, call: Call, pauses: Iterator[float], *, stream: bool = False) -> _Response:
        """The successful response to a call, retried while there are `pauses` and that does no harm."""
        while True:
            try:
                response = self._send(call, stream=stream)
                self._way.check(call, response)
                return response
            except (Lost, NotReachable, Unavailable) as error:
                if (
                    isinstance(error, Unavailable)
                    and not isinstance(error, TooMany)
                    and self._way.waits is None
                ):
                    raise
                pause_s = self._way.pause_after(call, error, pauses)
            sleep(pause_s)

    def _send(self, call: Call, *, stream: bool = False) -> _Response:
        """The response to a call; the body of a successful stream is left to `read`.

        Raises Lost, NotReachable.
        """
        import httpx

        found = self._way.locate()
        body = call.body
        http, url = self._http, found.url
        if (path := socket_of(url)) is not None:
            if self._on_socket is None:
                self._on_socket = httpx.Client(transport=httpx.HTTPTransport(uds=path, verify=False))
            http, url = self._on_socket, ON_SOCKET

        def request(read_s: float | None) -> httpx.Request:
            return http.build_request(
                call.method,
                url + call.path,
                params=httpx.QueryParams(tuple(call.params)),
                content=body if body is None or isinstance(body, bytes) else _pieces(body),
                headers=self._way.headers(found, call),
                timeout=httpx.Timeout(CONNECT_S, read=read_s),
            )

        only_reads = call.method == "GET" and call.read_s == READ_S and not stream
        try:
            try:
                response = http.send(request(SILENT_S if only_reads else call.read_s), stream=stream)
            except httpx.ReadTimeout:
                if not only_reads:
                    raise
                _check_health(http, url, found.url)  # it lives, and the answer takes long
                response = http.send(request(READ_S))
            if stream and not response.is_success:
                response.read()
        except httpx.TransportError as error:
            raise _lost(error, found.url) from error
        return _Response(response)


class _Response:
    """A response of httpx, whose body can be read in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._pieces = response.iter_bytes()
        self.status_code, self.url = response.status_code, response.url
        self.retry_after = response.headers.get("retry-after")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    @property
    def content(self) -> bytes:
        """The whole body, unless it is left to `read`."""
        return self._response.content

    def read(self) -> bytes:
        """The next piece of the body; empty at its end. Raises Lost."""
        import httpx

        try:
            return next(self._pieces, b"")
        except httpx.TransportError as error:
            raise _lost(error, str(self.url)) from error


def _check_health(http: httpx.Client, url: str, shown: str) -> None:
    """Raise NotReachable unless a service that was silent for `SILENT_S` answers anything; shown: its address."""
    import httpx

    try:
        http.get(f"{url}/healthz", timeout=SILENT_S)
    except httpx.ReadTimeout:
        raise silent(shown, 2.0 * SILENT_S) from None


def _lost(error: httpx.TransportError, url: str) -> Lost | NotReachable:
    import httpx

    unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    return lost(str(error) or type(error).__name__, not unsent, url)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _story(job: int) -> Call:
    return Call("GET", f"{API}/jobs/{int(job)}", "JobStory")


def _output(job: int, attempt: int | None, follow: bool, tail: int | None, rank: int | None) -> Call:
    params = [("follow", str(follow).lower())]
    given = (("attempt", attempt), ("tail", tail), ("rank", rank))
    params += [(name, str(value)) for name, value in given if value is not None]
    # A run may be silent for any length of time.
    return Call("GET", f"{API}/jobs/{int(job)}/log", None, params=params, read_s=None if follow else READ_S)


def _node(name: str) -> str:
    return f"{API}/nodes/{quoted(name, safe='')}"
