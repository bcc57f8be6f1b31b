"""Consolidation as operators know it from Karpenter: new tasks are packed first-fit, and each round makes one change.

Machines are given back if the others have room for their tasks, alone or together with one cheaper machine: cheaper per
work, if machines run the tasks at different speeds. The planner ignores interference and the cost of moves; machines
with the fewest tasks are tried first.
Source: Karpenter (kubernetes-sigs/karpenter), `pkg/controllers/provisioning/scheduling` and `disruption`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from betimes.policies.packing.catalogue import Catalogue, fits
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.planners.boxes import Box, bins, standing
from betimes.policies.packing.problem import Round, Task
from betimes.policies.packing.reservation_price import ReservationPrices
from betimes.policies.packing.valuation import level

MOST_MACHINES = 100  # limit of machines that one change gives back


class Consolidation:
    """First-fit for new tasks, largest first; then one change: several machines, or one, for at most one.

    Pinned tasks keep their machines. With `keep_running`, as Karpenter does it, a machine is drained when its
    replacement is up.
    """

    def __init__(self, *, keep_running: bool = True) -> None:
        self.keep_running = keep_running

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        catalogue = problem.catalogue
        prices = ReservationPrices(catalogue)
        for task in problem.tasks:
            prices.of(task)
        boxes = standing(problem)
        new = _first_fit([task for task in problem.tasks if task.machine is None], boxes, catalogue)
        boxes += [_right_sized(box, prices) for box in new]
        changed = _consolidated(boxes, prices)
        return Plan(bins(boxes if changed is None else changed), self.keep_running, "consolidation")


def _first_fit(tasks: Iterable[Task], boxes: Sequence[Box], catalogue: Catalogue) -> list[Box]:
    """Put tasks, the largest first, into the first machine with room; returns the new machines.

    A new one is of the largest type that its first task may use, until its tasks are known.
    """
    new: list[Box] = []
    for task in sorted(tasks, key=_size):
        box = next((each for each in (*boxes, *new) if each.fits(task)), None)
        if box is None:
            largest = next(k for k in catalogue.dearest_first if fits(catalogue.types[k], [task.demand]))
            box = Box(catalogue.types[largest])
            new.append(box)
        box.add(task)
    return new


def _size(task: Task) -> tuple[float, ...]:
    """Sort key of tasks: GPUs, cores and memory, each the largest demand on any family."""
    demand = task.demand
    families = [each for _, each in demand.by_family] + ([demand.everywhere] if demand.everywhere else [])
    return tuple(-max(each[r] for each in families) for r in range(3))


def _right_sized(box: Box, prices: ReservationPrices) -> Box:
    """The same tasks on a new machine of the type that holds them at the lowest cost of work."""
    k = prices.cheapest_holding(box.tasks)
    assert k is not None  # the box's type holds them
    return Box(prices.catalogue.types[k], None, list(box.tasks))


def _consolidated(boxes: Sequence[Box], prices: ReservationPrices) -> list[Box] | None:
    """The machines after the first change that saves, of several machines at once, then of one; None: there is none."""
    free = [box for box in boxes if box.machine is not None and not any(task.pinned for task in box.tasks)]
    candidates = sorted(free, key=lambda box: len(box.tasks))
    best: list[Box] | None = None
    low, high = 2, min(len(candidates), MOST_MACHINES)
    while low <= high:
        middle = (low + high) // 2
        changed = _without(candidates[:middle], boxes, prices)
        if changed is None:
            high = middle - 1
        else:
            best, low = changed, middle + 1
    if best is not None:
        return best
    changes = (_without([box], boxes, prices) for box in candidates)
    return next((changed for changed in changes if changed is not None), None)


def _without(leaving: Sequence[Box], boxes: Sequence[Box], prices: ReservationPrices) -> list[Box] | None:
    """The machines with the tasks of `leaving` on the others and at most one new one; None if that saves nothing."""
    gone = {id(box) for box in leaving}
    others = [Box(box.type, box.machine, list(box.tasks)) for box in boxes if id(box) not in gone]
    new = _first_fit((task for box in leaving for task in box.tasks), others, prices.catalogue)
    if len(new) > 1:
        return None
    new = [_right_sized(box, prices) for box in new]
    if any(box.type is old.type for box in new for old in leaving):
        return None  # better keep that machine and give back the others only
    moved = {task.id for box in leaving for task in box.tasks}
    arrived = [([task for task in box.tasks if task.id in moved], box.type) for box in (*others, *new)]
    gained = sum(prices.work_usd_per_h(tasks, type_) for tasks, type_ in arrived)
    gained -= sum(prices.work_usd_per_h(box.tasks, box.type) for box in leaving)
    saved = sum(box.type.usd_per_h for box in leaving) - sum(box.type.usd_per_h for box in new)
    return [*others, *new] if level(saved + gained) > 0 else None
