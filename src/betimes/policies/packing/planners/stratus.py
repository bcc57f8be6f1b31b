"""Stratus: tasks that end at about the same time share a machine, so that it can be given back whole.

Tasks go by their remaining run time, and a machine is cleared by the resources that it has; Eva's released version uses
the whole run time, and never clears a machine without GPUs. Source: Chung et al. (SoCC'18), as Eva's evaluation extends
it (section 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from betimes.errors import PolicyError
from betimes.policies.packing.boxes import Box, bins, standing
from betimes.policies.packing.catalogue import Catalogue, InstanceType, fits
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.problem import Problem, Round, Task
from betimes.policies.packing.reservation_price import ReservationPrices

Grouping = Literal["consecutive", "prefixes"]
"""How tasks are grouped for new machines: one, then two, then three ... (Eva's version), or the prefix, of the tasks of
one bin of run time, that scores best (Stratus)."""


class Stratus:
    """Packs by bins of run time: the tasks of bin n have from 2**n to 2**(n+1) s left, which must be known."""

    def __init__(self, *, grouping: Grouping = "consecutive") -> None:
        if grouping not in get_args(Grouping):
            raise PolicyError(
                f"stratus: expected grouping {' or '.join(get_args(Grouping))}, found {grouping!r}"
            )
        self.grouping: Grouping = grouping

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on.

        Raises ClusterError for a task that fits no type, PolicyError for one whose remaining run time is not known.
        """
        problem = round_.problem
        prices = ReservationPrices(problem.catalogue)
        for task in problem.tasks:
            prices.of(task)
            if math.isnan(task.remaining_s):
                raise PolicyError(
                    f"stratus: the run time that task {task.id} has left is not known: give an estimate"
                )
        boxes = standing(problem)
        cleared = [box for box in boxes if _clears(box, problem, prices)]
        boxes = [box for box in boxes if box not in cleared]
        loose = {task.id for box in cleared for task in box.tasks}
        left: list[Task] = []
        for task in problem.tasks:
            if task.machine is None or task.id in loose:
                box = _best_box(task, boxes)
                if box is None:
                    left.append(task)
                else:
                    box.add(task)
        new = self._scale_out(left, problem.catalogue)
        _take_over(new, cleared)
        return Plan(bins([*boxes, *new]), reason="stratus")

    def _scale_out(self, tasks: list[Task], catalogue: Catalogue) -> list[Box]:
        """New machines for tasks that fit no running one, the longest run time first."""
        waiting = sorted(tasks, key=lambda task: -task.remaining_s)
        new: list[Box] = []
        while waiting:
            if self.grouping == "consecutive":
                size, type_ = _consecutive(waiting, len(new) + 1, catalogue)
            else:
                size, type_ = _best_prefix(waiting, catalogue)
            new.append(Box(type_, None, waiting[:size]))
            waiting = waiting[size:]
        return new


def _run_time_bin(remaining_s: float) -> int:
    return math.floor(math.log2(max(1.0, remaining_s)))


def _lasts_s(task: Task, type_: InstanceType) -> float:
    return task.remaining_s / type_.speed(task.kind)


def _left_s(box: Box) -> float:
    return max(_lasts_s(task, box.type) for task in box.tasks)


def _best_box(task: Task, boxes: Sequence[Box]) -> Box | None:
    """The machine of the task's bin that ends nearest to the task; else the one with the most free resources, of the
    longer ones, else of the shorter ones.
    """
    fitting = [box for box in boxes if box.fits(task)]
    behind = [_run_time_bin(_left_s(box)) - _run_time_bin(_lasts_s(task, box.type)) for box in fitting]
    if same := [box for box, bins_ in zip(fitting, behind, strict=True) if bins_ == 0]:
        return min(same, key=lambda box: abs(_left_s(box) - _lasts_s(task, box.type)))
    longer = [box for box, bins_ in zip(fitting, behind, strict=True) if bins_ > 0]
    return max(longer or fitting, key=lambda box: box.free_units, default=None)


def _clears(box: Box, problem: Problem, prices: ReservationPrices) -> bool:
    """Whether less than half of every resource is used, and the tasks may move to something cheaper."""
    if any(task.pinned for task in box.tasks):
        return False
    if len(box.tasks) == 1 and problem.catalogue.types[prices.of(box.tasks[0]).type] is box.type:
        return False
    return all(2 * (q - free) < q for q, free in zip(box.type.capacity, box.free, strict=True) if q > 0)


def _consecutive(waiting: Sequence[Task], most: int, catalogue: Catalogue) -> tuple[int, InstanceType]:
    """The number of next tasks, `most` or as many as a type holds, and the type that scores best for them."""
    size = next(n for n in range(min(most, len(waiting)), 0, -1) if _feasible(waiting[:n], catalogue))
    return size, max(
        _feasible(waiting[:size], catalogue), key=lambda each: _score(waiting[:size], each, catalogue)
    )


def _best_prefix(waiting: Sequence[Task], catalogue: Catalogue) -> tuple[int, InstanceType]:
    """The prefix of the first bin of run time, and the type, that score best; of equals the shorter prefix."""
    first = _run_time_bin(waiting[0].remaining_s)
    best: tuple[float, int, InstanceType] | None = None
    for size in range(1, len(waiting) + 1):
        if _run_time_bin(waiting[size - 1].remaining_s) != first:
            break
        types = _feasible(waiting[:size], catalogue)
        if not types:
            break
        for each in types:
            score = _score(waiting[:size], each, catalogue)
            if best is None or score > best[0]:
                best = (score, size, each)
    assert best is not None  # a task alone fits some type
    return best[1], best[2]


def _feasible(tasks: Sequence[Task], catalogue: Catalogue) -> list[InstanceType]:
    demands = [task.demand for task in tasks]
    return [each for each in catalogue.types if fits(each, demands)]


def _score(tasks: Sequence[Task], type_: InstanceType, catalogue: Catalogue) -> float:
    """Use of the scarcest resource, in machines of the cheapest type that has it, over the price.

    A task's use is multiplied by its speed there, so that it counts per hour of work, not of the machine.
    """
    needed = [(task.demand.on(type_.family) or (0, 0, 0), type_.speed(task.kind)) for task in tasks]

    def share(r: int) -> float:
        return sum(each[r] for each, _ in needed) / type_.capacity[r]

    scarcest = max((r for r in range(3) if type_.capacity[r] > 0), key=share)
    used = sum(each[scarcest] * speed for each, speed in needed)
    base = next(
        catalogue.types[k] for k in catalogue.cheapest_first if catalogue.types[k].capacity[scarcest] > 0
    )
    return used / base.capacity[scarcest] / type_.usd_per_h


def _take_over(new: Sequence[Box], cleared: Sequence[Box]) -> None:
    """Give a cleared machine to a new set of its type with one of its tasks, which then need not move."""
    free = {box.machine: box.type for box in cleared}
    for box in new:
        for task in box.tasks:
            if task.machine is not None and free.get(task.machine) is box.type:
                box.machine = task.machine
                del free[task.machine]
                break
