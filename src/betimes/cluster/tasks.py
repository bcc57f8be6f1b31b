"""From a job to its tasks: the one rule, for the twin and for the service.

A task is a part of a job that stays on one node; the tasks of a job are equal, and start and end together. How many
there are follows from the job's choice, `units_per_task`, and from the shapes of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.cluster.resources import NOWHERE, Amounts, UnitDemand, multiples_within, whole_demand
from betimes.cluster.shapes import Room, undominated

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PACK = 0  # as many units a task as some node holds, so that the job is on as few nodes as possible
SPREAD = 1  # every unit is a separate task


@dataclass(frozen=True, eq=False)
class Split:
    """Jobs as tasks, a row a job: `count` tasks; the fullest has `units_each`, and all need what that does.

    `demand` (n, 3) is a task's demand, in the whole numbers of `cluster.resources`. `together` is the number of units
    that the roomiest node holds, 0 where a unit fits no node; `fits`: whether some node holds a task.
    """

    count: Integers
    units_each: Integers
    demand: Integers
    together: Integers

    def put(self, rows: Integers, other: Split) -> None:
        """Let these rows be those of another split."""
        for name in ("count", "units_each", "demand", "together"):
            getattr(self, name)[rows] = getattr(other, name)

    @property
    def fits(self) -> Bools:
        """(n,) whether a task fits on some node."""
        return (self.together >= self.units_each) & (self.together > 0)


def split(unit: Floats, units: Integers, units_per_task: Integers, shapes: ArrayLike) -> Split:
    """Jobs of `units` units, each of which needs `unit` (n, 3) GPUs, cores and GiB, as tasks.

    units_per_task: `PACK`, `SPREAD`, or the units of a task. shapes (k, 3): the capacity of one node of each kind, in
    whole numbers. Units are spread over the tasks as evenly as they go. A job whose unit fits no node, and every job
    where there is no node, is split into single units.
    """
    together = units_together(unit, units, shapes)
    count, each = _divided(units, units_per_task, together)
    return Split(count, each, whole_demand(unit * each[:, None]), together)


def split_by_family(
    unit: Floats, units: Integers, units_per_task: Integers, shapes: Sequence[ArrayLike]
) -> tuple[Split, Integers]:
    """The same for jobs whose units need `unit` (n, families, 3) on each family, NaN where they cannot run.

    shapes: of the nodes of each family. A task has the same number of units on every family: without a choice as many
    as some node holds of what they need there. Also returns a task's demand on each family (n, families, 3),
    `NOWHERE` where it cannot run; the demand of the split is the least of any.
    """
    together = np.zeros(len(unit), np.int64)
    for family, nodes in enumerate(shapes):
        on = np.flatnonzero(~np.isnan(unit[:, family, 0]))
        together[on] = np.maximum(together[on], units_together(unit[on, family], units[on], nodes))
    count, each = _divided(units, units_per_task, together)
    cannot = np.isnan(unit)
    demand = whole_demand(np.where(cannot, 0.0, unit) * each[:, None, None])
    demand[cannot] = NOWHERE
    return Split(count, each, demand.min(axis=1, initial=NOWHERE), together), demand


def units_together(unit: Floats, units: Integers, shapes: ArrayLike) -> Integers:
    """(n,) how many units of `unit` (n, 3) the roomiest node holds, at most all of them; 0: none fits any node."""
    together = np.zeros(len(unit), np.int64)
    for capacity in undominated(shapes):
        together = np.maximum(together, multiples_within(unit, np.array(capacity, np.int64), units))
    return together


def _divided(units: Integers, units_per_task: Integers, together: Integers) -> tuple[Integers, Integers]:
    """How many tasks, and the units of the fullest."""
    most = np.where(units_per_task == PACK, np.maximum(together, 1), units_per_task)
    count = _divided_up(units, most)
    return count, _divided_up(units, count)


@dataclass(frozen=True, slots=True)
class JobTasks:
    """One job as tasks: `count` of them for its `units`; the first ones have `units_each`, the others one less.

    demand: what each task needs, whatever it has, in whole numbers. by_family: the same on each family on which the job
    can run, where that depends on it; then `demand` is the least of any. speeds: how fast the job works on each of
    these families, empty: 1 on all.
    """

    units: int
    count: int
    units_each: int
    demand: Amounts
    together: int  # units that the roomiest node holds
    by_family: tuple[tuple[str, Amounts], ...] = ()
    speeds: tuple[float, ...] = ()

    def demand_on(self, family: str) -> Amounts | None:
        """Each task's demand on machines of a family; null: it cannot run there."""
        if not self.by_family:
            return self.demand
        return next((needed for name, needed in self.by_family if name == family), None)

    def is_split_as(self, other: JobTasks) -> bool:
        """Whether these are the same tasks, whatever the roomiest node holds."""
        return replace(self, together=0) == replace(other, together=0)

    def units_in(self, tasks: Sequence[int]) -> list[int]:
        """How many units so many tasks here, so many there, ... have, the fullest tasks first."""
        ends = [self._units_before(int(end)) for end in np.cumsum(tasks)]
        return [end - before for before, end in zip([0, *ends], ends, strict=False)]

    def tasks_in(self, units: Sequence[int]) -> list[int] | None:
        """The reverse: in how many tasks so many units here, so many there, ... are; null: not in whole ones."""
        ends = [self._tasks_before(int(end)) for end in np.cumsum(units)]
        found = [end for end in ends if end is not None]
        if len(found) < len(ends) or sum(units) != self.units:
            return None
        return [end - before for before, end in zip([0, *found], found, strict=False)]

    def _units_before(self, task: int) -> int:
        return task * (self.units_each - 1) + min(task, self._full)

    def _tasks_before(self, units: int) -> int | None:
        full = self._full * self.units_each
        over = max(0, units - full)
        if over and self.units_each == 1:
            return None
        whole, left = divmod(min(units, full), self.units_each)
        more, left_over = divmod(over, self.units_each - 1) if over else (0, 0)
        return None if left or left_over else whole + more

    @property
    def _full(self) -> int:
        """Tasks with `units_each` units."""
        return self.units - self.count * (self.units_each - 1)


@lru_cache(maxsize=4096)
def job_tasks(unit: UnitDemand, units: int, units_per_task: int, rooms: tuple[Room, ...]) -> JobTasks:
    """One job as `split` has it, or as `split_by_family` has it where its demand depends on the family."""
    whole, choice = np.array([units]), np.array([units_per_task])
    each: tuple[tuple[str, Amounts], ...] = ()
    if not unit.by_family:
        made = split(np.array([unit.everywhere]), whole, choice, [room.amounts for room in rooms])
    else:
        of = {
            family: [room.amounts for room in rooms if room.family == family] for family, _ in unit.by_family
        }
        natural = np.array([[needed for _, needed in unit.by_family]])
        made, demand = split_by_family(natural, whole, choice, list(of.values()))
        each = tuple(zip(of, map(_amounts, demand[0].tolist()), strict=True))
    return JobTasks(
        units,
        int(made.count[0]),
        int(made.units_each[0]),
        _amounts(made.demand[0].tolist()),
        int(made.together[0]),
        each,
        unit.speeds,
    )


def norm_of(count: Any, demand: Iterable[Any], largest: Iterable[int]) -> Any:
    """The norm of so many tasks that need this, each resource over the most that a machine has of it."""
    squares = 0.0 * count
    for amount, most in zip(demand, largest, strict=True):
        if most > 0:
            part = count * amount / most
            squares = squares + part * part
    return np.sqrt(squares)


def _amounts(row: Sequence[int]) -> Amounts:
    gpu, cpu, memory = row
    return gpu, cpu, memory


def _divided_up(a: Integers, b: Integers) -> Integers:
    return -(-a // b)
