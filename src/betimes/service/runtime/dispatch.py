"""Carries out the controller's commands: which part of the scheduler, or what beside it, each of them is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from betimes.errors import Conflict, Unknown
from betimes.service.machines.machine import Machine, machines_of
from betimes.service.runtime.admission.mixed_nodes import kind_to_add
from betimes.service.runtime.commands import (
    AddNodes,
    AdvanceCloud,
    CancelJobs,
    ChangeMembers,
    Command,
    ExpireLease,
    GiveBackNode,
    HoldJobs,
    NoteHeartbeat,
    NoteTuning,
    PromiseJobs,
    ReleaseJobs,
    RentNodes,
    ReportProgress,
    ReportResize,
    SetNodeStatus,
    SetPolicy,
    SubmitJob,
    SubmitJobs,
    TakeOver,
    TakePlan,
    TakeReport,
    TakeSelection,
)
from betimes.service.runtime.promises.quotes import promise
from betimes.service.runtime.rentals import Rentals
from betimes.service.scheduling.jobs import Action
from betimes.service.scheduling.node import LOST
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.pipelines import by_number, check_names, resolved


def carry_out(command: Command[Any], scheduler: Scheduler, rentals: Rentals | None) -> Any:
    """Do with the state what a command asks for; returns what comes of it. Raises what it is refused with."""
    match command:
        case SubmitJobs(specs, user):
            return _submit(scheduler, specs, user)
        case SubmitJob(spec, user):
            return scheduler.admission.submit(spec, user)
        case CancelJobs(numbers, user, where_possible):
            return _control(scheduler, "cancel", numbers, user, where_possible)
        case HoldJobs(numbers, user, where_possible):
            return _control(scheduler, "hold", numbers, user, where_possible)
        case ReleaseJobs(numbers, user, where_possible):
            return _control(scheduler, "release", numbers, user, where_possible)
        case SetPolicy(policy, user, front, cause):
            return scheduler.policy.set_policy(
                policy, user, dict(front) if front is not None else None, cause
            )
        case AddNodes():
            return _add_nodes(scheduler, command)
        case ChangeMembers(joined, left):
            return _change_members(scheduler, joined, left)
        case RentNodes(type_, count, cause):
            return _of_a_cloud(rentals).rent(scheduler, type_, count, cause)
        case SetNodeStatus(name, status, cause):
            return scheduler.nodes.set_status(name, status, cause)
        case NoteHeartbeat(name):
            return scheduler.nodes.heard(name)
        case ExpireLease(name):
            return _expire(scheduler, name)
        case GiveBackNode(name):
            return scheduler.nodes.give_back(name)
        case AdvanceCloud():
            return _of_a_cloud(rentals).advance(scheduler)
        case TakeReport(report):
            return scheduler.reports.take(report)
        case ReportProgress(job, attempt, done, total):
            return scheduler.reports.progressed(job, attempt, done, total)
        case ReportResize(run, units, places, done):
            return scheduler.reports.resized(run, units, places, done)
        case TakeOver():
            return scheduler.policy.take_over()
        case TakeSelection(selection):
            return scheduler.selection.take(selection)
        case TakePlan(plan):
            return scheduler.planner.take(plan)
        case PromiseJobs(numbers, forecast, options):
            return promise(scheduler, scheduler.wait_reasons(forecast), numbers, options)
        case NoteTuning(kind, cause, data):
            return scheduler.note_tuning(kind, cause, **data)
        case _:
            raise TypeError(f"internal: {type(command).__name__} is no command that can be carried out")


def _submit(scheduler: Scheduler, specs: Sequence[JobSpec], user: str) -> list[list[int]]:
    check_names(specs)
    for spec in specs:
        scheduler.admission.check(by_number(spec), user)
    scheduler.admission.check_labels(specs)
    taken: list[list[int]] = []
    named: dict[str, list[int]] = {}
    for spec in specs:
        taken.append(scheduler.admission.accept(resolved(spec, named), user))
        named.setdefault(spec.title, []).extend(taken[-1])
    return taken


def _control(
    scheduler: Scheduler, action: Action, numbers: Sequence[int], user: str, where_possible: bool
) -> list[int]:
    """Do the same with every job, or with none if one of them cannot be; returns those to which it was done."""
    able = [number for number in dict.fromkeys(numbers) if _can_be(scheduler, action, number, where_possible)]
    for number in able:
        job = scheduler.ledger.jobs.get(number)
        if job is not None and not job.status.is_over:  # one that waited for another has ended with it
            scheduler.jobs.apply(action, number, user)
    return able


def _can_be(scheduler: Scheduler, action: Action, number: int, where_possible: bool) -> bool:
    try:
        scheduler.jobs.check(action, number)
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


def _add_nodes(scheduler: Scheduler, asked: AddNodes) -> list[str]:
    nodes = scheduler.ledger.nodes
    machines = machines_of(asked.group, kind_to_add(asked.kind, nodes.values()), nodes)
    for machine in machines:
        scheduler.nodes.add(machine, asked.cause)
    return [machine.name for machine in machines]


def _change_members(scheduler: Scheduler, joined: Sequence[Machine], left: Sequence[str]) -> None:
    """Told again, as after a turn that was not stored, it changes nothing."""
    for machine in joined:
        if machine.name not in scheduler.ledger.nodes:
            scheduler.nodes.add(machine, "cluster")
    for name in left:
        if name in scheduler.ledger.nodes:
            scheduler.nodes.left(name)


def _expire(scheduler: Scheduler, name: str) -> None:
    if scheduler.ledger.nodes[name].is_there:
        scheduler.nodes.set_status(name, LOST, "timer")


def _of_a_cloud(rentals: Rentals | None) -> Rentals:
    if rentals is None:
        raise TypeError("internal: a service without a cloud is asked to rent")
    return rentals
