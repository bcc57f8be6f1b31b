"""From a job to the request that an engine receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from betimes.cluster.resources import Amounts, demand_amounts
from betimes.cluster.tasks import job_tasks
from betimes.service.engines.messages import JobRequest
from betimes.service.scheduling.job import Job, Places
from betimes.service.scheduling.node import Node
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.twin.nodes.renting import CHOICES


def wanted_for(job_id: int, spec: JobSpec, runtime_estimate_s: float, user: str = "") -> JobRequest:
    """The request of a job to an engine; runtime_estimate_s: run time on max_units.

    A limit is one of each trial in a set, which has none itself.
    """
    is_table = isinstance(spec.curve, Curve)
    return JobRequest(
        job=job_id,
        min_units=spec.min_units,
        max_units=spec.max_units,
        curve=spec.title if isinstance(spec.curve, Curve) else spec.curve,
        runtime_estimate_s=runtime_estimate_s,
        gpu=spec.gpu,
        cpu=spec.cpu,
        memory_gib=spec.memory_gib,
        units_per_task=spec.task_choice,
        trial=spec.qos == "trial",
        priority=spec.priority,
        grace_s=spec.grace_s,
        choice=CHOICES[spec.rent],
        may_restart=spec.requeue,
        require=spec.required,
        by_family=spec.unit.by_family,
        limit_s=0.0 if spec.time_limit_s is None or spec.as_one else spec.time_limit_s + spec.grace_s,
        user=user,
        speeds=spec.unit.speeds,
        workload=spec.workload or "",
        table=_row(spec.curve.speedup, spec.max_units) if is_table and isinstance(spec.curve, Curve) else (),
    )


def wanted_of(job: Job) -> JobRequest:
    """The request of a job of the ledger to an engine."""
    wanted = wanted_for(job.job_id, job.spec, job.runtime_estimate_s, job.user)
    if job.alone_per_s is not None:
        wanted = replace(wanted, profiled=True)
    return wanted if job.trials is None else replace(wanted, max_units=job.trials.width, limit_s=0.0)


def at_width(wanted: JobRequest, units: int) -> JobRequest:
    """The same job, rigid at the width that it has now: nodes do not change a job's width."""
    return wanted if units == wanted.max_units else replace(wanted, min_units=units, max_units=units)


def demand_of(spec: JobSpec) -> Amounts:
    """Demand of a unit of a pool: thousandths of GPUs and cores, MiB; rounded up, so that nothing is missing."""
    return demand_amounts(*spec.unit.everywhere)


def held_by(
    spec: JobSpec, places: Places, units_per_task: int, nodes: Mapping[str, Node]
) -> list[tuple[str, Amounts]]:
    """Amounts that a job holds on each node, in tasks of at most `units_per_task` units."""
    unit, units = spec.unit, [units for _, units in places]
    tasks = job_tasks(unit, sum(units), units_per_task, ()) if units_per_task > 1 and units else None
    counts = None if tasks is None else tasks.tasks_in(units)
    held = list[tuple[str, Amounts]]()
    for (name, _), n in zip(places, counts or units, strict=True):
        family = nodes[name].family
        demand = tasks.demand_on(family) if tasks is not None and counts else unit.amounts_on(family)
        gpu, cpu, memory = demand or (0, 0, 0)  # a job is nowhere where it cannot run
        held.append((name, (n * gpu, n * cpu, n * memory)))
    return held


def memory_of(spec: JobSpec, places: Places, nodes: Mapping[str, Node]) -> float:
    """The memory of a job on these nodes, GiB; where it depends on the nodes, those that are gone do not count."""
    if not spec.demand:
        return spec.memory_gib * sum(units for _, units in places)
    unit = spec.unit
    on = ((unit.on(nodes[name].family), units) for name, units in places if name in nodes)
    return sum(needed[2] * units for needed, units in on if needed is not None)


def _row(speedup: dict[int, float], widest: int) -> tuple[float, ...]:
    """Speed-ups on 1, 2, ... units: linear between what the table knows, flat beyond it."""
    known = {1: 1.0, **speedup}
    points = sorted(known)
    row: list[float] = []
    for units in range(1, min(widest, points[-1]) + 1):
        below = max(point for point in points if point <= units)
        above = min(point for point in points if point >= units)
        share = (units - below) / (above - below) if above > below else 0.0
        row.append(known[below] + share * (known[above] - known[below]))
    return tuple(row)
