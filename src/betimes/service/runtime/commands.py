"""What the controller can be asked to do with the state in a turn: one record a request, that says what and not how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from betimes.cluster.cluster import NodeGroup
from betimes.service.engines.plans import Plan
from betimes.service.machines.machine import Kind, Machine
from betimes.service.scheduling.decisions import Selection
from betimes.service.scheduling.forecasts import Forecast
from betimes.service.scheduling.job import Places
from betimes.service.scheduling.node import Node
from betimes.service.scheduling.run_reports import Report, RunId
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import Quote, QuoteOption

T = TypeVar("T")


class Command(Generic[T]):
    """A request to the controller; T: what comes of it. `dispatch` says how each is carried out."""


# --- users ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubmitJobs(Command[list[list[int]]]):
    """Take all of these jobs, or none; the numbers of each. They may name each other in `after`."""

    specs: tuple[JobSpec, ...]
    user: str


@dataclass(frozen=True)
class SubmitJob(Command[list[int]]):
    """Take one job, or the jobs of an array; their numbers."""

    spec: JobSpec
    user: str


@dataclass(frozen=True)
class CancelJobs(Command[list[int]]):
    """End all of these jobs, or none; where_possible: those that can be. The numbers of those that are."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False


@dataclass(frozen=True)
class HoldJobs(Command[list[int]]):
    """Keep all of these jobs from starting, or none; where_possible: those that can be. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False


@dataclass(frozen=True)
class ReleaseJobs(Command[list[int]]):
    """Let all of these held jobs start, or none; where_possible: those that are held. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False


@dataclass(frozen=True)
class SetPolicy(Command[None]):
    """Decide by another policy from now on; front: the point of a front that it is; cause: if it is not the user."""

    policy: str
    user: str
    front: Mapping[str, Any] | None = None
    cause: str | None = None


# --- nodes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddNodes(Command[list[str]]):
    """Add the operator's own nodes; their names. kind: null where none was named."""

    group: NodeGroup
    kind: Kind | None
    cause: str


@dataclass(frozen=True)
class ChangeMembers(Command[None]):
    """Machines have joined the cluster whose nodes the service uses, and others have left it."""

    joined: tuple[Machine, ...]
    left: tuple[str, ...]


@dataclass(frozen=True)
class RentNodes(Command[list[str]]):
    """Rent machines, all or none; the names of those that boot now."""

    type: str
    count: int
    cause: str


@dataclass(frozen=True)
class SetNodeStatus(Command[Node]):
    """A node is up, drains, or is lost."""

    name: str
    status: str
    cause: str


@dataclass(frozen=True)
class NoteHeartbeat(Command[None]):
    """A node has sent a sign of life that matters: its first one, or one after it was lost."""

    name: str


@dataclass(frozen=True)
class ExpireLease(Command[None]):
    """A node has not been heard of for as long as its lease."""

    name: str


@dataclass(frozen=True)
class GiveBackNode(Command[None]):
    """Give a rented node back, after the cloud did not answer."""

    name: str


@dataclass(frozen=True)
class AdvanceCloud(Command[None]):
    """Tell the scheduler what has happened at the cloud by now."""


# --- runs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakeReport(Command[None]):
    """An executor has reported something of a run."""

    report: Report


@dataclass(frozen=True)
class ReportProgress(Command[None]):
    """A run has come so far."""

    job: int
    attempt: int
    done: float
    total: float


@dataclass(frozen=True)
class ReportResize(Command[None]):
    """A run has been told its new width; not done: it has to be restarted for it."""

    run: RunId
    units: int
    places: Places
    done: bool


# --- the service itself ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakeOver(Command[None]):
    """The policy in force is compiled, and decides from now on."""


@dataclass(frozen=True)
class TakeSelection(Command[None]):
    """A selection of a portfolio has ended."""

    selection: Selection


@dataclass(frozen=True)
class TakePlan(Command[None]):
    """A planner has answered."""

    plan: Plan


@dataclass(frozen=True)
class PromiseJobs(Command[list[Quote]]):
    """Log what these jobs are promised according to a forecast."""

    numbers: tuple[int, ...]
    forecast: Forecast
    options: tuple[QuoteOption, ...] = ()  # what they could do when they were submitted


@dataclass(frozen=True)
class NoteTuning(Command[int]):
    """Log that a search has begun or ended (`tuning`, `tuned`, `not-tuned`); the event's number."""

    kind: str
    cause: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
