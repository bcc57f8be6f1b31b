"""Requests to the controller for work on the state in a turn: one class each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from betimes.cluster.cluster import NodeGroup
from betimes.errors import Conflict, Unknown
from betimes.service.machines.machine import Kind, Machine, machines_of
from betimes.service.runtime.admission import kind_to_add
from betimes.service.runtime.faults import Fault
from betimes.service.runtime.quotes import promise
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.decisions import Selection
from betimes.service.scheduling.effects import Signalled
from betimes.service.scheduling.events import Report, RunId
from betimes.service.scheduling.job import Places
from betimes.service.scheduling.jobs import Action
from betimes.service.scheduling.node import DRAINING, LOST, Node
from betimes.service.scheduling.promises import Forecast
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.scheduling.windows import Maintenance
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec, split_after
from betimes.service.spec.pipelines import by_number, check_names, resolved
from betimes.service.spec.users import TokenSpec, User, UserChanges
from betimes.service.views.models import Quote, QuoteOption
from betimes.twin.nodes.planner_rounds import Plan

T = TypeVar("T")


class Command(ABC, Generic[T]):
    """A request to the controller; T: its result."""

    @abstractmethod
    def carry_out(self, scheduler: Scheduler, rentals: Rentals | None, /) -> T:
        """Do it in the present turn. Raises the error of a refusal."""


# --- users ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubmitJobs(Command[list[list[int]]]):
    """Accept these jobs, all or none; the numbers of each. They may name each other in `after`."""

    specs: tuple[JobSpec, ...]
    user: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[list[int]]:
        check_names(self.specs)
        scheduler.admission.check_queue(self.specs, self.user)
        for spec in self.specs:
            scheduler.admission.check(by_number(spec), self.user)
        scheduler.admission.check_labels(self.specs)
        taken: list[list[int]] = []
        named: dict[str, list[int]] = {}
        for spec in self.specs:
            taken.append(scheduler.admission.accept(resolved(spec, named), self.user))
            named.setdefault(spec.title, []).extend(taken[-1])
        return taken


@dataclass(frozen=True)
class SubmitJob(Command[list[int]]):
    """Take one job, or the jobs of an array; their numbers."""

    spec: JobSpec
    user: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return scheduler.admission.submit(self.spec, self.user)


@dataclass(frozen=True)
class CancelJobs(Command[list[int]]):
    """End all of these jobs, or none; where_possible: those that can be. The numbers of those that are."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return _control(self, "cancel", scheduler, scheduler.jobs.cancel)


@dataclass(frozen=True)
class HoldJobs(Command[list[int]]):
    """Keep all of these jobs from starting, or none; where_possible: those that can be. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return _control(self, "hold", scheduler, scheduler.jobs.hold)


@dataclass(frozen=True)
class ReleaseJobs(Command[list[int]]):
    """Let all of these held jobs start, or none; where_possible: those that are held. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return _control(self, "release", scheduler, scheduler.jobs.release)


@dataclass(frozen=True)
class RequeueJobs(Command[list[int]]):
    """Stop the runs of all of these jobs, which start again, or of none; where_possible: of those that run."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return _control(self, "requeue", scheduler, scheduler.jobs.requeue_run)


@dataclass(frozen=True)
class SuspendJobs(Command[list[int]]):
    """Suspend the runs of all of these jobs, or of none; where_possible: of those that can be. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return _control(self, "suspend", scheduler, scheduler.jobs.suspend)


@dataclass(frozen=True)
class ResumeJobs(Command[list[int]]):
    """Let all of these suspended jobs go on, or none; where_possible: those that are suspended. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        return _control(self, "resume", scheduler, scheduler.jobs.resume)


@dataclass(frozen=True)
class SignalJobs(Command[list[int]]):
    """Send a signal to the runs of all of these jobs, or of none; where_possible: of those that run. Their numbers."""

    numbers: tuple[int, ...]
    user: str
    signal: str
    to: Signalled
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        def send(number: int, user: str) -> None:
            scheduler.jobs.signal(number, user, self.signal, self.to)

        return _control(self, "signal", scheduler, send)


@dataclass(frozen=True)
class EditJobs(Command[list[int]]):
    """Change all of these jobs, or none; where_possible: those that can be. The numbers of those that are."""

    numbers: tuple[int, ...]
    changes: JobChanges
    user: str
    where_possible: bool = False

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[int]:
        def check(number: int) -> object:
            return scheduler.edits.check(number, self.changes)

        able = _able(scheduler, self.numbers, self.where_possible, check)
        scheduler.edits.edit(able, self.changes, self.user)
        return able


Control = CancelJobs | HoldJobs | ReleaseJobs | RequeueJobs | SuspendJobs | ResumeJobs | SignalJobs


@dataclass(frozen=True)
class SetPolicy(Command[None]):
    """Decide by another policy from now on; front: its point of a front; cause: if it is not the user."""

    policy: str
    user: str
    front: Mapping[str, Any] | None = None
    cause: str | None = None

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        front = dict(self.front) if self.front is not None else None
        scheduler.policy.set_policy(self.policy, self.user, front, self.cause)


@dataclass(frozen=True)
class AddUser(Command[User]):
    """Add a user of the service."""

    user: User
    cause: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> User:
        return scheduler.users.add(self.user, self.cause)


@dataclass(frozen=True)
class ChangeUser(Command[User]):
    """Change a user of the service."""

    name: str
    changes: UserChanges
    cause: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> User:
        return scheduler.users.change(self.name, self.changes, self.cause)


@dataclass(frozen=True)
class NoteToken(Command[None]):
    """Log that a token of a user is made or revoked; the store has the token."""

    what: str
    spec: TokenSpec
    cause: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.users.note_token(self.what, self.spec, self.cause)


# --- nodes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddNodes(Command[list[str]]):
    """Add the operator's own nodes; their names. kind: null where none was named."""

    group: NodeGroup
    kind: Kind | None
    cause: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[str]:
        nodes = scheduler.ledger.nodes
        machines = machines_of(self.group, kind_to_add(self.kind, nodes.values()), nodes)
        for machine in machines:
            scheduler.nodes.add(machine, self.cause)
        return [machine.name for machine in machines]


@dataclass(frozen=True)
class ChangeMembers(Command[None]):
    """Machines have joined the cluster whose nodes the service uses, and others have left it."""

    joined: tuple[Machine, ...]
    left: tuple[str, ...]

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        # Repeated, as after a turn that was not stored, it changes nothing.
        for machine in self.joined:
            if machine.name not in scheduler.ledger.nodes:
                scheduler.nodes.add(machine, "cluster")
        for name in self.left:
            if name in scheduler.ledger.nodes:
                scheduler.nodes.left(name)


@dataclass(frozen=True)
class RentNodes(Command[list[str]]):
    """Rent machines, all or none; the names of those that boot now."""

    type: str
    count: int
    cause: str

    def carry_out(self, scheduler: Scheduler, rentals: Rentals | None, /) -> list[str]:
        return _of_a_cloud(rentals).rent(scheduler, self.type, self.count, self.cause)


@dataclass(frozen=True)
class SetNodeStatus(Command[Node]):
    """A node is up, drains, or is lost."""

    name: str
    status: str
    cause: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> Node:
        return scheduler.nodes.set_status(self.name, self.status, self.cause)


@dataclass(frozen=True)
class AddMaintenance(Command[Maintenance]):
    """Announce maintenance; nodes: by name, none: all owned ones."""

    from_at: float
    to_at: float
    nodes: tuple[str, ...]
    reason: str
    user: str
    stop: bool = False  # runs that are there then

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> Maintenance:
        return scheduler.maintenance.add(
            self.from_at, self.to_at, self.nodes, self.reason, self.user, self.stop
        )


@dataclass(frozen=True)
class RemoveMaintenance(Command[Maintenance]):
    """Call a maintenance off, or end it early."""

    number: int
    user: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> Maintenance:
        return scheduler.maintenance.remove(self.number, self.user)


@dataclass(frozen=True)
class NoteHeartbeat(Command[None]):
    """A node has sent its first heartbeat, or the first after it was lost."""

    name: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.nodes.heard(self.name)


@dataclass(frozen=True)
class ExpireLease(Command[None]):
    """A node's lease has ended without a heartbeat."""

    name: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        if scheduler.ledger.nodes[self.name].is_there:
            scheduler.nodes.set_status(self.name, LOST, "timer")


@dataclass(frozen=True)
class GiveBackMachines(Command[None]):
    """Give back a rented machine, or all (null), after which nothing more is rented.

    now: with what runs there; else once nothing does.
    """

    name: str | None
    now: bool
    user: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        if self.name is not None and scheduler.nodes.node(self.name).rented_at is None:
            raise Conflict(f"node {self.name} is not rented; `betimes fleet` lists what is")
        rented = [name for name, node in scheduler.ledger.nodes.items() if node.rented_at is not None]
        if self.name is None:
            scheduler.settings.fleet = replace(scheduler.settings.fleet, most_machines=0)
        for name in rented if self.name is None else [self.name]:
            if self.now:
                scheduler.leases.end(name, f"user:{self.user}", f"{self.user} has asked for that")
            else:
                scheduler.nodes.set_status(name, DRAINING, f"user:{self.user}")


@dataclass(frozen=True)
class GiveBackNode(Command[None]):
    """Give a rented node back, after the cloud did not answer."""

    name: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.nodes.give_back(self.name)


@dataclass(frozen=True)
class AdvanceCloud(Command[None]):
    """Report the cloud's events until now to the scheduler."""

    def carry_out(self, scheduler: Scheduler, rentals: Rentals | None, /) -> None:
        _of_a_cloud(rentals).advance(scheduler)


# --- runs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakeReport(Command[None]):
    """An executor's report of a run."""

    report: Report

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.reports.take(self.report)


@dataclass(frozen=True)
class ReportProgress(Command[None]):
    """A run has come so far."""

    job: int
    attempt: int
    done: float
    total: float

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.reports.progressed(self.job, self.attempt, self.done, self.total)


@dataclass(frozen=True)
class ReportResize(Command[None]):
    """A run has received its new width; not done: it has to be restarted for it."""

    run: RunId
    units: int
    places: Places
    done: bool

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.reports.resized(self.run, self.units, self.places, self.done)


# --- the service itself ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoteFault(Command[None]):
    """An effect could not be carried out."""

    fault: Fault

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        self.fault.note(scheduler)


@dataclass(frozen=True)
class GiveUpRun(Command[None]):
    """The report of a run's end is set aside: its nodes are free all the same. error: that of the report."""

    run: RunId
    error: str

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.reports.give_up(self.run, self.error)


@dataclass(frozen=True)
class TakeOver(Command[None]):
    """The policy in force is compiled, and decides from now on."""

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.policy.take_over()


@dataclass(frozen=True)
class TakeSelection(Command[None]):
    """A selection of a portfolio has ended."""

    selection: Selection

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.selection.take(self.selection)


@dataclass(frozen=True)
class TakePlan(Command[None]):
    """A planner has answered."""

    plan: Plan

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        scheduler.planner.take(self.plan)


@dataclass(frozen=True)
class PromiseJobs(Command[list[Quote]]):
    """Log promises to these jobs from a forecast."""

    numbers: tuple[int, ...]
    forecast: Forecast
    options: tuple[QuoteOption, ...] = ()  # at their submission

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> list[Quote]:
        return promise(scheduler, scheduler.wait_reasons(self.forecast), self.numbers, self.options)


@dataclass(frozen=True)
class NoteTuning(Command[int]):
    """Log that a search has begun or ended (`tuning`, `tuned`, `not-tuned`); the event's number."""

    kind: str
    cause: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> int:
        return scheduler.note_tuning(self.kind, self.cause, **self.data)


@dataclass(frozen=True)
class AwaitJobs(Command[None]):
    """Nothing, once all of these jobs are there."""

    numbers: tuple[int, ...]

    def carry_out(self, scheduler: Scheduler, _: Rentals | None, /) -> None:
        pass


def named_by(command: Command[Any]) -> Iterable[int]:
    """The jobs that a request names, which have to be there before it is carried out."""
    if isinstance(command, SubmitJobs):
        after = (split_after(text)[0] for spec in command.specs for text in spec.after)
        return (number for number in after if isinstance(number, int))
    return command.numbers if isinstance(command, AwaitJobs | EditJobs | Control) else ()


def _control(
    asked: Control,
    action: Action,
    scheduler: Scheduler,
    do: Callable[[int, str], None],
) -> list[int]:
    """Apply an action to every job, or to none if it fails for one; returns the jobs to which it was applied."""

    def check(number: int) -> object:
        return scheduler.jobs.check(action, number)

    able = _able(scheduler, asked.numbers, asked.where_possible, check)
    for number in able:
        job = scheduler.ledger.jobs.get(number)
        if job is not None and not job.status.is_over:  # one that waited for another has ended with it
            do(number, asked.user)
    return able


def _able(
    scheduler: Scheduler, numbers: Iterable[int], where_possible: bool, check: Callable[[int], object]
) -> list[int]:
    """The jobs to which something can be done, each once. Unless where_possible, raises what `check` raises for one."""

    def is_able(number: int) -> bool:
        try:
            check(number)
        except Unknown:
            # Its row has been removed since it ended.
            if not (where_possible and 0 < number < scheduler.ledger.next_job):
                raise
            return False
        except Conflict:
            if not where_possible:
                raise
            return False
        return True

    return [number for number in dict.fromkeys(numbers) if is_able(number)]


def _of_a_cloud(rentals: Rentals | None) -> Rentals:
    if rentals is None:
        raise TypeError("internal: a service without a cloud is asked to rent")
    return rentals
