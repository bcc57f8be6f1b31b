"""Jobs, runs, nodes, events, preemptions and selections of the store and the ledger as the API shows them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from betimes.cluster.resources import PER_UNIT
from betimes.service.access.auth import KeptToken
from betimes.service.executors.log_files import lost_bytes
from betimes.service.executors.supervision.files import LOG
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import KINDS
from betimes.service.scheduling.job import Preemption
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import GONE, Node
from betimes.service.scheduling.policy_record import bounded_slowdown
from betimes.service.scheduling.promises import STARTS
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.users import held_now
from betimes.service.scheduling.wait_reasons import WaitReasons
from betimes.service.spec.job_spec import hook_host
from betimes.service.spec.users import User
from betimes.service.store.batch import Row
from betimes.service.store.queries import ran_s
from betimes.service.store.store import Store
from betimes.service.views.ends import last_end
from betimes.service.views.groups import spent_views
from betimes.service.views.maintenance import maintenance_view
from betimes.service.views.models import (
    Estimate,
    EventView,
    HeldView,
    JobView,
    NodeView,
    PlaceView,
    PreemptionView,
    Quote,
    Reason,
    RunView,
    SelectionView,
    Submitted,
    TokenView,
    UserView,
)

_RUN_VIEWED = set(RunView.model_fields)
_VIEWED = set(JobView.model_fields) - {"reason", "estimate", "spec"}


def job_view(row: Mapping[str, Any], waiting: WaitReasons, now_at: float) -> JobView:
    """A job of the store as of an instant, with why it waits and when it is expected to be done."""
    live, found = waiting.live_job(row["job_id"]), waiting.forecast
    fields = {name: value for name, value in row.items() if name in _VIEWED}
    fields["cpu"] = row["spec"].get("cpu", 1.0)
    reason, estimate = row["reason"], None
    if live is not None and (live.status is Status.QUEUED or waiting.is_for_the_policy(live)):
        reason = waiting.why(live)
    elif live is not None and reason is not None and reason["code"] == "resource":
        reason = waiting.for_resource(live)
    elif live is not None and reason is None:
        reason = waiting.profiled(live)
    if live is not None and found is not None and live.account is not None and found.knows(live.job_id):
        start_at, finish_at = found.times(live.job_id)
        if live.is_suspended:
            finish_at = None  # nobody has said when it goes on
        basis = waiting.basis_of(live)
        estimate = Estimate(as_of_at=found.as_of_at, start_at=start_at, finish_at=finish_at, basis=basis)
    elif live is not None and live.quoted is not None and (live.quoted["finish_at"] or now_at) > now_at:
        promise = live.quoted  # it waits for others before the policy, and so a forecast, knows it
        estimate = Estimate(
            as_of_at=promise["made_at"],
            start_at=promise.get("start_at"),
            finish_at=promise["finish_at"],
            basis=waiting.basis_of(live),
        )
    if live is not None and live.run is not None:
        fields["ran_s"] = live.run.ran_s(now_at)  # 0 until its command has begun
    elif live is not None and live.trials is not None and live.started_at is not None:
        fields["ran_s"] = now_at - live.started_at
    return JobView(**fields, reason=Reason(**reason) if reason else None, estimate=estimate)


def user_view(user: User, scheduler: Scheduler, now_at: float, note: str | None) -> UserView:
    """A user as of an instant; note: why the user's jobs would be refused."""
    held = held_now(scheduler.ledger, user.name)._asdict()
    queued = scheduler.users.queued({user.name})
    spent = spent_views(user.name, scheduler, now_at)
    return UserView(**user.model_dump(), held=HeldView(**held, queued_jobs=queued), spent=spent, note=note)


def token_view(kept: KeptToken) -> TokenView:
    """A user's token."""
    return TokenView(**{name: getattr(kept, name) for name in TokenView.model_fields})


def run_views(
    rows: Iterable[Mapping[str, Any]], folder: Callable[[int, int], Path], present_s: float | None
) -> list[RunView]:
    """Runs of the store; `folder` returns a run's folder, which shows how much output a running one has lost.

    present_s: for how long the one that goes on has run; null: none does.
    """
    return [_run_view(row, folder(row["job_id"], row["number"]), present_s) for row in rows]


def _run_view(row: Mapping[str, Any], folder: Path, present_s: float | None) -> RunView:
    fields: dict[str, Any] = {name: value for name, value in row.items() if name in _RUN_VIEWED}
    if row["ended_at"] is not None:
        fields["ran_s"] = ran_s(row)
    else:
        fields["log_lost_bytes"], fields["ran_s"] = lost_bytes(folder / LOG), present_s or 0.0
    fields["places"] = [PlaceView(node=node, units=units) for node, units in row["places"]]
    return RunView(**fields)


def quote_view(row: Mapping[str, Any]) -> Quote:
    """A quote of the store; the job's options are there as evidence of its reason."""
    reason = Reason(**row["reason"]) if row["reason"] else None
    return Quote(**{**row, "reason": reason, "options": reason.evidence.get("options", []) if reason else []})


def submitted_view(ids: list[int], quotes: list[Quote]) -> Submitted:
    """Accepted jobs: an array is promised its first start and its last end, of the elements that may queue."""
    known = [quote for quote in quotes if quote.finish_at is not None]
    last = max(known, key=lambda quote: quote.finish_at or 0.0, default=quotes[0] if quotes else None)
    first = min(known, key=lambda quote: quote.start_at or 0.0, default=None)
    if last is not None and first is not None and (end := last_end(known)) is not None:
        of_first = {name: getattr(first, name) for name in ("start_at", *STARTS, "reason")}
        last = last.model_copy(update={**of_first, **end._asdict()})
    if last is not None and 0 < len(known) < len(ids):
        last = last.model_copy(update={"elements": len(known)})
    return Submitted(job_id=ids[0], job_ids=ids, quote=last)


def event_view(event: Event) -> EventView:
    """A line of the log."""
    return EventView(
        event_id=event.event_id,
        at=event.at_s,
        kind=event.kind,
        cause=event.cause,
        job_id=event.job,
        node=event.node,
        text=words_of(event.kind, event.data),
        data=_without_hook(event.data),
    )


def words_of(kind: str, data: Mapping[str, Any]) -> str | None:
    """The details of an event in words; null: its data say all."""
    words = KINDS[kind].words
    try:
        return None if words is None else words(data)
    except (KeyError, TypeError):  # an earlier version's event, which has other data
        return None


def _without_hook(data: dict[str, Any]) -> dict[str, Any]:
    """Without the addresses of notifications and mail, which are secrets; the job's own story has them for its user."""
    spec = data.get("spec")
    if not isinstance(spec, dict) or spec.keys().isdisjoint(("notify", "mail_user")):
        return data
    shown = {name: value for name, value in spec.items() if name != "mail_user"}
    return {**data, "spec": shown | ({"notify": hook_host(spec["notify"])} if spec.get("notify") else {})}


def node_view(name: str, node: Node, scheduler: Scheduler) -> NodeView:
    """A node with its free resources; one that was there when it was looked up, and has left since, is gone."""
    if node.is_there and name not in scheduler.ledger.nodes:
        node = replace(node, status=GONE)
    free = scheduler.occupancy.free_on(name) if node.is_there else (0, 0, 0)
    gpu, cpu, memory = (amount / per for amount, per in zip(free, PER_UNIT, strict=True))
    machine, next_one = node.machine, next(iter(scheduler.ledger.maintenance.on(node)), None)
    return NodeView(
        name=name,
        kind=machine.kind,
        status=node.status,  # pyright: ignore[reportArgumentType] (checked by the model)
        cpu=machine.cpu,
        memory_gib=machine.memory_gib,
        gpu=machine.gpu,
        free_cpu=cpu,
        free_memory_gib=memory,
        free_gpu=gpu,
        usd_per_h=machine.usd_per_h,
        last_seen_at=node.last_seen_at,
        since_at=node.since_at,
        drained_by=node.drained_by,
        drain_reason=node.drain_reason,
        jobs=sorted(run.job for run in scheduler.occupancy.runs_on(name)),
        labels=dict(node.labels),
        family=node.family,
        maintenance=None if next_one is None else maintenance_view(next_one, scheduler),
    )


TELLING = ("stopping", "ended", "launched", "work-lost")
"""The kinds of events with parts of a preemption's cost."""
EVENTS_A_JOB = 10_000  # of one that was displaced


def preemptions_of(job_id: int, events: Iterable[Event]) -> list[PreemptionView]:
    """The preemptions of a job, from some of its events; the newest event of each has the most."""
    recorded = [Preemption(**event.data["preemption"]) for event in events if "preemption" in event.data]
    return [_shown(job_id, one) for one in {one.run: one for one in recorded}.values()]


def displaced_by(events: Iterable[Event], store: Store) -> list[PreemptionView]:
    """The preemptions of other jobs for the job with these events."""
    runs = [(event.data["victim"], event.data["run"]) for event in events if event.kind == "preempts"]
    found: dict[tuple[int, int], PreemptionView] = {}
    for victim in dict.fromkeys(victim for victim, _ in runs):
        for one in preemptions_of(victim, store.events(0, EVENTS_A_JOB, victim, TELLING)):
            found[victim, one.run] = one
    return [found[run] for run in runs if run in found]  # the oldest events may have been archived


def _shown(job_id: int, one: Preemption) -> PreemptionView:
    known = (one.vacating_node_s, one.restart_node_s, one.lost_node_s)
    waited = one.left_at is not None and one.resumed_at is not None
    return PreemptionView(
        job_id=job_id,
        run=one.run,
        by=[*one.by],
        policy=one.policy,
        told_at=one.told_at,
        grace_s=one.grace_s,
        nodes=one.nodes,
        left_at=one.left_at,
        resumed_at=one.resumed_at,
        vacating_node_s=one.vacating_node_s,
        restart_node_s=one.restart_node_s,
        lost_node_s=one.lost_node_s,
        cost_node_s=sum(cost for cost in known if cost is not None),
        waiting_s=(one.resumed_at or 0.0) - (one.left_at or 0.0) if waited else None,
    )


OF_SELECTIONS = ("selected", "not-selected")
A_PAGE = 1000


def selections(store: Store, last: int) -> list[SelectionView]:
    """The newest selections, newest first, with the results of jobs that waited then."""
    newest: deque[Event] = deque(maxlen=last)
    after = store.archived_upto
    while found := store.events(after, A_PAGE, None, OF_SELECTIONS):
        newest.extend(found)
        after = found[-1].event_id
    jobs: dict[int, Row | None] = {}
    for event in newest:
        for number, _ in event.data.get("jobs", ()):
            if number not in jobs:
                jobs[number] = store.job(number)
    return [_view(event, jobs) for event in reversed(newest)]


def _view(event: Event, jobs: Mapping[int, Row | None]) -> SelectionView:
    data = event.data
    waited = [(jobs[number], since_at) for number, since_at in data.get("jobs", ())]
    slowdowns = [
        _slowdown(row, since_at)
        for row, since_at in waited
        if row is not None and row["status"] == Status.FINISHED.value
    ]
    return SelectionView(
        event_id=event.event_id,
        at=event.at_s,
        from_at=data["from_at"],
        member=data.get("member"),
        before=data.get("before"),
        in_force=event.kind == "selected" and not data["shadow"],
        problem=data.get("problem"),
        waiting=data.get("waiting", 0),
        score=data.get("score"),
        scores=data.get("scores", {}),
        smallest_wins=data.get("smallest_wins", False),
        slowdown=data.get("slowdown"),
        machine_s=data.get("machine_s"),
        took_s=data.get("took_s"),
        finished=len(slowdowns),
        slowdown_since=sum(slowdowns) / len(slowdowns) if slowdowns else None,
    )


def _slowdown(row: Row, since_at: float) -> float:
    return bounded_slowdown(row["started_at"] - since_at, row["finished_at"] - row["started_at"])
