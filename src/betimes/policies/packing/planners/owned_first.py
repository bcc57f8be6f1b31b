"""Owned machines before rented ones: their price is paid already, so jobs that wait go there first.

A packing planner sees what is left: the jobs that need rented machines, and these.
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
    """The decisions that fill owned machines, and the snapshot without the jobs for which those are.

    The job that would cost most to rent for goes first, among equals the one that came first; a job goes as a whole.
    One that is on owned machines stays there, and one that nothing else could hold waits for them (`rent_usd_per_h` is
    infinite). How tasks slow each other is not weighed here: a machine that is paid for is worth filling.
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
        _occupy(room, family, job, job.bound)  # its room is free until it starts
    settled = {
        job.job for job in snapshot.jobs if any(at.machine in owned for at in (*job.places, *job.bound))
    }
    decisions: list[Decision] = []
    waiting = [(rent_usd_per_h(job), job) for job in snapshot.jobs if job.phase == JobPhase.WAITS]
    too_large = set[
        tuple[Amounts, ByFamily, int]
    ]()  # for the room that is left: many jobs that wait are alike
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
    """Where all tasks of a job find room, if they do: the fullest machine that holds them, or the emptiest ones."""
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
    """How many tasks of a job there is room for on a machine of a family, all of them at most."""
    demand = job.demand_on(family)
    if demand is None:
        return 0
    return min([job.tasks, *(has // needs for has, needs in zip(free, demand, strict=True) if needs)])
