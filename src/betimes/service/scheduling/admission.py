"""Whether a job could ever run here: what no node will ever hold is refused when it is submitted."""

from __future__ import annotations

from collections.abc import Mapping

from betimes.cluster.resources import PER_UNIT
from betimes.errors import Refused
from betimes.foresight.engines import NODES
from betimes.service.node import LOST, Node
from betimes.service.scheduling.engine_job import demand_of
from betimes.service.spec import JobSpec

FIELDS = ("gpu", "cpu", "memory_gib")
NAMES = ("GPUs", "cores", "GiB of memory")


def check_possible(spec: JobSpec, nodes: Mapping[str, Node], engine: str) -> None:
    """Raise Refused, naming field and limit, if the empty cluster could not run the job."""
    if spec.as_one and engine == NODES:
        raise Refused(
            "needs a policy for a pool; this one runs on nodes, where widths do not change", "as_one"
        )
    there = [node.capacity for node in nodes.values() if node.status != LOST]
    if not there:
        return  # nodes may come; until then it waits, and is told so
    demand = demand_of(spec)
    for at, field in enumerate(FIELDS):
        most = max(capacity[at] for capacity in there)
        if demand[at] > most:
            raise Refused(
                f"expected at most {most / PER_UNIT[at]:g} {NAMES[at]} a unit, as on the largest node, "
                f"found {demand[at] / PER_UNIT[at]:g}",
                field,
            )
    held = sum(_units_on(capacity, demand) for capacity in there)
    if held == 0:
        raise Refused("no node has all that a unit needs at once; ask for less, or add such a node", "cpu")
    wide = "max_units" if engine == NODES else "min_units"
    units = spec.max_units if engine == NODES else spec.min_units
    if units > held:
        why = (
            "as the empty cluster holds"
            if engine != NODES
            else "as the empty cluster holds (nodes run jobs at full width)"
        )
        raise Refused(f"expected at most {held} units, {why}, found {units}", wide)


def _units_on(capacity: tuple[int, int, int], demand: tuple[int, int, int]) -> int:
    return min(room // need for room, need in zip(capacity, demand, strict=True) if need > 0)
