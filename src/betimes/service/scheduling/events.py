"""The event log's lines, every input and every decision with an id, a time and a cause; and executors' reports of runs.

It imports nothing of Betimes: agents on other machines begin with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Signalled = Literal["steps", "command", "all"]
"""The processes of a run that get a signal: the tasks of its steps, its first process alone, or all."""


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


class RunId(NamedTuple):
    """One start of a job's command: the job, and 1, 2, ..."""

    job: int
    number: int


@dataclass(frozen=True)
class Started:
    """The command runs."""

    run: RunId
    at_s: float  # seconds since 1970, by the executor's clock
    adopted: bool = False  # it was running when the service came back
    ago_s: float = field(default=0.0, compare=False)  # run time when this is reported
    memory_limited_by: str | None = None  # null: it has no limit


class NodeFault(NamedTuple):
    """A node is not fit for runs, and is drained: by whom, and why in the words of a user."""

    node: str
    by: str
    why: str


@dataclass(frozen=True)
class Ended:
    """The command has ended, and no process of it is left."""

    run: RunId
    at_s: float
    exit_code: int | None  # null: ended by a signal, or never started
    signal: int | None = None
    why: str = "exited"  # one of ENDS
    message: str | None = None  # what a user can do about it
    max_rss_gib: float | None = None
    cpu_s: float | None = None
    log_lost_bytes: int | None = None  # of its output that is not kept
    ago_s: float = field(default=0.0, compare=False)  # time since its end when this is reported
    run_s: float | None = None  # run time, by a clock that stands still while its machine sleeps
    faults: tuple[NodeFault, ...] = ()  # of its nodes


ENDS = {
    "exited": "its command has ended, by itself or by a signal",
    "stopped": "it was asked to stop",
    "time-limit": "it reached its time limit",
    "out-of-memory": "it was killed for using more memory than its limit",
    "start-failed": "its command could not be started",
    "prolog-failed": "the prolog of its node failed, so that its command was not started",
    "node-lost": "its node, or the machine itself, stopped while it ran",
    "lost": "its exit is unknown: its work may be done",
}
"""Why a run has ended."""
VANISHED = ("node-lost", "lost")
"""Of these, those of runs that nobody asked to stop or to save anything: their work is lost."""


@dataclass(frozen=True)
class Trouble:
    """A problem of a run that neither starts nor ends it, for its job's story."""

    run: RunId
    at_s: float
    message: str


Report = Started | Ended | Trouble
