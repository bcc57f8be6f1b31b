"""Effects: actions outside the service, once the decision is stored."""

from __future__ import annotations

from dataclasses import dataclass

from betimes.core.planning import Planner
from betimes.service.engines.messages import RentMachine
from betimes.service.engines.selection import SelectionSnapshot
from betimes.service.scheduling.events import RunId, Signalled
from betimes.service.scheduling.job import Places
from betimes.service.scheduling.policy_record import PolicyRecord
from betimes.twin.nodes.planner_rounds import Question


@dataclass(frozen=True, slots=True)
class StartRun:
    """Start a job's command."""

    run: RunId


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop a run; `why`: preempted, resized, cancelled."""

    run: RunId
    grace_s: float
    why: str


@dataclass(frozen=True, slots=True)
class ResizeRun:
    """Let a run work on so many units from now on."""

    run: RunId
    units: int
    places: Places


@dataclass(frozen=True, slots=True)
class LimitRun:
    """Give a run another time limit."""

    run: RunId
    time_limit_s: float


@dataclass(frozen=True, slots=True)
class SuspendRun:
    """Suspend a run, or let it go on, as its job says when the executor is asked."""

    run: RunId


@dataclass(frozen=True, slots=True)
class SignalRun:
    """Send a signal to processes of a run."""

    run: RunId
    number: int
    to: Signalled


@dataclass(frozen=True, slots=True)
class DropRun:
    """Forget a run that has vanished with its node; discards: its work is lost."""

    run: RunId
    discards: bool = False


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give a rented node back to the cloud."""

    node: str


@dataclass(frozen=True, slots=True)
class RentMachines:
    """Ask the cloud for machines for one job alone."""

    job: int
    type: str
    count: int


@dataclass(frozen=True, slots=True)
class OrderMachine:
    """Ask the cloud for a machine that several jobs may share."""

    type: str
    move: RentMachine


@dataclass(frozen=True, slots=True)
class SelectMember:
    """Let the portfolio in force select among its members; record: its results so far.

    epoch_at: the instant of 0 s.
    """

    policy: str
    snapshot: SelectionSnapshot
    record: PolicyRecord
    epoch_at: float


@dataclass(frozen=True, slots=True)
class AskPlanner:
    """Let the planner of the policy in force answer; nothing else uses it until then."""

    policy: str
    planner: Planner
    question: Question


Effect = (
    RentMachines
    | OrderMachine
    | SelectMember
    | AskPlanner
    | StartRun
    | StopRun
    | ResizeRun
    | LimitRun
    | SuspendRun
    | SignalRun
    | DropRun
    | GiveBack
)
