"""The event log as an observer would tell it: one line for what matters, nothing for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from betimes.cli.render.jobs import off_by
from betimes.cli.render.times import clock, now, sentence
from betimes.client import Client
from betimes.service.views.models import EventView, Submitted

_MOVED_S = 1.5  # an expected end that moves by less is not worth a line


class News:
    """Events of a service, as they happen, each with its line or none."""

    def __init__(self, service: Client, policy: str, after: int = 0) -> None:
        self.service, self.policy = service, policy
        self.events = service.events(after, follow=True)
        self.names: dict[int, str] = {}
        self.ends_at: dict[int, float] = {}  # as last told, by job
        self.told: set[int | None] = set()  # quotes

    def know(self, taken: Submitted, name: str) -> None:
        """A job whose submission and first promise need not be told."""
        self.names[taken.job_id] = name
        if taken.quote is not None:
            self.ends_at[taken.job_id] = taken.quote.finish_at or math.inf
            self.told.add(taken.quote.quote_id)

    def following(self) -> tuple[EventView, str]:
        """The next event, once there is one, and what to say of it."""
        event = next(self.events)
        tell = _TELL.get(event.kind)
        text = tell(self, event, event.data) if tell is not None else ""
        if not text:
            return event, ""
        who = f"{self.names.get(event.job_id, '')} " if event.job_id is not None else ""
        who = f"job {event.job_id}, {who}" if event.job_id is not None else ""
        return event, f"{clock(event.at, now())}  {who}{text}"

    def _submitted(self, event: EventView, data: Mapping[str, Any]) -> str:
        spec = data["spec"]
        self.names[event.job_id or 0] = spec.get("name") or spec["command"][0].rsplit("/", 1)[-1]
        return ""

    def _quoted(self, event: EventView, data: Mapping[str, Any]) -> str:
        number, end_at = event.job_id or 0, data["finish_at"]
        if event.event_id in self.told:
            return ""
        first = number not in self.ends_at
        if end_at is not None:
            self.ends_at[number] = end_at
        at = clock(end_at, now()) if end_at is not None else ""
        if first:
            why = data["quote"]["reason"]
            waits = f"; {sentence(why['text'], now())}" if why is not None else ""
            return f"is submitted{f': promised for {at}' if at else ''}{waits}"
        return f"has a new promise, for {at}" if at else ""

    def _believed(self, event: EventView, data: Mapping[str, Any]) -> str:
        if data["basis"] != "progress":
            return "outran its estimate, which is doubled from now on"
        number = event.job_id or 0
        found = self.service.job(number).job.estimate
        if found is None or found.finish_at is None:
            return ""
        if abs(found.finish_at - self.ends_at.get(number, 0.0)) < _MOVED_S:
            return ""
        self.ends_at[number] = found.finish_at
        return f"reports its progress: by that it will be done at {clock(found.finish_at, now())}"

    def _started(self, _: EventView, data: Mapping[str, Any]) -> str:
        if data["adopted"]:
            return "was found running"
        return "starts" if data["number"] == 1 else f"starts again, run {data['number']}"

    def _told(self, _: EventView, data: Mapping[str, Any]) -> str:
        return f"is asked to stop: {sentence(data['reason']['text'], now())}"

    def _ended(self, event: EventView, data: Mapping[str, Any]) -> str:
        asked = data["outcome"] in ("preempted", "resized", "node-lost", "lost")
        return f"has stopped ({data['outcome']}), and waits to go on" if asked else ""

    def _reason(self, event: EventView, data: Mapping[str, Any]) -> str:
        return (
            f"{event.kind}: {sentence(data['reason']['text'], now())}" if data.get("reason") else event.kind
        )

    def _finished(self, event: EventView, _: Mapping[str, Any]) -> str:
        job = self.service.job(event.job_id or 0).job
        if job.promised_finish_at is None:
            return "is done"
        return f"is done, {off_by(event.at - job.promised_finish_at)}"

    def _resized(self, _: EventView, data: Mapping[str, Any]) -> str:
        return f"holds {data['units']} unit{'' if data['units'] == 1 else 's'} now"

    def _policy(self, _: EventView, data: Mapping[str, Any]) -> str:
        before, self.policy = self.policy, data["policy"]
        return f"the policy is {self.policy} from now on" if self.policy != before else ""

    def _node(self, event: EventView, data: Mapping[str, Any]) -> str:
        return f"node {event.node} is {data['status']}"


_TELL: dict[str, Callable[[News, EventView, Mapping[str, Any]], str]] = {
    "submitted": News._submitted,
    "quoted": News._quoted,
    "estimate-changed": News._believed,
    "started": News._started,
    "stopping": News._told,
    "ended": News._ended,
    "failed": News._reason,
    "cancelled": News._reason,
    "retries": News._reason,
    "held": News._reason,
    "finished": News._finished,
    "resized": News._resized,
    "policy-set": News._policy,
    "node-status": News._node,
}
