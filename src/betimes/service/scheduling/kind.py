"""A kind of event: its meaning, its fields, the change that it makes, and its details in words, declared in one place.

Each capability declares its kinds beside its records; `fold.KINDS` has all of them. Events hold the policy's decisions,
so that recovering never asks it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job

Data = Mapping[str, Any]
"""The data of an event besides its kind, instant, cause, job and node."""
Slice_contra = TypeVar("Slice_contra", contravariant=True)
"""The part of the ledger that the kind changes."""


PLACES = Annotated[list[tuple[str, int]], "nodes, and units on each"]
SPEC = Annotated[dict[str, Any], "the job file"]
REASON = Annotated[dict[str, Any], "`code`, `text`, `evidence`"]
REASON_OR_NONE = Annotated[dict[str, Any] | None, "`code`, `text`, `evidence`"]
ACCOUNT = Annotated[dict[str, Any], "of the job's work, as the policy believes it"]
ACCOUNTS = Annotated[dict[str, dict[str, Any]], "of work, by job"]
PREEMPTION = Annotated[dict[str, Any], "what is known so far of the cost of the job's last one"]
MOVE = Annotated[dict[str, Any], "what the move is expected to cost and save, and did"]
"""Types of fields, and what these hold."""


@dataclass(frozen=True)
class Kind(Generic[Slice_contra]):
    """A kind of event.

    data: the fields of every such event, with their types; more: those that only some have. change: of the ledger, by
    the event and its job (None: it is of none); returns the job that the event has made. Without one the event changes
    nothing by itself. words: an event's details in a few words, from its data; instants in them are in UTC
    (`units.instant`). Without them it has none, or its data are shown as they are.
    """

    meaning: str
    change: Callable[[Slice_contra, Event, Any], Job | None] | None = None
    words: Callable[[Data], str] | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


def reason_text(data: Data) -> str:
    """The sentence of an event's reason, where it has one."""
    return data["reason"]["text"] if data["reason"] else ""


def units_text(units: float) -> str:
    """`1 unit`, `3 units`."""
    return f"{units:g} unit{'' if units == 1 else 's'}"


def places_text(places: list[list[Any]]) -> str:
    """` on here`, ` on a (3), b (1)`; empty if the policy leaves the nodes open."""
    if len(places) <= 1:
        return f" on {places[0][0]}" if places else ""
    return " on " + ", ".join(f"{node} ({units})" for node, units in places)
