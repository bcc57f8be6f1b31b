"""A service to answer the verbs: what it was asked, and answers made up beforehand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from betimes.errors import Conflict, Refused, Unknown
from betimes.service.api.examples import (
    ACCURACY,
    EFFICIENCY,
    FLEET,
    FLEET_PLAN,
    MAINTENANCE,
    PORTFOLIO,
    USAGE,
    WHAT_IF,
)
from betimes.service.runtime.to_views import event_view
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec, split_after
from betimes.service.spec.spec_errors import faults
from betimes.service.tuning.view import SearchView, TuningView
from betimes.service.views.models import (
    AccuracyView,
    EfficiencyView,
    EventView,
    FleetPlanView,
    FleetView,
    Health,
    HelpsView,
    JobStory,
    JobView,
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
    TuneSpec,
    Uploaded,
    UsageView,
    WhatIfView,
)
from tests.service.tuning.fronts import front

Fields = dict[str, Any]
M = TypeVar("M", bound=BaseModel)
UPLOAD = "5f" * 32
NOW = 1_800_000_000.0  # 15 January 2027, 08:00 UTC


def job(job_id: int = 41, **fields: Any) -> JobView:
    given: dict[str, Any] = {
        "name": "train",
        "user": "ada",
        "status": Status.QUEUED,
        "qos": "best-effort",
        "units": 0,
        "min_units": 1,
        "max_units": 1,
        "submitted_at": NOW - 720.0,
    }
    return JobView(job_id=job_id, **{**given, **fields})


def quote(**fields: Any) -> Quote:
    given: dict[str, Any] = {
        "made_at": NOW,
        "policy": "fifo",
        "start_at": NOW,
        "finish_at": NOW + 4500.0,
        "run_s": 4500.0,
        "basis": "estimate",
    }
    return Quote(**{**given, **fields})


def node(name: str = "here", **fields: Any) -> NodeView:
    given: dict[str, Any] = {"kind": "local", "status": "up", "cpu": 8, "memory_gib": 32, "gpu": 0}
    given |= {"free_cpu": 6, "free_memory_gib": 30.5, "free_gpu": 0, "last_seen_at": NOW - 3.0, "jobs": [41]}
    return NodeView(name=name, **{**given, **fields})


def event(event_id: int = 7, **fields: Any) -> EventView:
    given: dict[str, Any] = {"at_s": NOW - 60.0, "kind": "started", "cause": "policy", "job": 41}
    given |= {"node": "here", "data": {"units": 4}}
    given |= {{"at": "at_s", "job_id": "job"}.get(name, name): value for name, value in fields.items()}
    return event_view(Event(event_id, **given))


def searching(**fields: Any) -> TuningView:
    asked = Reason(code="asked", text="asked for by ada")
    given: dict[str, Any] = {"spec": TuneSpec(), "reason": asked, "begun_at": NOW - 5.0, "of": 1000}
    return TuningView(search=SearchView(**{**given, **fields}))


def tuned(**fields: Any) -> TuningView:
    found = front()
    given: dict[str, Any] = {"at": NOW - 60.0, "front": found, "in_force": found.baselines[0]}
    return TuningView(**{**given, **fields})


def ran(*runs: RunView, job_id: int = 41) -> JobStory:
    """The story of a job with these runs."""
    return JobStory(job=job(job_id), spec=JobSpec(command=["x"]), runs=list(runs), quotes=[], events=[])


def checked(fields: Fields) -> JobSpec:
    """A job as the service takes it. Raises Refused as it does."""
    return _checked(JobSpec, fields)


def _checked(kind: type[M], fields: Fields) -> M:
    try:
        return kind.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError as error:
        first = faults(error)[0]
        raise Refused(first.text, first.field or None) from None


class Service:
    """The methods of the client that verbs call; what they were given is kept in `asked`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.known = [job()]
        self.ahead_s = 0.0  # its clock, of the machine's
        self.notes: list[str] = []  # of its health
        self.stories: dict[int, JobStory] = {41: ran()}
        self.promise: Quote | None = quote()
        self.submitted_reason: Reason | None = None
        self.machines = [node()]
        self.windows: list[MaintenanceView] = []
        self.log = [event()]
        self.selections = PORTFOLIO.selections
        self.account = ACCURACY
        self.answer = WHAT_IF
        self.helped = HelpsView(made_at=NOW)
        self.in_force = PolicyView(policy="fifo", engine="pool", since_at=NOW - 3600.0)
        self.looks: list[TuningView | BaseException] = []  # what `tuning` finds, in turn; at last the front
        self.printed: list[bytes | str | BaseException] = [b"one\n", b"two\n"]
        self.fails: list[BaseException | None] = []  # the next calls', in turn
        self.over: set[int] = set()  # jobs to which nothing can be done any more
        self.is_open = False

    def __enter__(self) -> Self:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def submit(
        self, spec: Fields | Sequence[Fields], /, *, key: str | None = None
    ) -> Submitted | list[Submitted]:
        specs = [checked(each) for each in ([spec] if isinstance(spec, dict) else spec)]
        self._ask("submit", (specs, key))
        for one in specs:
            for after in one.after:
                if isinstance(number := split_after(after)[0], int) and number > 41:
                    raise Unknown(f"after: there is no job {number}; the newest is 41")
        numbers = range(42, 42 + len(specs))
        told = {"quote": self.promise, "reason": self.submitted_reason}
        made = [Submitted(job_id=number, job_ids=[number], **told) for number in numbers]
        return made[0] if isinstance(spec, dict) else made

    def upload(self, folder: Path) -> Uploaded:
        self._ask("upload", folder)
        times = sum(asked == ("upload", folder) for asked in self.asked)
        return Uploaded(
            folder=str(folder),
            sha256=UPLOAD,
            files=12,
            bytes=3_500_000,
            archive_bytes=900_000,
            sent=times == 1,
        )

    def quote(self, spec: Fields) -> Quote | None:
        self._ask("quote", checked({name: value for name, value in spec.items() if value is not None}))
        return self.promise

    def jobs(self, **conditions: Any) -> Page[JobView]:
        self._ask("jobs", conditions)
        after, limit = conditions.get("after"), conditions.get("limit", 100)
        status = conditions.get("status") or list(Status)
        found = [
            each
            for each in self.known
            if (after is None or each.job_id < after)
            and each.status in status
            and conditions.get("name", each.name) == each.name
        ]
        more = found[limit - 1].job_id if len(found) > limit else None
        return Page(items=found[:limit], following=more)

    def job(self, job_id: int) -> JobStory:
        self._ask("job", job_id)
        if job_id not in self.stories:
            raise Unknown(f"there is no job {job_id}; `betimes jobs --all` lists them")
        return self.stories[job_id]

    def cancel(self, ids: Sequence[int], *, where_possible: bool = False) -> list[JobView]:
        return self._changed("cancel", ids, Status.CANCELLED, where_possible)

    def hold(self, ids: Sequence[int], *, where_possible: bool = False) -> list[JobView]:
        return self._changed("hold", ids, Status.HELD, where_possible)

    def release(self, ids: Sequence[int], *, where_possible: bool = False) -> list[JobView]:
        return self._changed("release", ids, Status.QUEUED, where_possible)

    def requeue(self, ids: Sequence[int], *, where_possible: bool = False) -> list[JobView]:
        return self._changed("requeue", ids, Status.STOPPING, where_possible)

    def suspend(self, ids: Sequence[int], *, where_possible: bool = False) -> list[JobView]:
        return self._changed("suspend", ids, Status.RUNNING, where_possible)

    def resume(self, ids: Sequence[int], *, where_possible: bool = False) -> list[JobView]:
        return self._changed("resume", ids, Status.RUNNING, where_possible)

    def signal(
        self, ids: Sequence[int], signal: str, *, to: str, where_possible: bool = False
    ) -> list[JobView]:
        self._ask("signal", (list(ids), signal, to))
        return [job(number, status=Status.RUNNING) for number in ids if number not in self.over]

    def edit(self, ids: Sequence[int], *, where_possible: bool = False, **changes: Any) -> list[JobView]:
        self._ask("changes", JobChanges(**changes))
        return self._changed("edit", ids, Status.QUEUED, where_possible)

    def wait(self, job_id: int, timeout: float | None = None) -> JobView:
        self._ask("wait", (job_id, timeout))
        return next(j for j in self.known if j.job_id == job_id)

    def logs(
        self,
        job_id: int,
        *,
        attempt: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        rank: int | None = None,
    ) -> Iterator[bytes | str]:
        self._ask("logs", (job_id, attempt, follow, tail, rank))
        for piece in self.printed:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def nodes(self) -> list[NodeView]:
        self._ask("nodes", None)
        return self.machines

    def add_nodes(self, given: Fields) -> list[NodeView]:
        spec = _checked(NodeSpec, given)
        self._ask("add_nodes", spec)
        return [
            node(f"{spec.type}-{n}", kind=spec.kind or "virtual", jobs=[]) for n in range(1, spec.count + 1)
        ]

    def drain(self, name: str, reason: str = "") -> NodeView:
        self._ask("drain", (name, reason) if reason else name)
        return node(name, status="draining", drained_by="ada", drain_reason=reason)

    def undrain(self, name: str) -> NodeView:
        self._ask("undrain", name)
        return node(name)

    def maintenance(self) -> list[MaintenanceView]:
        self._ask("maintenance", None)
        return self.windows

    def add_maintenance(
        self, from_at: float, to_at: float, *, nodes: Sequence[str], reason: str, stop: bool
    ) -> MaintenanceView:
        self._ask("add_maintenance", (from_at, to_at, nodes, reason, stop))
        return MaintenanceView(
            number=1,
            from_at=from_at,
            to_at=to_at,
            nodes=[*nodes],
            reason=reason,
            user="ada",
            running=[12, 13],
        )

    def remove_maintenance(self, number: int) -> MaintenanceView:
        self._ask("remove_maintenance", number)
        return MAINTENANCE.model_copy(update={"number": number})

    def policy(self) -> PolicyView:
        self._ask("policy", None)
        return self.in_force

    def fleet(self) -> FleetView:
        self._ask("fleet", None)
        return FLEET

    def give_back(self, machine: str | None = None, *, now: bool = False) -> FleetView:
        self._ask("give_back", (machine, now))
        return FLEET.model_copy(update={"machines": []}) if now else FLEET

    def fleet_plan(self) -> FleetPlanView:
        self._ask("fleet_plan", None)
        return FLEET_PLAN

    def portfolio(self, last: int) -> PortfolioView:
        self.asked.append(("portfolio", last))
        policy = PORTFOLIO.policy if self.selections else self.in_force.policy
        return PORTFOLIO.model_copy(update={"policy": policy, "selections": self.selections[:last]})

    def helps(self, job_id: int, within_s: float) -> HelpsView:
        self._ask("helps", (job_id, within_s))
        return self.helped

    def what_if(self, asked: Fields) -> WhatIfView:
        self._ask("what_if", asked)
        return self.answer

    def usage(self, since_s: float | None, until_s: float, *, by: str | None = None) -> UsageView:
        self._ask("usage", (since_s, until_s, by))
        return USAGE.model_copy(update={} if by else {"groups": []})

    def efficiency(self, job_id: int) -> EfficiencyView:
        self._ask("efficiency", job_id)
        return EFFICIENCY

    def accuracy(self, since_s: float | None, until_s: float, **which: Any) -> AccuracyView:
        self._ask("accuracy", (since_s, until_s, which))
        return self.account

    def set_policy(self, text: str) -> PolicyView:
        self._ask("set_policy", text)
        return PolicyView(policy=text, engine="pool", since_at=NOW)

    def tune(self, **asked: Any) -> TuningView:
        self._ask("tune", asked)
        return searching(spec=TuneSpec(**asked))

    def tuning(self) -> TuningView:
        self._ask("tuning", None)
        look = self.looks.pop(0) if self.looks else tuned()
        if isinstance(look, BaseException):
            raise look
        return look

    def stop_tuning(self) -> TuningView:
        self._ask("stop_tuning", None)
        return searching(stopping=True)

    def events(
        self,
        after: int = 0,
        *,
        follow: bool = False,
        job: int | None = None,
        kinds: Sequence[str] = (),
        by: str | None = None,
    ) -> Iterator[EventView]:
        self._ask("events", (after, follow, job, tuple(kinds)))
        causes = None if by is None else f"user:{by}"
        yield from (event for event in self.log if event.event_id > after and causes in (None, event.cause))
        if follow:
            raise KeyboardInterrupt

    def health(self) -> Health:
        newest = max((event.event_id for event in self.log), default=0)
        given = {"ready": True, "version": "1", "uptime_s": 9.0, "recovery_s": 0.1, "replayed_events": 0}
        notes = [*self.notes, *([f"The system clock went back {self.ahead_s:g} s."] if self.ahead_s else [])]
        return Health(**given, jobs_active=1, last_event_id=newest, notes=notes, clock_ahead_s=self.ahead_s)

    def _changed(self, verb: str, ids: Sequence[int], status: Status, where_possible: bool) -> list[JobView]:
        self._ask(verb, list(ids))
        for number in ids:
            if number in self.over and not where_possible:
                raise Conflict(f"job {number} is finished and cannot be cancelled any more")
        return [job(number, status=status) for number in ids if number not in self.over]

    def _ask(self, method: str, what: Any) -> None:
        assert self.is_open, "a client is used in a `with`, or its connections stay open"
        self.asked.append((method, what))
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error
