"""Owl, extended to rent: pairs of tasks with the least interference for their price, never more than two.

Owl knows the true pairwise throughputs. Source: Tian et al. (SoCC'22), as Eva's evaluation extends it (section 6).
"""

from __future__ import annotations

from collections import deque

from betimes.policies.packing.boxes import Box, bins, standing
from betimes.policies.packing.catalogue import fits
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.problem import Problem, Round, Task
from betimes.policies.packing.throughput import Throughput
from betimes.policies.packing.valuation import Group, Valuation, level, valued


class Owl:
    """Each round, tasks that are new or alone are paired anew, best worth over price first; other pairs stay.

    A pair opens a new machine, as released; with `refill` it takes a machine of the right type that one of its tasks
    has alone. Pairs of equal worth over price go by the tasks' order of arrival.
    """

    def __init__(self, known: Throughput, *, refill: bool = False) -> None:
        self.throughput, self.refill = known, refill
        self._best: dict[frozenset[Group], tuple[float, int] | None] = {}
        self._valuation: Valuation | None = None

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        self._valuation = valuation = valued(self._valuation, problem, self.throughput, "none")
        boxes = standing(problem)
        stay = [box for box in boxes if len(box.tasks) > 1 or box.tasks[0].pinned]
        settled = {task.id for box in stay for task in box.tasks}
        pool: dict[int, deque[Task]] = {}
        for task in problem.tasks:
            if task.id not in settled:
                pool.setdefault(valuation.group_of[task.id], deque()).append(task)
        # By first task of the round: group numbers are older than the round.
        groups = [group for group in dict.fromkeys(valuation.group_of.values()) if group in pool]
        for a, b, k in self._pairs(valuation, groups):
            while pool[a] and pool[b] and (a != b or len(pool[a]) > 1):
                pair = [pool[a].popleft(), pool[b].popleft()]
                stay.append(Box(problem.catalogue.types[k], self._machine(pair, k, problem), pair))
        left = {task.id for tasks in pool.values() for task in tasks}
        stay += [_single(task, valuation) for task in problem.tasks if task.id in left]
        return Plan(bins(stay), reason="owl")

    def _pairs(self, valuation: Valuation, groups: list[int]) -> list[tuple[int, int, int]]:
        """Pairs of groups worth more than their machine, with its type's place, the best worth over price first."""
        found: list[tuple[float, int, int, int, int, int]] = []
        for i, a in enumerate(groups):
            for j, b in enumerate(groups[i:]):
                best = self._type(valuation, a, b)
                if best is not None:
                    found.append((-best[0], i, j, a, b, best[1]))
        return [(a, b, k) for *_, a, b, k in sorted(found)]

    def _type(self, valuation: Valuation, a: int, b: int) -> tuple[float, int] | None:
        """The highest worth over price of a pair on one machine, and that machine's type; None if it is at most 1."""
        first, second = valuation.groups[a], valuation.groups[b]
        key = frozenset((first, second))
        if key not in self._best:
            types = valuation.catalogue.types
            pair, best = (min(a, b), max(a, b)), None
            for k in valuation.catalogue.cheapest_first:
                if fits(types[k], (first.demand, second.demand)):
                    worth, usd_per_h = level(valuation.value_of(pair, k)), types[k].usd_per_h
                    # A task alone on its machine scores 1: it is preferred to a pair that scores no more.
                    if worth > level(usd_per_h) and (best is None or worth / usd_per_h > best[0]):
                        best = (worth / usd_per_h, k)
            self._best[key] = best
        return self._best[key]

    def _machine(self, pair: list[Task], k: int, problem: Problem) -> int | None:
        if not self.refill:
            return None
        name = problem.catalogue.types[k].name
        own = (task.machine for task in pair if task.machine is not None)
        return next((machine for machine in own if problem.machine[machine].type == name), None)


def _single(task: Task, valuation: Valuation) -> Box:
    """A task alone: on its machine if that is of its type, else on a new one."""
    problem = valuation.problem
    right = problem.catalogue.types[valuation.groups[valuation.group_of[task.id]].price_type]
    stays = task.machine is not None and problem.machine[task.machine].type == right.name
    return Box(right, task.machine if stays else None, [task])
