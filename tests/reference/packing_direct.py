"""Eva's algorithms task by task, straight from the specification: slow, obvious, and without groups or memory.

Values and alignments are compared in the same levels as in Betimes, so that the order of a sum decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from betimes.policies.packing.catalogue import Catalogue, InstanceType
from betimes.policies.packing.plan import Bin
from betimes.policies.packing.problem import Machine, Problem, Task
from betimes.policies.packing.throughput import Throughput

LEVELS = 2**20


def level(value: float) -> int:
    return round(value * LEVELS)


def holds(type_: InstanceType, tasks: Sequence[Task]) -> bool:
    needs = [task.demand.on(type_.family) for task in tasks]
    return all(need is not None for need in needs) and all(
        sum(need[r] for need in needs if need is not None) <= type_.capacity[r] for r in range(3)
    )


def price_type(catalogue: Catalogue, task: Task) -> InstanceType:
    return min((each for each in catalogue.types if holds(each, [task])), key=lambda each: each.usd_per_h)


@dataclass
class Direct:
    """One problem under one penalty: `none`, `job` or `own`."""

    problem: Problem
    throughput: Throughput
    penalty: str
    prices: dict[int, float] = field(default_factory=dict)  # of each task, looked up once

    def price(self, task: Task) -> float:
        if task.id not in self.prices:
            self.prices[task.id] = price_type(self.problem.catalogue, task).usd_per_h
        return self.prices[task.id]

    def worth(self, task: Task, others: Sequence[Task]) -> float:
        tput = self.throughput.of(task.kind, [other.kind for other in others])
        siblings = [self.problem.task[each] for each in self.problem.jobs[task.job]]
        if self.penalty == "none" or len(siblings) == 1:
            return tput * self.price(task)
        if self.penalty == "own":
            return self.price(task) * max(0.0, 1 - len(siblings) * (1 - tput))
        return self.price(task) - (1 - tput) * sum(self.price(each) for each in siblings)

    def level(self, tasks: Sequence[Task]) -> int:
        return level(sum(self.worth(task, [o for o in tasks if o is not task]) for task in tasks))

    def alignment(self, task: Task, type_: InstanceType, tasks: Sequence[Task]) -> int:
        need = task.demand.on(type_.family)
        assert need is not None
        free = list(type_.capacity)
        for each in tasks:
            for r, amount in enumerate(each.demand.on(type_.family) or ()):
                free[r] -= amount
        return level(sum(need[r] / q * (free[r] / q) for r, q in enumerate(type_.capacity) if q > 0))

    def best(
        self, remaining: Iterable[Task], type_: InstanceType, tasks: Sequence[Task], machine: int | None
    ) -> tuple[tuple[int, bool, int], Task] | None:
        """Strictly greater only: of equal tasks the first in the list."""
        best = None
        for task in remaining:
            if holds(type_, [*tasks, task]):
                here = machine is not None and task.machine == machine
                key = (self.level([*tasks, task]), here, self.alignment(task, type_, tasks))
                if best is None or key > best[0]:
                    best = (key, task)
        return best


@dataclass
class Placed:
    type: InstanceType
    machine: int | None
    tasks: list[Task] = field(default_factory=list)


def full(
    problem: Problem,
    throughput: Throughput,
    *,
    penalty: str,
    beside: str,
    fill_running: str,
    down_sizing: str,
    refill: bool = True,
) -> list[Bin]:
    pinned = {task.machine for task in problem.tasks if task.pinned}
    stays = [t for t in problem.tasks if t.pinned or (fill_running == "never" and t.machine in pinned)]
    kept = [
        Placed(problem.catalogue.named(m.type), m.id, [t for t in stays if t.machine == m.id])
        for m in problem.machines
        if m.id in pinned
    ]
    remaining = [task for task in problem.tasks if task not in stays]
    if fill_running != "never":
        top_up(Direct(problem, throughput, beside), kept, remaining, fill_running == "cost-test")
    free = [m for m in problem.machines if m.running and m.id not in pinned]
    new = algorithm_1(Direct(problem, throughput, penalty), remaining, free if refill else [], down_sizing)
    return [
        Bin(each.type.name, tuple(task.id for task in each.tasks), each.machine) for each in [*kept, *new]
    ]


def partial(
    problem: Problem,
    throughput: Throughput,
    *,
    penalty: str,
    beside: str,
    fill_running: str,
    down_sizing: str,
    refill: bool = True,
) -> list[Bin]:
    on = {m.id: [t for t in problem.tasks if t.machine == m.id] for m in problem.machines}
    value = Direct(problem, throughput, beside)

    def stays(machine: Machine) -> bool:
        tasks, type_ = on[machine.id], problem.catalogue.named(machine.type)
        if not tasks:
            return False
        alone = len(tasks) == 1 and price_type(problem.catalogue, tasks[0]) is type_
        return alone or any(t.pinned for t in tasks) or value.level(tasks) >= level(type_.usd_per_h)

    kept = [Placed(problem.catalogue.named(m.type), m.id, on[m.id]) for m in problem.machines if stays(m)]
    staying = {each.machine for each in kept}
    remaining = [task for task in problem.tasks if task.machine is None or task.machine not in staying]
    if fill_running != "never":
        top_up(value, kept, remaining, fill_running == "cost-test")
    free = [m for m in problem.machines if m.running and m.id not in staying]
    new = algorithm_1(Direct(problem, throughput, penalty), remaining, free if refill else [], down_sizing)
    return [
        Bin(each.type.name, tuple(task.id for task in each.tasks), each.machine) for each in [*kept, *new]
    ]


def top_up(value: Direct, kept: list[Placed], remaining: list[Task], cost_test: bool) -> None:
    while True:
        best = None
        for task in remaining:
            for place in kept:
                if not holds(place.type, [*place.tasks, task]):
                    continue
                worth = value.level([*place.tasks, task])
                if cost_test and worth < value.level(place.tasks):
                    continue
                here = task.machine is not None and task.machine == place.machine
                key = (worth, here, value.alignment(task, place.type, place.tasks))
                if best is None or key > best[0]:
                    best = (key, task, place)
        if best is None:
            return
        best[2].tasks.append(best[1])
        remaining.remove(best[1])


def algorithm_1(value: Direct, remaining: list[Task], free: list[Machine], down_sizing: str) -> list[Placed]:
    catalogue = value.problem.catalogue
    committed: Callable[[Machine], int] = lambda m: sum(t.machine == m.id for t in value.problem.tasks)  # noqa: E731
    free = list(free)
    opened: list[Placed] = []
    for type_ in sorted(catalogue.types, key=lambda each: -each.usd_per_h):
        while True:
            same = [m for m in free if m.type == type_.name]
            machine = max(same, key=committed) if same else None
            tasks: list[Task] = []
            while True:
                left = [task for task in remaining if task not in tasks]
                best = value.best(left, type_, tasks, machine.id if machine else None)
                if best is None or best[0][0] < value.level(tasks):
                    break
                tasks.append(best[1])
            worth = tasks and value.level(tasks) >= level(type_.usd_per_h)
            only = len(tasks) == 1 and price_type(catalogue, tasks[0]) is type_
            if not (worth or only):
                break
            smaller = type_
            if down_sizing != "never":
                smaller = min(
                    (each for each in catalogue.types if smaller_holds(each, type_, tasks, down_sizing)),
                    key=lambda each: each.usd_per_h,
                )
            if smaller is not type_:
                same = [m for m in free if m.type == smaller.name] if down_sizing == "reuse" else []
                machine = max(same, key=committed) if same else None
            if machine is not None:
                free.remove(machine)
            opened.append(Placed(smaller, machine.id if machine else None, tasks))
            for task in tasks:
                remaining.remove(task)
        for task in list(remaining):
            if price_type(catalogue, task) is type_:
                mine = next((m for m in free if m.id == task.machine and m.type == type_.name), None)
                if mine is not None:
                    free.remove(mine)
                opened.append(Placed(type_, mine.id if mine else None, [task]))
                remaining.remove(task)
    return opened


def smaller_holds(
    each: InstanceType, full_type: InstanceType, tasks: Sequence[Task], down_sizing: str
) -> bool:
    counted = [task.demand.on(full_type.family) or (0, 0, 0) for task in tasks]
    enough = all(sum(need[r] for need in counted) <= each.capacity[r] for r in range(3))
    return holds(each, tasks) and (enough or down_sizing == "reuse")
