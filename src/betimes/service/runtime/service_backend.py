"""The service as the API calls it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Literal

from betimes.cluster.cluster import NodeGroup
from betimes.cluster.labels import labels_of
from betimes.errors import BetimesError, ClusterError, Conflict, NotAllowed, Refused, Unavailable, Unknown
from betimes.service.access.auth import RunTokens
from betimes.service.engines.named_policies import kind_of
from betimes.service.executors.local import LocalExecutor
from betimes.service.executors.log_files import LocalLog, LogReader
from betimes.service.executors.supervision.files import CURVE, LOG
from betimes.service.runtime.account import account
from betimes.service.runtime.adviser import LiveAdviser
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.curves import OF_SLURM, curves_view
from betimes.service.runtime.fleet_views import ask_plan, fleet, fleet_plan
from betimes.service.runtime.health import Readiness, health_of
from betimes.service.runtime.promises import Promises
from betimes.service.runtime.requests import add_nodes, edit, give_back_machines, signal, steer
from betimes.service.runtime.retention import EMPTY_KEPT_S
from betimes.service.runtime.slurm_questions import SlurmQuestions
from betimes.service.runtime.submissions import Submissions
from betimes.service.runtime.to_views import (
    displaced_by,
    event_view,
    job_view,
    node_view,
    preemptions_of,
    quote_view,
    run_views,
    selections,
    token_view,
    user_view,
)
from betimes.service.runtime.tuner import LiveTuner
from betimes.service.runtime.usage import Rented, efficiency_view, rented, usage_view
from betimes.service.runtime.what_if import LATE_S, MOST_ARRIVALS, Helps, WhatIf, changes_for, check_late
from betimes.service.scheduling.events import Event, Signalled
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Action
from betimes.service.scheduling.node import DRAINED, DRAINING, UP
from betimes.service.scheduling.promises import INTERVAL, STARTS, Forecast
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.shares import Standing
from betimes.service.scheduling.wait_reasons import WaitReasons
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import Role, TokenSpec, User, UserChanges
from betimes.service.tuning.kept import PREFIX
from betimes.service.tuning.recent import Submission, submissions
from betimes.service.tuning.view import AdviceView, TuningView
from betimes.service.uploads.kept import Uploads
from betimes.service.views.listing import Listing, R
from betimes.service.views.maintenance import maintenance_view
from betimes.service.views.models import (
    AccuracyView,
    AdviceSpec,
    By,
    CurvesView,
    EfficiencyView,
    EventView,
    FleetPlanView,
    FleetView,
    GiveBackSpec,
    Health,
    HelpsView,
    JobFilter,
    JobStory,
    JobView,
    Lease,
    MaintenanceSpec,
    MaintenanceView,
    NodeSpec,
    NodeView,
    Page,
    PolicyView,
    PortfolioView,
    Quote,
    Reason,
    Submitted,
    TokenView,
    TuneSpec,
    UploadLimits,
    UploadView,
    UsageView,
    UserView,
    WhatIfSpec,
    WhatIfView,
)
from betimes.units import humanise_s

log = logging.getLogger(__name__)

EVENTS_A_PAGE = 1000
TRIALS_A_PAGE = 1000
SURE_AT_ONCE = 100  # jobs of a list whose intervals are worked out before others are answered
PATIENCE_S = 0.05  # for a fresh forecast when jobs are shown; after that they are shown with the last one
FIRST_PATIENCE_S = 2.0  # likewise where there is none yet


class ServiceBackend:
    """Answers what the API asks, from the state in memory and from the store.

    Calls may overlap; errors are those of `betimes.errors`.
    """

    def __init__(
        self,
        controller: Controller,
        promises: Promises,
        run_tokens: RunTokens,
        tuner: LiveTuner,
        uploads: Uploads,
        adviser: LiveAdviser,
    ) -> None:
        self.controller, self.promises, self.run_tokens, self.tuner = controller, promises, run_tokens, tuner
        self.uploads, self.adviser = uploads, adviser
        self.readiness = Readiness(controller.store.probe)
        self.started = time.monotonic()
        self.stored = asyncio.Event()  # replaced whenever events have been stored
        self.submissions = Submissions(controller, promises, uploads)
        self.of_slurm = SlurmQuestions(controller, promises)
        controller.listeners.append(self._heed)

    @property
    def scheduler(self) -> Scheduler:
        """The state; replaced if the store could not be written."""
        return self.controller.scheduler

    async def submit(self, specs: Sequence[JobSpec], user: str, key: str | None = None) -> list[Submitted]:
        """Take all of the jobs, or none, and promise them an end; the same key again gives the same answer.

        Raises Refused, Conflict.
        """
        return await self.submissions.submit(specs, user, key)

    async def quote(self, spec: JobSpec, user: str) -> Quote:
        """A job's promise if submitted now. Raises Refused."""
        if self.scheduler.watches:
            return await self.of_slurm.quote(spec, user)
        return await self.submissions.quote(spec, user)

    @property
    def upload_limits(self) -> UploadLimits:
        """The limits of a directory's size."""
        return UploadLimits(most_bytes=self.uploads.most_bytes, most_files=self.uploads.most_files)

    @property
    def most_upload_bytes(self) -> int:
        """The largest size of the archive of a directory, bytes."""
        return self.uploads.most_archive_bytes

    async def upload(self, sha256: str) -> UploadView:
        """A directory that was sent. Raises Unknown."""
        size = self.uploads.use(sha256)
        if size is None:
            raise Unknown(
                f"no directory with the SHA-256 {sha256} was sent; `betimes submit --upload DIR` sends one"
            )
        return UploadView(sha256=sha256, archive_bytes=size)

    async def receive_upload(self, sha256: str, pieces: AsyncIterator[bytes]) -> UploadView:
        """Take the archive of a directory. Raises Refused for one that cannot be used, Unavailable for want of room."""
        return UploadView(sha256=sha256, archive_bytes=await self.uploads.receive(sha256, pieces))

    async def steer(
        self, action: Action, ids: Sequence[int], user: str, where_possible: bool = False
    ) -> list[JobView]:
        """Cancel, hold, release, requeue, suspend or resume jobs; those resumed are promised an end anew.

        Raises Unknown, Conflict.
        """
        can_suspend = isinstance(self.controller.effects.executors.get("local"), LocalExecutor | None)
        if action == "suspend" and not can_suspend:
            raise Conflict(
                "jobs cannot be suspended where machines are rented, or joined by Ray; `betimes requeue` stops them"
            )
        numbers = await self.controller.ask(
            f"request {action} of {user}",
            lambda scheduler: steer(scheduler, action, ids, user, where_possible),
            jobs=ids,
        )
        return await (self._promised_anew(numbers) if action == "resume" else self._views(numbers))

    async def edit(
        self, ids: Sequence[int], changes: JobChanges, user: str, where_possible: bool = False
    ) -> list[JobView]:
        """Change jobs, and promise an end anew to those whose promise is void by that.

        Raises Unknown, Conflict, Refused.
        """
        numbers = await self.controller.ask(
            f"request edit of {user}",
            lambda scheduler: edit(scheduler, ids, changes, user, where_possible),
            jobs=ids,
        )
        return await self._promised_anew(numbers)

    async def signal(
        self, ids: Sequence[int], name: str, to: Signalled, user: str, where_possible: bool = False
    ) -> list[JobView]:
        """Send a signal to runs. Raises Unknown, Conflict."""
        numbers = await self.controller.ask(
            f"request signal of {user}",
            lambda scheduler: signal(scheduler, ids, user, name, to, where_possible),
            jobs=ids,
        )
        return await self._views(numbers)

    async def _promised_anew(self, numbers: Sequence[int]) -> list[JobView]:
        jobs = self.scheduler.ledger.jobs
        void = [n for n in numbers if n in jobs and jobs[n].promised_finish_at is None]
        if void and not self.scheduler.stands_by:
            try:
                await self.promises.make(void)
            except BetimesError as error:
                log.warning("no promise yet for the jobs just changed: %s", error)
                self.promises.is_behind = True
        return await self._views(numbers)

    async def _views(self, numbers: Sequence[int]) -> list[JobView]:
        """Jobs as they are after a change."""
        store, waiting = self.controller.store, self.scheduler.wait_reasons(None)
        rows = await asyncio.to_thread(store.jobs_of, numbers)
        now_at = self.controller.clock.now_s()
        return [job_view(rows[number], waiting, now_at) for number in numbers]

    async def progress(self, job: int, attempt: int, done: float, total: float) -> None:
        """Report the progress of a run. Raises Unknown, Conflict."""
        await self.controller.ask(
            f"progress of run {job}.{attempt}",
            lambda scheduler: scheduler.reports.progressed(job, attempt, done, total),
        )

    def check_run_token(self, job: int, attempt: int, token: str) -> bool:
        """Whether a token is that of exactly this run; compares in constant time, and reads no database."""
        return self.run_tokens.allows(job, attempt, token)

    async def owners(self, numbers: Sequence[int], /) -> dict[int, str]:
        """The owners of jobs, by their numbers; those that there are."""
        live = self.scheduler.ledger.jobs
        found = {number: live[number].user for number in numbers if number in live}
        for array in self.scheduler.ledger.arrays:
            found |= {number: array.user for number in numbers if number in array.missing}
        if others := [number for number in numbers if number not in found]:
            found |= await asyncio.to_thread(self.controller.store.owners, others)
        return found

    async def jobs(self, which: JobFilter, /) -> Page[JobView]:
        """Some of the jobs, newest first."""
        if coming := self._coming(which):
            await self.controller.until_there(coming)
        rows = await asyncio.to_thread(self.controller.store.jobs, which)
        found = await self._forecast() if any(not Status(row["status"]).is_over for row in rows) else None
        waiting = self.scheduler.wait_reasons(found)
        now_at = self.controller.clock.now_s()
        items = [job_view(row, waiting, now_at) for row in rows]
        if which.intervals:
            for at, job in enumerate(items):
                if at and at % SURE_AT_ONCE == 0:  # an interval takes a fraction of a millisecond
                    await asyncio.sleep(0)
                items[at] = self._how_sure(job)
        if which.spec:
            specs = [JobSpec(**row["spec"]) for row in rows]
            items = [job.model_copy(update={"spec": spec}) for job, spec in zip(items, specs, strict=True)]
        return Page(items=items, following=items[-1].job_id if len(items) == which.limit else None)

    def _coming(self, which: JobFilter) -> tuple[int, ...]:
        """Elements that are no jobs yet, of arrays that a list of a user's, a name's or an array's jobs must not halve.

        What is done to jobs by such a list, as `betimes cancel --name`, is for the whole array.
        """
        if which.user is None and which.name is None and which.array_id is None and not which.label:
            return ()
        return tuple(
            array.missing[-1]
            for array in self.scheduler.ledger.arrays
            if which.user in (None, array.user) and which.array_id in (None, array.first)
        )

    async def job(self, number: int, /, *, renews: bool = True) -> JobStory:
        """Everything about a job; renews: its estimate is worked out again where it is not of now. Raises Unknown."""
        store = self.controller.store
        # The events before the row: an end that the row does not show comes after the last of these events, and a
        # request that waits for it can watch from there.
        events = await asyncio.to_thread(store.events, 0, EVENTS_A_PAGE, number)
        row = await asyncio.to_thread(store.job, number)
        if row is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        if Status(row["status"]).is_over:
            found = None
        else:
            found = await self._forecast() if renews else self.promises.latest
        runs, quotes = await asyncio.gather(
            asyncio.to_thread(store.runs, number), asyncio.to_thread(store.quotes, number)
        )
        displaced = await asyncio.to_thread(displaced_by, events, store)
        waiting = self.scheduler.wait_reasons(found)
        view = self._how_sure(job_view(row, waiting, self.controller.clock.now_s()))
        trials = await self._trials(number, waiting) if _is_set(row) else []
        off_s, promised_at = None, view.stated_at
        reached_limit = view.reason is not None and view.reason.code == "time-limit"
        if (
            (view.status is Status.FINISHED or reached_limit)
            and view.finished_at is not None
            and promised_at is not None
        ):
            off_s = view.finished_at - promised_at
        return JobStory(
            job=view,
            spec=JobSpec(**row["spec"]),
            runs=await asyncio.to_thread(run_views, runs, self.controller.launches.folder, view.ran_s),
            quotes=[quote_view(one) for one in quotes],
            events=[event_view(one) for one in events],
            preempted=preemptions_of(number, events),
            displaced=displaced,
            trials=trials,
            quote_error_s=off_s,
            no_quote=None if quotes else _no_quote(view),
        )

    def _how_sure(self, job: JobView) -> JobView:
        """With the interval of its end by what is known now; no promise is made or judged by that."""
        live, found, now_at = (
            self.scheduler.ledger.jobs.get(job.job_id),
            job.estimate,
            self.controller.clock.now_s(),
        )
        if live is None or found is None or found.finish_at is None:
            return job
        errors, earliest_at = self.scheduler.ledger.promise_errors, self.scheduler.earliest_at(live, now_at)
        queue = self.scheduler.queue
        latest = self.promises.latest
        believed_at = math.nan if latest is None else latest.believed_end_at(job.job_id)
        around = errors.around(live, now_at, found.start_at, found.finish_at, queue, earliest_at, believed_at)
        known: dict[str, Any] = {name: around.fields.get(name) for name in (*INTERVAL, *STARTS)}
        known["rests_on"] = around.rests_on
        return job.model_copy(update={"estimate": found.model_copy(update=known)})

    async def _trials(self, number: int, waiting: WaitReasons) -> list[JobView]:
        """The trials of a set, the first ones first; their numbers follow its own."""
        which = JobFilter(array_id=number, after=number + TRIALS_A_PAGE + 1, limit=TRIALS_A_PAGE + 1)
        rows = await asyncio.to_thread(self.controller.store.jobs, which)
        now_at = self.controller.clock.now_s()
        return [job_view(row, waiting, now_at) for row in reversed(rows) if row["job_id"] != number]

    async def open_log(self, number: int, attempt: int | None, rank: int, tail: int | None, /) -> LogReader:
        """A run's output on one of its nodes, or so many of the last lines. Raises Unknown."""
        row, last = await self._attempt(number, attempt)
        return await self._open(row, last, rank, tail, LOG)

    async def curves(self, number: int, attempt: int | None = None, rank: int = 0, /) -> CurvesView:
        """The use of a run over its time on one of its nodes. Raises Unknown."""
        row, last = await self._attempt(number, attempt)
        rows = await asyncio.to_thread(self.controller.store.runs, number)
        run = next((run for run in rows if run["number"] == last), None)
        if run is None:
            raise Unknown(
                f"attempt {last} of job {number} has not started, so that nothing of it is measured"
            )
        held = Counter[str]()
        for node, units in run["places"]:
            held[node] += units
        if rank and rank >= len(held):
            raise Unknown(f"attempt {last} of job {number} has no rank {rank}; its last is {len(held) - 1}")
        units = list(held.values())[rank] if held else run["units"]
        spec = JobSpec(**row["spec"])
        if self.scheduler.watches:
            return curves_view(run, spec, units, b"").model_copy(update={"not_measured": OF_SLURM})
        return curves_view(run, spec, units, await self._curve_of(row, last, rank))

    async def _curve_of(self, row: Mapping[str, Any], attempt: int, rank: int) -> bytes:
        """The file of a run's use; empty where there is none, or no longer."""
        try:
            reader = await self._open(row, attempt, rank, None, CURVE)
        except Unknown:  # removed with its output, or gone with its node
            return b""
        try:
            return await reader.read()  # in one piece, as a supervisor's is that small
        finally:
            reader.close()

    async def _attempt(self, number: int, attempt: int | None) -> tuple[Mapping[str, Any], int]:
        """A job of the store, and the number of this attempt at it, or of its latest. Raises Unknown."""
        row = await asyncio.to_thread(self.controller.store.job, number)
        if row is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        if row["attempt"] == 0:
            raise Unknown(f"job {number} has not started yet, so that it has no output")
        last = attempt or row["attempt"]
        if not 1 <= last <= row["attempt"]:
            raise Unknown(
                f"job {number} has had {row['attempt']} attempts, and there is no attempt {attempt}"
            )
        return row, last

    async def _open(
        self, row: Mapping[str, Any], attempt: int, rank: int, tail: int | None, name: str
    ) -> LogReader:
        """A file of a run on one of its nodes. Raises Unknown for a rank that it did not have, and where the file is no
        longer kept.
        """
        number = row["job_id"]
        folder = self.controller.launches.folder(number, attempt)
        cluster = self.controller.effects.cluster
        if cluster is None:
            if rank:
                raise Unknown(f"attempt {attempt} of job {number} ran on one node, and has no rank {rank}")
            old_at = self.scheduler.now_at - EMPTY_KEPT_S
            is_old = row["finished_at"] is not None and row["finished_at"] < old_at
            if is_old and not await asyncio.to_thread(folder.exists):
                raise Unknown(
                    f"no output of job {number} is kept: it has printed nothing, or is over for longer than output is "
                    "kept (betimes up --keep-runs)"
                )
            return LocalLog(folder / name, tail)
        rows = await asyncio.to_thread(self.controller.store.runs, number)
        places = next((run["places"] for run in rows if run["number"] == attempt), [])
        nodes = list(dict.fromkeys(str(node) for node, _ in places))
        return await cluster.open_log(str(folder), nodes, rank, tail, name)

    async def nodes(self) -> list[NodeView]:
        """Every node, and those of the operator's that were lost for good within a day."""
        ledger = self.scheduler.ledger
        lost = [
            one for one in ledger.away() if one.rented_at is None and one.machine.name not in ledger.nodes
        ]
        gone = [node_view(node.machine.name, node, self.scheduler) for node in lost]
        return [*self._nodes(ledger.nodes), *gone]

    async def add_nodes(self, spec: NodeSpec, user: str) -> list[NodeView]:
        """Add nodes, or rent them. Raises Refused, Conflict."""
        self._check_decides()
        if spec.is_rented:
            return await self._rent(spec, user)
        try:
            sizes = (spec.gpu or 0.0, spec.cpu or 0.0, spec.memory_gib or 0.0)
            labels = labels_of(spec.labels)
            family = spec.family or ""
            group = NodeGroup(spec.type, spec.count, *sizes, spec.usd_per_h, labels=labels, family=family)
        except ClusterError as error:
            raise Refused(str(error)) from None

        names = await self.controller.ask(
            f"new nodes of {user}",
            lambda scheduler: add_nodes(scheduler, group, spec.kind, f"user:{user}"),
        )
        return self._nodes(names)

    async def _rent(self, spec: NodeSpec, user: str) -> list[NodeView]:
        if (rentals := self.controller.rentals) is None:
            raise Conflict(
                "this service rents from no cloud; start it with `betimes up --cloud FILE.toml` or --fleet local"
            )
        names = await self.controller.ask(
            f"rent by {user}",
            lambda scheduler: rentals.rent(scheduler, spec.type, spec.count, f"user:{user}"),
        )
        return self._nodes(names)

    async def drain(self, name: str, user: str, reason: str = "") -> NodeView:
        """Start nothing more on a node, for this reason. Raises Unknown, Conflict."""
        self._check_decides()
        node = await self.controller.ask(
            f"drain of node {name} by {user}",
            lambda scheduler: scheduler.nodes.drain(name, user, reason, f"user:{user}"),
        )
        return node_view(name, node, self.scheduler)

    async def undrain(self, name: str, user: str) -> NodeView:
        """Use a node again. Raises Unknown, Conflict."""
        self._check_decides()
        node = self.scheduler.ledger.nodes.get(name)
        if node is not None and node.status not in (DRAINING, DRAINED, UP):
            raise Conflict(f"node {name} is {node.status}; only a drained one can be used again")
        node = await self.controller.ask(
            f"node {name} up by {user}",
            lambda scheduler: scheduler.nodes.set_status(name, UP, f"user:{user}"),
        )
        return node_view(name, node, self.scheduler)

    async def listed(self, listing: Listing[R]) -> list[R]:
        """A list as it is now."""
        return listing.read(self.scheduler, self.controller.clock.now_s())

    async def add_maintenance(self, spec: MaintenanceSpec, user: str) -> MaintenanceView:
        """Announce maintenance. Raises Refused, Unknown, Conflict."""
        self._check_decides()
        window = await self.controller.ask(
            f"maintenance of {user}",
            lambda scheduler: scheduler.maintenance.add(
                spec.from_at, spec.to_at, tuple(spec.nodes), spec.reason, user, spec.stop, spec.users
            ),
        )
        return maintenance_view(window, self.scheduler)

    async def remove_maintenance(self, number: int, user: str) -> MaintenanceView:
        """Call a maintenance off, or end it early. Raises Unknown."""
        window = await self.controller.ask(
            f"end of maintenance by {user}", lambda scheduler: scheduler.maintenance.remove(number, user)
        )
        return maintenance_view(window, self.scheduler)

    async def give_back(self, spec: GiveBackSpec, user: str) -> FleetView:
        """Give back rented machines; what is rented then. Raises Unknown, Conflict."""
        await self.controller.ask(
            f"return of machines by {user}",
            lambda scheduler: give_back_machines(scheduler, spec.machine, spec.now, user),
        )
        return await self.fleet()

    async def heartbeat(self, name: str) -> Lease:
        """A heartbeat; the next one must come within the lease. Raises Unknown, Conflict."""
        return await self.controller.beat(name)

    async def policy(self) -> PolicyView:
        """The policy in force."""
        ledger = self.scheduler.ledger
        idle = self.scheduler.idle
        return PolicyView(
            policy=ledger.policy,
            engine=_engine(ledger.policy),
            since_at=ledger.policy_since_at,
            idle=Reason(**idle) if idle else None,
            proposal=self.tuner.proposal(),
            chosen=self.tuner.in_use(),
            unused=self.scheduler.unused_offers,
        )

    async def set_policy(self, text: str, user: str) -> PolicyView:
        """Decide by another policy from now on, or by a point of the latest front (`front:3`).

        Raises PolicyError, Conflict.
        """
        self._check_decides()
        await self.tuner.set_policy(text, user)
        return await self.policy()

    async def users(self) -> list[UserView]:
        """Every user that was added, by name."""
        return [await self._user(user) for _, user in sorted(self.scheduler.ledger.users.items())]

    async def _user(self, user: User) -> UserView:
        """A user, with what the user has of each limit and budget."""
        note = await self.why_no_jobs(user.name) if user.role != "viewer" else None
        return user_view(user, self.scheduler, self.controller.clock.now_s(), note)

    async def why_no_jobs(self, user: str, /) -> str | None:
        """Why jobs of a user would be refused, whatever they ask for; null: they would not."""
        try:
            await asyncio.to_thread(self.controller.launches.owners.check, user)
        except NotAllowed as error:
            return str(error)
        return None

    def unix_user(self, user: str, /) -> str | None:
        """The Unix user as whom a user's jobs, and their hooks, run; null: the service's."""
        return self.controller.launches.owners.unix_user(user)

    def role_of(self, name: str) -> Role | None:
        """The present role of a user; null: there is none of that name, or disabled."""
        user = self.scheduler.ledger.users.get(name)
        return None if user is None or user.disabled else user.role

    async def note_token(
        self, what: Literal["token-made", "token-revoked"], spec: TokenSpec, by: str
    ) -> None:
        """Log that a token of a user is made or revoked. Raises Unknown."""
        await self.controller.ask(
            f"{what} by {by}", lambda scheduler: scheduler.users.note_token(what, spec, f"user:{by}")
        )

    async def tokens(self, user: str | None) -> list[TokenView]:
        """The tokens of users, or of one, in the order in which they were made."""
        found = await asyncio.to_thread(self.controller.store.tokens, user)
        return [token_view(each) for each in found]

    async def add_user(self, user: User, by: str) -> UserView:
        """Add a user. Raises Conflict for a name that is taken; Refused for root with less than an operator's role."""
        await self._check_role(user.name, user.role)
        added = await self.controller.ask(
            f"new user by {by}", lambda scheduler: scheduler.users.add(user, f"user:{by}")
        )
        return await self._user(added)

    async def change_user(self, name: str, changes: UserChanges, by: str) -> UserView:
        """Change a user. Raises Unknown; Refused for a limit below what runs now, and as `add_user` does."""
        if changes.role is not None:
            await self._check_role(name, changes.role)
        changed = await self.controller.ask(
            f"change of a user by {by}",
            lambda scheduler: scheduler.users.change(name, changes, f"user:{by}"),
        )
        return await self._user(changed)

    async def _check_role(self, name: str, role: str) -> None:
        owners = self.controller.launches.owners
        if role != "operator" and await asyncio.to_thread(owners.run_as_root, name):
            raise Refused(
                f"jobs of {name} would run as root, who may do everything: give --role operator, or another name",
                "role",
            )

    async def fleet(self) -> FleetView:
        """The rented fleet and its cost."""
        rentals = self.controller.rentals
        now_at = self.controller.clock.now_s()
        return fleet(self.scheduler, now_at, rentals.going() if rentals is not None else 0)

    async def fleet_plan(self) -> FleetPlanView:
        """The policy's next changes. Raises Conflict for one that does not plan in rounds."""
        return await asyncio.to_thread(fleet_plan, ask_plan(self.scheduler))

    async def portfolio(self, last: int) -> PortfolioView:
        """The newest selections of portfolios, newest first."""
        found = await asyncio.to_thread(selections, self.controller.store, last)
        ledger = self.scheduler.ledger
        return PortfolioView(policy=ledger.policy, member=ledger.member, selections=found)

    async def what_if(self, asked: WhatIfSpec, user: str) -> WhatIfView:
        """The ends of jobs after changes, none of which is made; the policy may be `front:3`, too.

        Raises Refused, Unknown, Conflict and PolicyError as the changes would.
        """
        if self.scheduler.watches:
            return await self.of_slurm.what_if(asked, user)
        asked = asked.model_copy(update={"submit": await self.submissions.prepared(asked.submit, user)})
        self.submissions.check_uploads(asked.submit)
        if (policy := asked.policy) is not None:
            if policy.startswith(PREFIX):
                policy, _ = self.tuner.chosen(policy)
                asked = asked.model_copy(update={"policy": policy})
            kind_of(policy)
            await self.controller.compile(policy)
        if self.scheduler.stands_by:
            raise Unavailable(
                f"compiling policy {self.scheduler.ledger.policy}: nothing can be foreseen until that is done; "
                "ask again in a moment"
            )
        late = list[Submission]()
        if asked.load is not None:
            now_at = self.controller.clock.now_s()
            late = await asyncio.to_thread(submissions, self.controller.store, now_at - LATE_S, MOST_ARRIVALS)
            check_late(late, now_at)
        question = WhatIf(self.promises.rehearsal(), asked, user, late)
        with self.controller.clock.hold():
            found = await asyncio.to_thread(question.play)
        return question.how_sure(found, self.scheduler)

    async def helps(self, number: int, within_s: float, /) -> HelpsView:
        """The changes that would help a job that waits."""
        scheduler, made_at = self.scheduler, self.controller.clock.now_s()
        job = scheduler.ledger.jobs.get(number)
        if job is None and scheduler.ended_as(number) is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        if job is None or job.status is not Status.QUEUED or job.set_id is not None or scheduler.stands_by:
            return HelpsView(made_at=made_at)
        if scheduler.watches:  # what the job may ask for is its user's question: what-if
            return HelpsView(made_at=made_at)
        if scheduler.rents:
            return HelpsView(
                made_at=made_at, not_tried=[f"{scheduler.ledger.policy} rents machines as it sees fit"]
            )
        changes = changes_for(scheduler, job, scheduler.wait_reasons(await self._forecast()))
        tries = Helps(self.promises.rehearsal(), job, changes, within_s)
        with self.controller.clock.hold():
            return await asyncio.to_thread(tries.play)

    async def accuracy(
        self, since_s: float | None, until_s: float, by: By | None, listed: bool, user: str | None = None
    ) -> AccuracyView:
        """The accuracy of the promises of a period, from so long ago (null: from the first) until so long ago.

        user: to whose jobs; null: to all. Raises Refused for a period that ends before it begins.
        """
        since_at, until_at = self._period(since_s, until_s)
        level = self.scheduler.settings.level

        def read() -> AccuracyView:
            rows = self.controller.store.promises(since_at, until_at, user)
            return account(rows, since_at, until_at, level, by, listed, self.scheduler.watches)

        return await asyncio.to_thread(read)

    async def usage(
        self,
        since_s: float | None,
        until_s: float,
        by: Literal["user", "group", "name", "label", "account"] | None,
        user: str | None = None,
    ) -> UsageView:
        """The use by runs in a period. Raises Refused for a period that ends before it begins.

        user: by the runs of whose jobs; of these no rented machine is counted. Null: by all.
        """
        since_at, until_at = self._period(since_s, until_s)
        ledger = self.scheduler.ledger
        nodes, standing = [*ledger.nodes.values()], dict[str, Standing]()
        live = self.scheduler.limits.charges(max(self.scheduler.now_at, self.controller.clock.now_s()))
        if by == "user":
            now_s = self.controller.clock.now_s() - ledger.epoch_at
            users = self.scheduler.weighted_users
            standing = ledger.shares.standing(users, {job.user for job in ledger.jobs.values()}, now_s)

        groups = self.scheduler.settings.groups

        def group_of(user: str) -> str:
            group = groups.of(user)
            return "no group" if group is None else group.name

        def read() -> UsageView:
            store = self.controller.store
            total = store.usage(since_at, until_at, None, user)
            kind = "user" if by == "group" else by
            rows = store.usage(since_at, until_at, kind, user) if kind is not None else []
            grouped = [dict(row) for row in rows]
            asked = {"since_at": since_at, "until_at": until_at, "by": kind}
            charged = rented(store, live, asked) if user is None else Rented([], [], [])
            if by == "group":
                for row in grouped:
                    row["group"] = group_of(row["group"])
                charged.by_group = [(group_of(name), usd) for name, usd in charged.by_group]
            return usage_view(total, grouped, nodes, {**asked, "by": by}, standing, charged)

        return await asyncio.to_thread(read)

    async def efficiency(self, number: int, /) -> EfficiencyView:
        """The part that a job, or an array, used of its request. Raises Unknown."""
        store = self.controller.store
        if await asyncio.to_thread(store.job, number) is None:
            raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
        return efficiency_view(number, await asyncio.to_thread(store.runs_of, number))

    def _period(self, since_s: float | None, until_s: float) -> tuple[float, float]:
        """From so long ago (null: from the first job on) until so long ago. Raises Refused for an empty period."""
        now_at = self.controller.clock.now_s()
        if since_s is not None and since_s <= until_s:
            raise Refused(
                f"the period ends before it begins: it is from {humanise_s(since_s)} ago to {humanise_s(until_s)} ago",
                "since_s",
            )
        return 0.0 if since_s is None else now_at - since_s, now_at - until_s

    async def tune(self, spec: TuneSpec, user: str) -> TuningView:
        """Begin a search, in the place of one that is going on. Raises Refused, Conflict."""
        self._check_decides()
        return await self.tuner.start(spec, user)

    async def tuning(self) -> TuningView:
        """The search that is going on, and the latest front."""
        return self.tuner.view()

    async def advise(self, spec: AdviceSpec) -> AdviceView:
        """Begin to work out which policies are worth having, unless that goes on already. Raises Conflict."""
        self._check_decides()
        return await self.adviser.start(spec)

    async def advice(self) -> AdviceView:
        """The advice that is being worked out, and the latest."""
        return self.adviser.view()

    async def stop_tuning(self, user: str) -> TuningView:
        """Let the search end with the front so far. Raises Conflict where none is going on."""
        found = self.tuner.stop()
        await self.controller.ask(
            f"end of a search by {user}",
            lambda scheduler: scheduler.note_tuning("tuning-stopped", f"user:{user}"),
        )
        return found

    async def events(
        self, after: int, limit: int, job: int | None, kinds: tuple[str, ...], by: str | None = None
    ) -> Page[EventView]:
        """Lines of the event log, oldest first; after 0 come the oldest that are kept; by: those of a user's doing."""
        after = after or self.controller.store.archived_upto
        found = await asyncio.to_thread(self.controller.store.events, after, limit, job, kinds, by)
        return Page(
            items=[event_view(event) for event in found],
            following=found[-1].event_id if len(found) == limit else None,
        )

    async def watch(self, after: int) -> AsyncIterator[EventView]:
        """Every event past `after`: from the log, then as they happen, without gaps.

        Each is read from the log, so that a slow reader delays no other.
        """
        after = after or self.controller.store.archived_upto
        while True:
            stored = self.stored
            found = await asyncio.to_thread(self.controller.store.events, after, EVENTS_A_PAGE)
            for event in found:
                yield event_view(event)
                after = event.event_id
            if not found:
                await stored.wait()

    async def health(self) -> Health:
        """Whether work can be taken."""
        return await health_of(self.controller, self.readiness, time.monotonic() - self.started)

    async def _forecast(self) -> Forecast | None:
        """The forecast of now, or the last one if that takes a while, as `as_of_at` shows."""
        if self.scheduler.stands_by or self.scheduler.is_blind:
            return None
        patience_s = FIRST_PATIENCE_S if self.promises.latest is None else PATIENCE_S
        try:
            async with asyncio.timeout(patience_s):  # `wait_for` of Python 3.11 may lose a cancellation
                return await asyncio.shield(self.promises.forecast())
        except TimeoutError:
            return self.promises.latest

    def _check_decides(self) -> None:
        """Raise Conflict where another scheduler decides: policy and nodes are its own."""
        if self.scheduler.watches:
            raise Conflict(
                "this service watches Slurm, which has its own nodes and decides by itself; change it there"
            )

    def _nodes(self, names: Iterable[str]) -> list[NodeView]:
        nodes = self.scheduler.ledger.nodes
        return [node_view(name, nodes[name], self.scheduler) for name in names if name in nodes]

    def _heed(self, _: list[Event]) -> None:
        self.stored.set()
        self.stored = asyncio.Event()


def _is_set(row: Mapping[str, Any]) -> bool:
    return row["array_id"] == row["job_id"] and row["array_index"] is None


def _no_quote(job: JobView) -> Reason:
    """Why a job has not been promised an end."""
    if job.started_at is not None and job.status.is_over:
        return Reason(code="ended-first", text="it ended before its promise was worked out")
    if job.status.is_over:
        return Reason(code="ended-first", text="it ended before it could start")
    return job.reason or Reason(code="not-yet", text="it is being worked out")


def _engine(policy: str) -> Any:
    return kind_of(policy)[0]
