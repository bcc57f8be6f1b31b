"""Owned machines before rented ones: their price is paid already, so waiting jobs go there first.

A packing planner gets the rest: the jobs that need rented machines, and these machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from betimes.core.planning import (
    Bind,
    ByFamily,
    Decision,
    JobPhase,
    JobSnapshot,
    MachinePhase,
    Place,
    Snapshot,
)
from betimes.policies.packing.catalogue import Amounts


def owned_first(
    snapshot: Snapshot, rent_usd_per_h: Callable[[JobSnapshot], float]
) -> tuple[list[Decision], Snapshot]:
    """The decisions that fill owned machines, and the snapshot without the jobs on, or waiting for, these.

    The job with the highest rent goes first, among equals the first to arrive; a job goes as a whole. Jobs on owned
    machines stay there, and jobs that no rented machine holds wait for them (`rent_usd_per_h` is infinite).
    Interference does not count here: a paid machine is worth filling.
    """
    owned = {each.machine: each for each in snapshot.machines if each.offer < 0}
    if not owned:
        return [], snapshot
    empty = {number: each.capacity for number, each in owned.items()}
    room = {
        number: each.free for number, each in owned.items() if each.phase == MachinePhase.UP and each.is_open
    }
    family = {number: each.family for number, each in owned.items()}
    for job in snapshot.jobs:
        _occupy(room, family, job, job.bound)  # the snapshot shows its room as free until the job starts
    settled = {
        job.job for job in snapshot.jobs if any(at.machine in owned for at in (*job.places, *job.bound))
    }
    decisions: list[Decision] = []
    waiting = [(rent_usd_per_h(job), job) for job in snapshot.jobs if job.phase == JobPhase.WAITS]
    too_large = set[tuple[Amounts, ByFamily, int]]()  # for the remaining room: many waiting jobs are alike
    for usd_per_h, job in sorted(waiting, key=lambda each: (-each[0], each[1].seq)):
        need = (job.demand, job.by_family, job.tasks)
        places = () if need in too_large else _places(job, room, family)
        if places:
            decisions.append(Bind(job.job, places))
            _occupy(room, family, job, places)
        else:
            too_large.add(need)
        if places or (usd_per_h == math.inf and _places(job, empty, family)):
            settled.add(job.job)
    return decisions, snapshot._replace(jobs=tuple(job for job in snapshot.jobs if job.job not in settled))


def _occupy(
    room: dict[int, Amounts], family: Mapping[int, int], job: JobSnapshot, places: Sequence[Place]
) -> None:
    for machine, tasks in places:
        demand = job.demand_on(family[machine]) if machine in room else None
        if demand is not None:
            gpu, cpu, memory = (has - tasks * needs for has, needs in zip(room[machine], demand, strict=True))
            room[machine] = gpu, cpu, memory


def _places(job: JobSnapshot, room: Mapping[int, Amounts], family: Mapping[int, int]) -> tuple[Place, ...]:
    """Places for all tasks of a job: the fullest machine that holds them all, or the emptiest ones; () if none."""
    holds = {number: _count(job, family[number], free) for number, free in room.items()}
    whole = [number for number, count in holds.items() if count == job.tasks]
    if whole:
        return (Place(min(whole, key=lambda number: (room[number], number)), job.tasks),)
    found = list(_spread(job.tasks, sorted(holds.items(), key=lambda each: (-each[1], each[0]))))
    return tuple(found) if sum(place.tasks for place in found) == job.tasks else ()


def _spread(tasks: int, holds: Sequence[tuple[int, int]]) -> Iterator[Place]:
    for number, count in holds:
        if tasks and count:
            yield Place(number, min(count, tasks))
            tasks -= min(count, tasks)


def _count(job: JobSnapshot, family: int, free: Amounts) -> int:
    """The number of a job's tasks that fit on a machine of a family, at most all of them."""
    demand = job.demand_on(family)
    if demand is None:
        return 0
    return min([job.tasks, *(has // needs for has, needs in zip(free, demand, strict=True) if needs)])
