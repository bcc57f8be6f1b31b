"""The events of a job as sentences of its story; instants in them are in UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from betimes.service.scheduling.events import KINDS
from betimes.service.views.models import EventView
from betimes.units import instant, length

Data = Mapping[str, Any]
_SILENT = ("granted", "learnt", "queued", "preempts", "released", "launched", "parallelism-changed")


def sentence_of(event: EventView) -> str:
    """A sentence; empty for what the story leaves out. Of an unknown form: the meaning of the kind."""
    if event.kind in _SILENT:
        return ""
    phrase = _PHRASES.get(event.kind)
    try:
        text = phrase(event.data) if phrase is not None else KINDS.get(event.kind, event.kind)
    except (KeyError, TypeError, ValueError):  # a later version of the service has other fields
        text = KINDS.get(event.kind, event.kind)
    who = event.cause.removeprefix("user:")
    by = f" by {who}" if who != event.cause else ""
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + (f"{by}." if event.kind in _BY else ".")


_BY = ("submitted", "held", "edited", "cancel-requested")


def _quoted(data: Data) -> str:
    finish_at = data["finish_at"]
    return (
        "no end can be promised as things stand"
        if finish_at is None
        else f"promised to end at {instant(finish_at)}"
    )


def _broken(data: Data) -> str:
    promise, finish_at = data["promise"], data["finish_at"]
    by_at = promise["finish_at"] if promise["finish_high_at"] is None else promise["finish_high_at"]
    text = f"the promise to end by {instant(by_at)} is broken"
    why = f"; {data['because']}" if "because" in data else ""
    if finish_at is None:
        return (
            f"{text}: {'it never ends as things stand' if data['why'] == 'never' else 'the job goes on'}{why}"
        )
    return (
        f"{text}: it {'ended' if data['why'] == 'ended' else 'is expected to end'} {instant(finish_at)}{why}"
    )


def _started(data: Data) -> str:
    return (
        f"run {data['number']} started" if not data["adopted"] else f"run {data['number']} was found running"
    )


def _ended(data: Data) -> str:
    code = f", exit code {data['exit_code']}" if data.get("exit_code") is not None else ""
    message = f": {data['message']}" if data.get("message") else ""
    return f"run {data['number']} ended ({data['outcome']}{code}){message}"


def _because(what: str) -> Callable[[Data], str]:
    return lambda data: f"{what}: {data['reason']['text']}" if data.get("reason") else what


def _estimated(data: Data) -> str:
    left = f"{length(data['account']['left_s'])} of work left"
    return f"{left}, by its progress" if data["basis"] == "progress" else f"the estimate changed: {left}"


_PHRASES: dict[str, Callable[[Data], str]] = {
    "submitted": lambda data: f"submitted, estimated at {length(data['believed_s'])},",
    "quoted": _quoted,
    "promise-broken": _broken,
    "started": _started,
    "ended": _ended,
    "resized": lambda data: f"run {data['number']} has {data['units']:g} units now",
    "finished": lambda data: f"finished after {length(data['run_s'])} of work",
    "estimate-changed": _estimated,
    "trouble": lambda data: f"run {data['number']}: {data['message']}",
    "cancel-requested": lambda _: "cancelled",
    "suspended": lambda _: "suspended, with its units",
    "resumed": lambda _: "goes on",
    "signalled": lambda data: f"is sent {data['signal']}",
    "held": lambda _: "held",
    "edited": lambda data: f"{', '.join(data['changes'])} changed",
    "blocked": _because("waits"),
    "requeued": _because("goes back to the queue"),
    "retries": _because("failed and will be retried"),
    "failed": _because("failed"),
    "cancelled": _because("cancelled"),
    "stopping": _because("asked to stop"),
}
