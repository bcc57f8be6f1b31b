"""Machines that simple planners fill one task after another; and the simplest planner: a machine for each task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from betimes.cluster.resources import PER_UNIT
from betimes.policies.packing.catalogue import Amounts, InstanceType
from betimes.policies.packing.plan import Bin, Plan
from betimes.policies.packing.problem import Problem, Round, Task
from betimes.policies.packing.reservation_price import ReservationPrices


@dataclass
class Box:
    """A machine (None: a new one) of a type, with its tasks."""

    type: InstanceType
    machine: int | None = None
    tasks: list[Task] = field(default_factory=list[Task])

    def __post_init__(self) -> None:
        self.free: Amounts = self.type.capacity
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            self.add(task)

    def fits(self, task: Task) -> bool:
        """Whether a task may run here and there is room for it."""
        needed = task.demand.on(self.type.family)
        return needed is not None and all(n <= q for n, q in zip(needed, self.free, strict=True))

    def add(self, task: Task) -> None:
        """Add a task, which must be able to run on this family."""
        needed = task.demand.on(self.type.family)
        assert needed is not None
        gpu, cpu, memory = self.free
        self.free = (gpu - needed[0], cpu - needed[1], memory - needed[2])
        self.tasks.append(task)

    @property
    def free_units(self) -> float:
        """The sum of free GPUs, cores and GiB."""
        return sum(amount / unit for amount, unit in zip(self.free, PER_UNIT, strict=True))

    @property
    def bin(self) -> Bin:
        """The bin of a plan."""
        return Bin(self.type.name, tuple(task.id for task in self.tasks), self.machine)


def standing(problem: Problem) -> list[Box]:
    """The machines with tasks, unchanged."""
    return [
        Box(
            problem.catalogue.named(each.type),
            each.id,
            [problem.task[task] for task in problem.residents[each.id]],
        )
        for each in problem.machines
        if problem.residents[each.id]
    ]


def bins(boxes: Iterable[Box]) -> tuple[Bin, ...]:
    """The bins of all boxes with tasks."""
    return tuple(box.bin for box in boxes if box.tasks)


class NoPacking:
    """A new machine of the cheapest type that holds it for each task without one."""

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        prices = ReservationPrices(problem.catalogue)
        new = [
            Box(problem.catalogue.types[prices.of(task).type], None, [task])
            for task in problem.tasks
            if task.machine is None
        ]
        return Plan(bins([*standing(problem), *new]), reason="no-packing")
