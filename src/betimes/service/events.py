"""The event log's lines: every input and every decision, with an id, a time and a cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, or was decided. The log is append-only and the source of truth."""

    event_id: int  # 1, 2, 3, ... without gaps
    at_s: float  # seconds since 1970, by the service's clock, which never goes back
    kind: str
    cause: str  # user:NAME, executor, timer, policy, operator, recovery, or event:ID
    job: int | None = None
    node: str | None = None
    data: dict[str, Any] = field(default_factory=dict[str, Any])  # what JSON can hold
