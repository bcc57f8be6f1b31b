"""Whether a job could ever run here: what no node will ever hold is refused when it is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from betimes.cluster import Offer
from betimes.cluster.labels import as_texts, suits, why_none_suits
from betimes.cluster.resources import PER_UNIT, Amounts
from betimes.cluster.tasks import job_tasks, undominated
from betimes.errors import Refused
from betimes.foresight.engines import NODES
from betimes.service.engines.dedicated_machines import is_held_by, shapes_of
from betimes.service.scheduling.engine_job import demand_of
from betimes.service.scheduling.node import LOST, Node
from betimes.service.spec.job_spec import JobSpec

FIELDS = ("gpu", "cpu", "memory_gib")
NAMES = ("GPUs", "cores", "GiB of memory")


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
    machines = shapes_of([offer for offer in offers if suits(offer.labels, spec.required)])
    if not machines:
        return False
    unit = (spec.gpu, spec.cpu, spec.memory_gib)
    tasks = job_tasks(unit, spec.max_units, spec.task_choice, undominated(machines))
    return is_held_by(tasks, demand_of(spec), machines)


def _with(spec: JobSpec) -> str:
    """Which nodes are meant, where a job requires labels."""
    return f" with {' and '.join(as_texts(spec.required))}" if spec.require else ""


def _check_nodes(spec: JobSpec, nodes: Mapping[str, Node], engine: str) -> None:
    """Raise Refused if the nodes could not run the job when nothing else is there."""
    known = [node for node in nodes.values() if node.status != LOST]
    if not known:
        return  # nodes may come; until then it waits, and its reason says so
    lacking = why_none_suits(spec.required, [node.labels for node in known])
    if lacking is not None:
        raise Refused(lacking, "require")
    there = [node.capacity for node in known if suits(node.labels, spec.required)]
    demand = demand_of(spec)
    for at, field in enumerate(FIELDS):
        most = max(capacity[at] for capacity in there)
        if demand[at] > most:
            raise Refused(
                f"expected at most {most / PER_UNIT[at]:g} {NAMES[at]} a unit, as on the largest node{_with(spec)}, "
                f"found {demand[at] / PER_UNIT[at]:g}",
                field,
            )
    held = sum(_units_on(capacity, demand) for capacity in there)
    if held == 0:
        raise Refused(
            f"no node{_with(spec)} has all that a unit needs at once; ask for less, or add such a node", "cpu"
        )
    if engine == NODES:
        _check_tasks(spec, there)
    elif spec.min_units > held:
        raise Refused(
            f"expected at most {held} units, as the empty cluster holds, found {spec.min_units}", "min_units"
        )


def _check_tasks(spec: JobSpec, there: Sequence[Amounts]) -> None:
    """Raise Refused if the job's tasks, at full width, do not find room on these nodes."""
    unit, units = (spec.gpu, spec.cpu, spec.memory_gib), spec.max_units
    tasks = job_tasks(unit, units, spec.task_choice, undominated(there))
    if tasks.units_each > tasks.together:
        raise Refused(
            f"expected at most {tasks.together}, as many units as some node holds, found {tasks.units_each}",
            "units_per_task",
        )
    room = sum(_units_on(capacity, tasks.demand) for capacity in there)
    if tasks.count <= room:
        return
    why = f"as the empty cluster holds{_with(spec) and f' on nodes{_with(spec)}'} (nodes run jobs at full width)"
    if tasks.units_each == 1:
        raise Refused(f"expected at most {room} units, {why}, found {units}", "max_units")
    found = f"found {tasks.count} ({units} units); ask for fewer units, or for smaller tasks (units_per_task)"
    several = f"{room} task{'' if room == 1 else 's'} of {tasks.units_each} units"
    raise Refused(f"expected at most {several}, {why}, {found}", "max_units")


def _units_on(capacity: Amounts, demand: Amounts) -> int:
    return min(room // need for room, need in zip(capacity, demand, strict=True) if need > 0)
