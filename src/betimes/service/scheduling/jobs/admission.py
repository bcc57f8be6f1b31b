"""Whether a job could ever run here: what no node will ever hold is refused, what only made-up ones hold has a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from betimes.cluster import Offer
from betimes.cluster.labels import as_texts, suits, why_none_suits
from betimes.cluster.resources import PER_UNIT
from betimes.cluster.shapes import Room, roomiest, suiting
from betimes.cluster.tasks import job_tasks
from betimes.errors import Refused
from betimes.foresight.engines import NODES
from betimes.service.engines.dedicated_machines import is_held_by, rooms_of, shapes_of, times_on
from betimes.service.machines.machine import REAL
from betimes.service.scheduling.nodes.node import LOST, Node
from betimes.service.spec.job_spec import JobSpec

FIELDS = ("gpu", "cpu", "memory_gib")
NAMES = (("GPU", "GPUs"), ("core", "cores"), ("GiB of memory", "GiB of memory"))
NAMED = 3  # machines in a note


def check_possible(
    spec: JobSpec,
    nodes: Mapping[str, Node],
    engine: str,
    offers: Sequence[Offer] | None = None,
    shared: Sequence[Offer] = (),
) -> None:
    """Raise Refused, naming field and limit, if neither the empty cluster nor what is offered could run the job.

    offers: of machines that the policy rents for one job alone; null: it rents none. shared: of those that it rents for
    whatever it places on them.
    """
    if spec.as_one and engine == NODES:
        raise Refused(
            "needs a policy for a pool; this one runs on nodes, where widths do not change", "as_one"
        )
    if spec.demand and engine != NODES:
        raise Refused(
            "a unit of a pool needs the same on all machines; leave it out, or put a policy for nodes in force "
            "(`betimes policy set nodes:fifo`)",
            "demand",
        )
    if offers is None and spec.rent == "now":
        raise Refused(
            "now is for a policy that rents machines, and the one in force does not; leave it out, or see "
            "`betimes policies`",
            "rent",
        )
    owned = {name: node for name, node in nodes.items() if node.is_shared}
    if offers and spec.rent != "never" and can_be_rented(spec, offers):
        return
    if shared and can_be_rented(spec, shared):
        return
    try:
        _check_nodes(spec, owned, engine)
        if shared and not any(node.status != LOST for node in owned.values()):
            lacking = why_none_suits(spec.required, [offer.labels for offer in shared], "offer", "offers")
            if lacking is not None:
                raise Refused(lacking, "require")
            raise Refused("no machine holds what a unit needs; ask for less", "cpu")
    except Refused as error:
        if not offers and not shared:
            raise
        why = str(error).removeprefix(f"{error.field}: ")
        none = (
            "it is not to be rented for" if spec.rent == "never" else "no offer of the cloud holds it either"
        )
        raise Refused(f"{why}; {none}", error.field) from None


def can_be_rented(spec: JobSpec, offers: Sequence[Offer]) -> bool:
    """Whether machines of one of these offers hold the job, and have all labels that it requires."""
    machines = rooms_of(shapes_of([offer for offer in offers if suits(offer.labels, spec.required)]))
    tasks = job_tasks(spec.unit, spec.max_units, spec.task_choice, roomiest(machines))
    return is_held_by(tasks, spec.unit, machines)


def made_up_note(spec: JobSpec, nodes: Iterable[Node], offers: Sequence[Offer]) -> str | None:
    """That a job's command may not be run, as made-up machines can take it; null: they cannot.

    offers: of machines that are rented for such a job.
    """
    real, made_up = list[str](), list[str]()
    for node in nodes:
        demand, machine = spec.unit.amounts_on(node.family), Room(node.capacity, node.family)
        if node.takes_work and suits(node.labels, spec.required) and times_on(machine, demand):
            (real if node.machine.kind in REAL else made_up).append(node.machine.name)
    made_up += [f"a rented {offer.type}" for offer in offers if can_be_rented(spec, [offer])]
    if not made_up:
        return None
    named = ", ".join(made_up[:NAMED]) + (", ..." if len(made_up) > NAMED else "")
    if real:
        return f"on made-up machines ({named}) this job only takes time: its command is not run there"
    return f"this job only takes time, and its command is not run: its machines are made up ({named})"


def _with(spec: JobSpec) -> str:
    """Which nodes are meant, where a job requires labels."""
    return f" with {' and '.join(as_texts(spec.required))}" if spec.require else ""


def _check_nodes(spec: JobSpec, nodes: Mapping[str, Node], engine: str) -> None:
    """Raise Refused if the nodes could not run the job when nothing else is there."""
    # A large cluster has few shapes, and it is the shapes that are looked at.
    known = Counter(node.shape for node in nodes.values() if node.status != LOST)
    if not known:
        return  # nodes may come; until then it waits, and its reason says so
    lacking = why_none_suits(spec.required, [shape.labels for shape in known])
    if lacking is not None:
        raise Refused(lacking, "require")
    there = Counter[Room]()
    for (amounts, labels, family), nodes_alike in known.items():
        if suits(labels, spec.required):
            there[Room(amounts, family)] += nodes_alike
    if spec.demand:
        _check_families(spec, there)
    else:
        _check_unit(spec, there)
    if engine == NODES:
        _check_tasks(spec, there, suiting(tuple(sorted(known)), spec.required))
        return
    held = sum(alike * times_on(room, spec.unit.amounts_on(room.family)) for room, alike in there.items())
    if spec.min_units > held:
        raise Refused(
            f"{spec.min_units} units cannot fit: the cluster has {held} unit{'' if held == 1 else 's'} in all",
            "min_units",
        )


def _check_families(spec: JobSpec, there: Collection[Room]) -> None:
    """Raise Refused if on no family a unit of the job fits on a node."""
    has = sorted({room.family for room in there})
    named = [family for family in has if family in spec.demand]
    if not named:
        raise Refused(
            f"no machine here{_with(spec)} is of family {' or '.join(sorted(spec.demand))}; they are of "
            f"{', '.join(has)}",
            "demand",
        )
    found: list[Refused] = []
    for family in named:
        try:
            _check_unit(spec, [room for room in there if room.family == family], family)
        except Refused as error:
            found.append(error)
    if len(found) == len(named):
        others = f"; nor does it fit on {' or '.join(named[1:])}" if len(named) > 1 else ""
        why = str(found[0]).removeprefix(f"{found[0].field}: ")
        raise Refused(f"{why}{others}", found[0].field)


def _check_unit(spec: JobSpec, there: Collection[Room], family: str | None = None) -> None:
    """Raise Refused if a unit fits on none of these nodes; family: all of them are of that one."""
    demand = spec.unit.amounts_on(next(iter(there)).family) or (0, 0, 0)
    of, where = (f" of family {family}", f"demand.{family}.") if family is not None else ("", "")
    for at, field in enumerate(FIELDS):
        most = max(room.amounts[at] for room in there)
        if demand[at] > most:
            has, asked, (one, several) = most / PER_UNIT[at], demand[at] / PER_UNIT[at], NAMES[at]
            here = f"machine here{of}{_with(spec)}"
            if most == 0:
                text = f"No {here} has {'memory' if at == 2 else f'a {one}'}"
            else:
                text = f"The largest {here} has {has:g} {one if has == 1 else several}"
            each = "this job" if spec.max_units == 1 else "each unit of this job"
            raise Refused(f"{text}; {each} asks for {asked:g}", where + field)
    if not any(times_on(room, demand) for room in there):
        raise Refused(
            f"no machine here{of}{_with(spec)} has all that a unit needs at once; ask for less, or add such a node",
            f"{where}cpu",
        )


def _check_tasks(spec: JobSpec, there: Mapping[Room, int], largest: tuple[Room, ...]) -> None:
    """Raise Refused if the job's tasks, at full width, do not find room on so many nodes of each kind.

    largest: of them, as `cluster.shapes.roomiest` has it.
    """
    units = spec.max_units
    tasks = job_tasks(spec.unit, units, spec.task_choice, largest)
    if tasks.units_each > tasks.together:
        raise Refused(
            f"no machine here holds {tasks.units_each} units together; the largest holds {tasks.together}",
            "units_per_task",
        )
    room = sum(alike * times_on(one, tasks.demand_on(one.family)) for one, alike in there.items())
    if tasks.count <= room:
        return
    cluster = f"the cluster{_with(spec) and f', on nodes{_with(spec)},'} has room for {room} in all"
    if tasks.units_each == 1:
        raise Refused(
            f"{units} units cannot fit: {cluster}, and on nodes a job starts with all of them", "max_units"
        )
    raise Refused(
        f"{tasks.count} tasks of {tasks.units_each} units cannot fit: {cluster}; ask for fewer units, or for smaller "
        "tasks (units_per_task)",
        "max_units",
    )
