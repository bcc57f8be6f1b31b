"""Requests that take several steps of the scheduler in one turn: functions that the controller carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from betimes.cluster.cluster import NodeGroup
from betimes.errors import Conflict, FieldError, Unknown
from betimes.service.machines.machine import Kind, Machine, machines_of
from betimes.service.runtime.admission import kind_to_add
from betimes.service.scheduling.events import Signalled
from betimes.service.scheduling.jobs import Action
from betimes.service.scheduling.node import DRAINING, LOST
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.pipelines import by_number, check_names, resolved

# --- jobs -----------------------------------------------------------------------------------------------------


def submit(scheduler: Scheduler, specs: Sequence[JobSpec], user: str) -> list[list[int]]:
    """Accept these jobs, all or none; the numbers of each. They may name each other in `after`. Raises Refused."""
    check_names(specs)
    scheduler.users.check_queue(specs, user)
    for place, spec in enumerate(specs):
        try:
            scheduler.admission.check(by_number(spec), user)
        except FieldError as error:
            raise error.among(len(specs), place) from None
    scheduler.admission.check_labels(specs)
    taken: list[list[int]] = []
    named: dict[str, list[int]] = {}
    for spec in specs:
        taken.append(scheduler.admission.accept(resolved(spec, named), user))
        named.setdefault(spec.title, []).extend(taken[-1])
    return taken


def steer(
    scheduler: Scheduler, action: Action, numbers: Iterable[int], user: str, where_possible: bool = False
) -> list[int]:
    """Do this to all of these jobs, or to none; where_possible: to those that it can be done to. Their numbers.

    Raises Unknown, Conflict.
    """
    jobs = scheduler.jobs
    do = {
        "cancel": jobs.cancel,
        "hold": jobs.hold,
        "release": jobs.release,
        "requeue": jobs.requeue_run,
        "suspend": jobs.suspend,
        "resume": jobs.resume,
    }[action]
    return _done_to(scheduler, action, numbers, where_possible, lambda number: do(number, user))


def signal(
    scheduler: Scheduler,
    numbers: Iterable[int],
    user: str,
    name: str,
    to: Signalled,
    where_possible: bool = False,
) -> list[int]:
    """Send a signal to the runs of all of these jobs, or of none; where_possible: of those that run. Their numbers.

    Raises Unknown, Conflict.
    """

    def send(number: int) -> None:
        scheduler.jobs.signal(number, user, name, to)

    return _done_to(scheduler, "signal", numbers, where_possible, send)


def edit(
    scheduler: Scheduler,
    numbers: Iterable[int],
    changes: JobChanges,
    user: str,
    where_possible: bool = False,
) -> list[int]:
    """Change all of these jobs, or none; where_possible: those that can be. The numbers of those that are.

    Raises Unknown, Conflict, Refused.
    """
    able = _able(scheduler, numbers, where_possible, lambda number: scheduler.edits.check(number, changes))
    scheduler.edits.edit(able, changes, user)
    return able


def _done_to(
    scheduler: Scheduler,
    action: Action,
    numbers: Iterable[int],
    where_possible: bool,
    do: Callable[[int], None],
) -> list[int]:
    """Apply an action to every job, or to none if it fails for one; the jobs to which it was applied."""
    able = _able(scheduler, numbers, where_possible, lambda number: scheduler.jobs.check(action, number))
    for number in able:
        job = scheduler.ledger.jobs.get(number)
        if job is not None and not job.status.is_over:  # one that waited for another has ended with it
            do(number)
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


# --- nodes ----------------------------------------------------------------------------------------------------


def add_nodes(scheduler: Scheduler, group: NodeGroup, kind: Kind | None, cause: str) -> list[str]:
    """Add the operator's own nodes; their names. kind: null where none was named. Raises Refused, Conflict."""
    nodes = scheduler.ledger.nodes
    machines = machines_of(group, kind_to_add(kind, nodes.values()), nodes)
    scheduler.nodes.add_all(machines, cause)
    return [machine.name for machine in machines]


def change_members(scheduler: Scheduler, joined: Iterable[Machine], left: Iterable[str]) -> None:
    """Add machines that have joined the cluster whose nodes the service uses, and remove those that have left it.

    Repeated, as after a turn that was not stored, it changes nothing.
    """
    new = [machine for machine in joined if machine.name not in scheduler.ledger.nodes]
    scheduler.nodes.add_all(new, "cluster")
    for name in left:
        if name in scheduler.ledger.nodes:
            scheduler.nodes.left(name)


def expire_lease(scheduler: Scheduler, name: str) -> None:
    """Lose a node whose lease has ended without a heartbeat."""
    if scheduler.ledger.nodes[name].is_there:
        scheduler.nodes.set_status(name, LOST, "timer")


def give_back_machines(scheduler: Scheduler, name: str | None, now: bool, user: str) -> None:
    """Give back a rented machine, or all (null), after which nothing more is rented.

    now: with what runs there; else once nothing does. Raises Unknown, Conflict.
    """
    if name is not None and scheduler.nodes.node(name).rented_at is None:
        raise Conflict(f"node {name} is not rented; `betimes fleet` lists what is")
    rented = [each for each, node in scheduler.ledger.nodes.items() if node.rented_at is not None]
    if name is None:
        scheduler.settings.fleet = replace(scheduler.settings.fleet, most_machines=0)
    for each in rented if name is None else [name]:
        if now:
            scheduler.leases.end(each, f"user:{user}", f"{user} has asked for that")
        else:
            scheduler.nodes.set_status(each, DRAINING, f"user:{user}")
