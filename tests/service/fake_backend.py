"""A service in memory, to try the API and the clients on: jobs change when a test says so."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from betimes.errors import Conflict, InputError, PolicyError, Refused, Unknown
from betimes.foresight.objectives import parse_objectives
from betimes.service.access.auth import KeptToken, RunTokens
from betimes.service.api.examples import (
    ACCURACY,
    EFFICIENCY,
    FLEET,
    FLEET_PLAN,
    PORTFOLIO,
    USAGE,
    WHAT_IF,
)
from betimes.service.executors.log_files import LocalLog, LogReader
from betimes.service.runtime.to_views import token_view
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.jobs import Action
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec, parse_array
from betimes.service.spec.users import TokenSpec, User, UserChanges
from betimes.service.tuning.view import SearchView, TuningView
from betimes.service.views.models import (
    AccuracyView,
    By,
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
    RunView,
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
from tests.service.tuning.fronts import front, policy

MOST_ELEMENTS = 20  # of an array that are made
LARGEST_CPU = 64.0
READ_AHEAD = 16  # events that `watch` takes from the log at once

BECOMES: dict[Action, Status] = {
    "cancel": Status.CANCELLED,
    "hold": Status.HELD,
    "release": Status.QUEUED,
    "requeue": Status.STOPPING,
    "suspend": Status.RUNNING,
    "resume": Status.RUNNING,
}


class FakeBackend:
    """Remembers what it is told and logs an event for it."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.now = 1_767_268_800.0
        self.specs: dict[int, JobSpec] = {}
        self.views: dict[int, JobView] = {}
        self.log: list[EventView] = []
        self.reports: list[tuple[int, int, float, float]] = []
        self.keys: dict[tuple[str, str], tuple[list[JobSpec], list[Submitted]]] = {}
        self.submissions = 0
        self.ready = True
        self.failing: Exception | None = None  # raised by every call
        self.after_submit: Callable[[], None] = lambda: None
        self.watching = 0
        self.nodes_here = {"here": _node("here")}
        self.maintenance_here: dict[int, MaintenanceView] = {}
        self.policy_here = PolicyView(policy="fifo", engine="pool", since_at=self.now)
        self.tuning_here = TuningView()
        self.kept_tokens: dict[str, KeptToken] = {}
        self.users_here: dict[str, UserView] = {}
        self.uploads: dict[str, bytes] = {}
        self.upload_limits = UploadLimits(most_bytes=4 << 20, most_files=1000)
        self.most_upload_bytes = 4 << 20
        self.runs = RunTokens(b"secret")
        self._news: set[asyncio.Event] = set()

    # What tests do to it

    def happens(self, kind: str, job: int | None = None, **data: Any) -> EventView:
        event = EventView(
            event_id=len(self.log) + 1, at=self.now, kind=kind, cause="policy", job_id=job, data=data
        )
        self.log.append(event)
        for news in self._news:
            news.set()
        return event

    def becomes(self, job: int, status: Status, **changes: Any) -> None:
        self.views[job] = self.views[job].model_copy(update={"status": status, **changes})
        self.happens(status.value, job)

    # What the API asks of it

    async def submit(self, specs: Sequence[JobSpec], user: str, key: str | None = None) -> list[Submitted]:
        self._may_fail()
        if key is not None and (user, key) in self.keys:
            known, answer = self.keys[user, key]
            if known != list(specs):
                raise Conflict(f"key {key} was used for another submission; choose a new one")
            return answer
        for spec in specs:
            if spec.cpu > LARGEST_CPU:
                raise Refused(f"{spec.cpu:g} cores a unit; the largest node has {LARGEST_CPU:g}", "cpu")
        self.submissions += 1
        answer = [self._take(spec, user) for spec in specs]
        if key is not None:
            self.keys[user, key] = (list(specs), answer)
        self.after_submit()
        return answer

    def _take(self, spec: JobSpec, user: str) -> Submitted:
        first = len(self.specs) + 1
        indices = [None] if spec.array is None or spec.as_one else parse_array(spec.array)[0][:MOST_ELEMENTS]
        numbers = list(range(first, first + len(indices)))
        for number, index in zip(numbers, indices, strict=True):
            self.specs[number] = spec
            self.views[number] = JobView(
                job_id=number, name=spec.title, user=user, status=Status.QUEUED, qos=spec.qos, units=0,
                min_units=spec.min_units, max_units=spec.max_units, cpu=spec.cpu, submitted_at=self.now,
                labels=spec.labels, array_id=None if index is None else first, array_index=index,
            )  # fmt: skip
            self.happens("submitted", number)
        return Submitted(job_id=first, job_ids=numbers, quote=self._quote(numbers[-1]))

    def _quote(self, number: int | None) -> Quote:
        return Quote(
            job_id=number, made_at=self.now, policy="fifo", start_at=self.now, finish_at=self.now + 60, run_s=60,
            basis="default",
        )  # fmt: skip

    async def quote(self, spec: JobSpec, user: str) -> Quote:
        self._may_fail()
        return self._quote(None)

    async def upload(self, sha256: str) -> UploadView:
        self._may_fail()
        if sha256 not in self.uploads:
            raise Unknown(f"no directory with the SHA-256 {sha256} was sent")
        return UploadView(sha256=sha256, archive_bytes=len(self.uploads[sha256]))

    async def receive_upload(self, sha256: str, pieces: AsyncIterator[bytes]) -> UploadView:
        data = b"".join([piece async for piece in pieces])
        self._may_fail()
        if (found := hashlib.sha256(data).hexdigest()) != sha256:
            raise Refused(f"the SHA-256 of what came is {found}, and not {sha256}; send it again", "sha256")
        self.uploads[sha256] = data
        return await self.upload(sha256)

    async def steer(
        self, action: Action, ids: Sequence[int], user: str, where_possible: bool = False
    ) -> list[JobView]:
        reason = Reason(code="suspended", text="suspended by ann", evidence={})
        fields = {"suspend": {"reason": reason}, "resume": {"reason": None}}.get(action, {})
        return self._move(ids, BECOMES[action], where_possible, **fields)

    async def signal(
        self, ids: Sequence[int], name: str, to: str, user: str, where_possible: bool = False
    ) -> list[JobView]:
        sent = self._move(ids, Status.RUNNING, where_possible)
        for job in sent:
            self.happens("signalled", job.job_id, signal=name, to=to)
        return sent

    async def edit(
        self, ids: Sequence[int], changes: JobChanges, user: str, where_possible: bool = False
    ) -> list[JobView]:
        for number in self._able(ids, Status.QUEUED, where_possible):
            spec = self.specs[number] = changes.changed(self.specs[number])
            self.views[number] = self.views[number].model_copy(
                update={"name": spec.title, "labels": spec.labels}
            )
        return [self.views[number] for number in self._able(ids, Status.QUEUED, where_possible)]

    def _move(
        self, ids: Sequence[int], to: Status, where_possible: bool, **fields: Reason | None
    ) -> list[JobView]:
        ids = self._able(ids, to, where_possible)
        for number in ids:
            self.becomes(number, to, **fields)
        return [self.views[number] for number in ids]

    def _able(self, ids: Sequence[int], to: Status, where_possible: bool) -> Sequence[int]:
        self._may_fail()
        if where_possible:
            ids = [number for number in ids if not self._job(number).status.is_over]
        for number in ids:
            if self._job(number).status.is_over:
                raise Conflict(
                    f"job {number} is {self.views[number].status.value}: it cannot become {to.value}"
                )
        return ids

    async def progress(self, job: int, attempt: int, done: float, total: float) -> None:
        self._job(job)
        self.reports.append((job, attempt, done, total))

    def check_run_token(self, job: int, attempt: int, token: str) -> bool:
        return self.runs.allows(job, attempt, token)

    def unix_user(self, user: str, /) -> str | None:
        return None

    async def owners(self, numbers: Sequence[int], /) -> dict[int, str]:
        return {number: self.views[number].user for number in numbers if number in self.views}

    async def jobs(self, which: JobFilter) -> Page[JobView]:
        self._may_fail()
        fit = [view for number, view in sorted(self.views.items(), reverse=True) if _fits(view, which)]
        items = fit[: which.limit]
        if which.spec:
            items = [job.model_copy(update={"spec": self.specs[job.job_id]}) for job in items]
        return Page(items=items, following=items[-1].job_id if len(fit) > len(items) else None)

    async def job(self, number: int) -> JobStory:
        self._may_fail()
        view = self._job(number)
        runs = [
            RunView(number=n + 1, units=1, places=[], started_at=self.now, ran_s=0.0)
            for n in range(view.attempt)
        ]
        events = [event for event in self.log if event.job_id == number]
        return JobStory(
            job=view, spec=self.specs[number], runs=runs, quotes=[self._quote(number)], events=events
        )

    async def helps(self, number: int, within_s: float, /) -> HelpsView:
        self._may_fail()
        self._job(number)
        return HelpsView(made_at=self.now)

    async def open_log(self, number: int, attempt: int | None, rank: int, tail: int | None) -> LogReader:
        view = self._job(number)
        run = view.attempt if attempt is None else attempt
        if not 1 <= run <= view.attempt or self.folder is None:
            raise Unknown(f"job {number} has no run {run}: it has had {view.attempt}")
        return LocalLog(self.folder / str(number) / str(run) / "log", tail)

    async def nodes(self) -> list[NodeView]:
        self._may_fail()
        return list(self.nodes_here.values())

    async def add_nodes(self, spec: NodeSpec, user: str) -> list[NodeView]:
        if spec.count > 1000:
            raise Refused(f"{spec.count} nodes at once; at most 1000", "count")
        new = [_node(f"{spec.type}-{n}") for n in range(spec.count)]
        self.nodes_here.update({node.name: node for node in new})
        return new

    async def drain(self, name: str, user: str, reason: str = "") -> NodeView:
        return self._node(name, "draining", drained_by=user, drain_reason=reason, since_at=self.now)

    async def undrain(self, name: str, user: str) -> NodeView:
        return self._node(name, "up", drained_by=None, drain_reason="", since_at=None)

    async def heartbeat(self, name: str) -> Lease:
        self._node(name, "up")
        return Lease(node=name, lease_s=30.0, until_at=self.now + 30.0)

    async def policy(self) -> PolicyView:
        return self.policy_here

    async def set_policy(self, text: str, user: str) -> PolicyView:
        if text == "front:1" and self.tuning_here.front is not None:
            text = policy(1)
        elif text not in ("fifo", "srsf"):
            raise PolicyError(f"there is no policy {text[:40]!r}; `betimes policies` lists them")
        self.policy_here = PolicyView(policy=text, engine="pool", since_at=self.now)
        return self.policy_here

    async def users(self) -> list[UserView]:
        self._may_fail()
        return list(self.users_here.values())

    async def why_no_jobs(self, user: str, /) -> str | None:
        return None

    async def note_token(
        self, what: Literal["token-made", "token-revoked"], spec: TokenSpec, by: str
    ) -> None:
        if spec.user not in self.users_here:
            raise Unknown(f"there is no user {spec.user}")

    async def tokens(self, user: str | None) -> list[TokenView]:
        named = [kept for kept in self.kept_tokens.values() if kept.name is not None]
        return [token_view(kept) for kept in named if user in (None, kept.user)]

    async def add_user(self, user: User, by: str) -> UserView:
        if user.name in self.users_here:
            raise Conflict(f"there is a user {user.name} already")
        self.users_here[user.name] = UserView(**user.model_dump())
        return self.users_here[user.name]

    async def change_user(self, name: str, changes: UserChanges, by: str) -> UserView:
        if name not in self.users_here:
            raise Unknown(f"there is no user {name[:64]!r}")
        changed = self.users_here[name].changed(changes)
        self.users_here[name] = UserView(**changed.model_dump())
        return self.users_here[name]

    async def fleet(self) -> FleetView:
        self._may_fail()
        return FLEET

    async def maintenance(self) -> list[MaintenanceView]:
        self._may_fail()
        return [*self.maintenance_here.values()]

    async def add_maintenance(self, spec: MaintenanceSpec, user: str) -> MaintenanceView:
        self._may_fail()
        if not spec.from_at < spec.to_at:
            raise Refused("it ends before it begins", "to_at")
        for node in spec.nodes:
            if node not in self.nodes_here:
                raise Unknown(f"there is no node {node!r}")
        number = len(self.maintenance_here) + 1
        made = MaintenanceView(number=number, user=user, **spec.model_dump())
        self.maintenance_here[number] = made
        return made

    async def remove_maintenance(self, number: int, user: str) -> MaintenanceView:
        self._may_fail()
        if number not in self.maintenance_here:
            raise Unknown(f"there is no maintenance {number}")
        return self.maintenance_here.pop(number)

    async def give_back(self, spec: GiveBackSpec, user: str) -> FleetView:
        self._may_fail()
        if spec.machine not in (None, "c4-0"):
            raise Unknown(f"there is no node {spec.machine}")
        return FLEET.model_copy(update={"machines": []})

    async def fleet_plan(self) -> FleetPlanView:
        self._may_fail()
        return FLEET_PLAN

    async def portfolio(self, last: int) -> PortfolioView:
        self._may_fail()
        return PORTFOLIO.model_copy(update={"selections": PORTFOLIO.selections[:last]})

    async def what_if(self, asked: WhatIfSpec, user: str) -> WhatIfView:
        self._may_fail()
        for number in asked.cancel:
            if number not in self.views:
                raise Unknown(f"there is no job {number}")
        return WHAT_IF

    async def usage(self, since_s: float | None, until_s: float, by: Any) -> UsageView:
        self._may_fail()
        if since_s is not None and since_s <= until_s:
            raise Refused("the period ends before it begins", "since_s")
        return USAGE.model_copy(update={"by": by})

    async def efficiency(self, number: int, /) -> EfficiencyView:
        self._job(number)
        return EFFICIENCY.model_copy(update={"job_id": number})

    async def accuracy(
        self, since_s: float | None, until_s: float, by: By | None, listed: bool
    ) -> AccuracyView:
        self._may_fail()
        if since_s is not None and since_s <= until_s:
            raise Refused("the period ends before it begins", "since_s")
        return ACCURACY.model_copy(update={"by": by})

    async def tune(self, spec: TuneSpec, user: str) -> TuningView:
        self._may_fail()
        try:
            parse_objectives(spec.objectives)
        except InputError as error:
            raise Refused(str(error), "objectives") from None
        asked = Reason(code="asked", text=f"asked for by {user}")
        search = SearchView(
            spec=spec, reason=asked, begun_at=self.now, doing="searching", done=3, of=spec.evaluations
        )
        self.tuning_here = self.tuning_here.model_copy(update={"search": search})
        return self.tuning_here

    async def tuning(self) -> TuningView:
        self._may_fail()
        return self.tuning_here

    async def stop_tuning(self, user: str) -> TuningView:
        if self.tuning_here.search is None:
            raise Conflict("no search is going on")
        stopping = self.tuning_here.search.model_copy(update={"stopping": True})
        return self.tuning_here.model_copy(update={"search": stopping})

    def finds(self) -> None:
        """The search has ended with a front."""
        found = front()
        self.tuning_here = TuningView(
            at=self.now, reason=Reason(code="asked", text="x"), front=found, in_force=found.baselines[0]
        )

    async def events(
        self, after: int, limit: int, job: int | None, kinds: tuple[str, ...], by: str | None = None
    ) -> Page[EventView]:
        self._may_fail()
        fit = [
            event
            for event in self.log[after:]
            if (job is None or event.job_id == job)
            and (not kinds or event.kind in kinds)
            and (by is None or event.cause == f"user:{by}")
        ]
        items = fit[:limit]
        return Page(items=items, following=items[-1].event_id if len(fit) > limit else None)

    async def watch(self, after: int) -> AsyncIterator[EventView]:
        news = asyncio.Event()
        self._news.add(news)
        self.watching += 1
        try:
            while True:
                news.clear()
                some = self.log[after : after + READ_AHEAD]
                for event in some:
                    yield event
                    after = event.event_id
                if not some:
                    await news.wait()
        finally:
            self._news.remove(news)
            self.watching -= 1

    async def health(self) -> Health:
        self._may_fail()
        problems = [] if self.ready else ["the disk is full"]
        return Health(
            ready=self.ready, version="0.1.0", uptime_s=1, recovery_s=0, replayed_events=0,
            jobs_active=len(self.views), problems=problems,
        )  # fmt: skip

    def _job(self, number: int) -> JobView:
        if number not in self.views:
            raise Unknown(f"there is no job {number}")
        return self.views[number]

    def _node(self, name: str, status: str, **drain: object) -> NodeView:
        if name not in self.nodes_here:
            raise Unknown(f"there is no node {name[:40]!r}")
        self.nodes_here[name] = self.nodes_here[name].model_copy(update={"status": status, **drain})
        return self.nodes_here[name]

    def _may_fail(self) -> None:
        if self.failing is not None:
            raise self.failing


def _node(name: str) -> NodeView:
    return NodeView(
        name=name, kind="virtual", status="up", cpu=64, memory_gib=256, gpu=0, free_cpu=64, free_memory_gib=256,
        free_gpu=0,
    )  # fmt: skip


def _fits(view: JobView, which: JobFilter) -> bool:
    return (
        (which.after is None or view.job_id < which.after)
        and (not which.status or view.status in which.status)
        and (which.user is None or view.user == which.user)
        and (which.name is None or view.name == which.name)
        and (which.array_id is None or view.array_id == which.array_id)
        and all(view.labels.get(name) == value for name, value in which.label.items())
    )
