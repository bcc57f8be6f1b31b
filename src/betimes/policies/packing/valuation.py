"""What a set of tasks on one machine is worth: the throughput-normalised reservation price (TNRP), for groups of tasks.

Tasks of equal demand and kind, whose jobs weigh the same, are one group: a planner weighs groups, however many tasks
there are. `Contents` is a machine's tasks counted by group, and knows what adding one of each group would make of it;
contents that were weighed once are kept, so that planning costs as much as there are *different* ones.

Values are compared in `levels`, whole multiples of 2**-20 USD an hour (a millionth): sums of the same floats in another
order differ by far less, so that ties are ties and a plan does not depend on the order of a sum. Source: Eva,
section 4.3.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from betimes.policies.packing.catalogue import Amounts, Demand, fits
from betimes.policies.packing.problem import Problem
from betimes.policies.packing.reservation_price import ReservationPrices
from betimes.policies.packing.throughput import Throughput

LEVELS = 2.0**20  # an hour's dollar
_NOWHERE = 2**62  # a demand on a family where a task cannot run

Penalty = Literal["none", "job", "own"]
"""What a task's lost throughput costs: its own share only; that of all its job's tasks (section 4.4 of the paper); or
its own reservation price times the number of tasks, down to nothing (the released code)."""


def level(value: float) -> int:
    """A value in USD an hour as it is compared."""
    return round(value * LEVELS)


@dataclass(frozen=True)
class Group:
    """Tasks that are alike to a planner: reservation price and its type, and their job's price and number of tasks."""

    demand: Demand
    kind: str
    price: float
    price_type: int
    job_price: float
    job_tasks: int

    def weight(self, penalty: Penalty) -> float:
        """What it would cost an hour if a task of it stood still."""
        if penalty == "none" or self.job_tasks == 1:
            return self.price
        return self.job_price if penalty == "job" else self.price * self.job_tasks


class Valuation:
    """The worth of tasks of a problem to its planner. Raises ClusterError where a task fits no type."""

    def __init__(self, problem: Problem, throughput: Throughput, penalty: Penalty = "job") -> None:
        self.problem, self.throughput = problem, throughput
        self.catalogue = problem.catalogue
        self.floor = 0.0 if penalty == "own" else -np.inf
        # The same groups whatever the penalty, so that two valuations of a problem number them alike.
        self.groups, self.group_of = _groups(problem)
        self.kinds = sorted({group.kind for group in self.groups})
        place = {kind: number for number, kind in enumerate(self.kinds)}
        self.kind = np.array([place[group.kind] for group in self.groups], np.int64)
        self.price = np.array([group.price for group in self.groups])
        self.weight = np.array([group.weight(penalty) for group in self.groups])
        self.pairs = np.array([[throughput.pair(kind, other) for other in self.kinds] for kind in self.kinds])
        self._needed: dict[str, NDArray[np.int64]] = {}
        self._known: dict[tuple[int, tuple[int, ...]], Contents] = {}
        self._index(place)

    def _index(self, place: dict[str, int]) -> None:
        """What is recorded beyond pairs, by neighbours, and by neighbours without one of them."""
        self.recorded: dict[tuple[int, ...], dict[int, float]] = {}
        self.completed: dict[tuple[int, tuple[int, ...]], dict[int, float]] = {}
        for kind, others, value in self.throughput.combinations():
            if kind not in place or not all(other in place for other in others):
                continue
            key = tuple(place[other] for other in others)
            self.recorded.setdefault(key, {})[place[kind]] = value
            for last in set(key):
                rest = _without(key, last)
                self.completed.setdefault((place[kind], rest), {})[last] = value

    def needed(self, family: str) -> NDArray[np.int64]:
        """What one task of each group needs on a family (groups, 3); more than any machine has where it cannot run."""
        if family not in self._needed:
            rows = [group.demand.on(family) or (_NOWHERE,) * 3 for group in self.groups]
            self._needed[family] = np.array(rows, np.int64).reshape(-1, 3)
        return self._needed[family]

    def value(self, tasks: Iterable[int]) -> float:
        """TNRP of tasks (their ids) that share a machine, USD an hour."""
        return self._value([self.group_of[task] for task in tasks])

    def empty(self, type: int) -> Contents:  # noqa: A002 - the field's word
        """A machine of the type at this place of the catalogue, without tasks."""
        return self.contents(type, (), 0)

    def holding(self, type: int, tasks: Iterable[int]) -> Contents:  # noqa: A002 - the field's word
        """A machine of the type at this place with these tasks (their ids)."""
        groups = tuple(sorted(self.group_of[task] for task in tasks))
        known = self._known.get((type, groups))
        return known or self.contents(type, groups, level(self._value(groups)))

    def contents(self, type: int, groups: tuple[int, ...], worth: int) -> Contents:  # noqa: A002
        """The one object for a type and sorted groups, whose level is known."""
        known = self._known.get((type, groups))
        if known is None:
            known = self._known[type, groups] = Contents(self, type, groups, worth)
        return known

    def _value(self, groups: Sequence[int]) -> float:
        total = 0.0
        kinds = sorted(self.groups[group].kind for group in groups)
        for group, count in Counter(groups).items():
            each = self.groups[group]
            others = kinds.copy()
            others.remove(each.kind)
            lost = 1.0 - self.throughput.of(each.kind, others)
            total += count * max(self.floor, each.price - lost * float(self.weight[group]))
        return total


class Contents:
    """The tasks on a machine of a type, counted by group: their level, and what one more of each group would make.

    `groups` has a group for each task, sorted. The same contents are the same object.
    """

    __slots__ = ("__dict__", "_next", "groups", "level", "type", "valuation")

    def __init__(self, valuation: Valuation, type: int, groups: tuple[int, ...], worth: int) -> None:  # noqa: A002
        self.valuation, self.type, self.groups, self.level = valuation, type, groups, worth
        self._next: dict[int, Contents] = {}

    def plus(self, group: int, worth: int) -> Contents:
        """The same with one more task of a group, which makes it so worth."""
        known = self._next.get(group)
        if known is None:
            groups = list(self.groups)
            insort(groups, group)
            known = self._next[group] = self.valuation.contents(self.type, tuple(groups), worth)
        return known

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """What each task needs."""
        return tuple(self.valuation.groups[group].demand for group in self.groups)

    @cached_property
    def candidates(self) -> list[tuple[int, int, int]]:
        """Every group of which one more fits: (level with it, alignment, group), best first, equal ones by number.

        Alignment, compared like values, is how well a demand matches what is free, each as a share of the machine.
        """
        valuation = self.valuation
        type_ = valuation.catalogue.types[self.type]
        needed = valuation.needed(type_.family)
        capacity = np.array(type_.capacity, np.int64)
        free = capacity - needed[list(self.groups)].sum(axis=0)
        fitting = np.flatnonzero((needed <= free).all(axis=1))
        if not len(fitting):
            return []
        levels = np.rint(self._values(fitting) * LEVELS).astype(np.int64)
        there = capacity > 0
        size = capacity[there].astype(np.float64)
        shares = (needed[fitting][:, there] / size) * (free[there] / size)
        alignments = np.rint(shares.sum(axis=1) * LEVELS).astype(np.int64)
        order = np.lexsort((fitting, -alignments, -levels))
        return list(
            zip(levels[order].tolist(), alignments[order].tolist(), fitting[order].tolist(), strict=True)
        )

    def adding(self, group: int) -> tuple[int, int] | None:
        """The level and the alignment of one more task of a group; None where it does not fit."""
        return self._adding.get(group)

    @cached_property
    def _adding(self) -> dict[int, tuple[int, int]]:
        return {group: (worth, alignment) for worth, alignment, group in self.candidates}

    def _values(self, candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        """TNRP with one more task of each candidate."""
        valuation, pairs = self.valuation, self.valuation.pairs
        kinds = tuple(sorted(int(valuation.kind[group]) for group in self.groups))
        new = valuation.kind[candidates]
        present, counts = np.unique(np.array(kinds, np.int64), return_counts=True)
        own = (pairs[np.ix_(new, present)] ** counts).prod(axis=1)
        for kind, value in valuation.recorded.get(kinds, {}).items():
            own[new == kind] = value
        worth = self._worth(candidates, own)
        if not kinds:
            return worth
        members, copies = np.unique(self.groups, return_counts=True)
        old = valuation.kind[members]
        neighbours = counts - (old[:, None] == present)
        slowed = (pairs[np.ix_(old, present)] ** neighbours).prod(axis=1)[:, None] * pairs[np.ix_(old, new)]
        if valuation.completed:
            for kind in present.tolist():
                for last, value in valuation.completed.get((kind, _without(kinds, kind)), {}).items():
                    slowed[np.ix_(old == kind, new == last)] = value
        return worth + (copies[:, None] * self._worth(members[:, None], slowed)).sum(axis=0)

    def _worth(self, groups: NDArray[np.int64], throughput: NDArray[np.float64]) -> NDArray[np.float64]:
        valuation = self.valuation
        lost = (1.0 - throughput) * valuation.weight[groups]
        return np.maximum(valuation.floor, valuation.price[groups] - lost)

    def cheapest(self, as_counted: bool) -> int:
        """The place of the cheapest type of any family that holds these tasks; the contents' own if none is cheaper.

        With `as_counted` the type must also hold what they need on this contents' family.
        """
        key = "counted" if as_counted else "needed"
        if key not in self._cheapest:
            self._cheapest[key] = self._cheapest_type(as_counted)
        return self._cheapest[key]

    @cached_property
    def _cheapest(self) -> dict[str, int]:
        return {}

    def _cheapest_type(self, as_counted: bool) -> int:
        types = self.valuation.catalogue.types
        family = types[self.type].family
        total: Amounts | None = None
        if as_counted:
            gpu, cpu, memory = self.valuation.needed(family)[list(self.groups)].sum(axis=0).tolist()
            total = (gpu, cpu, memory)
        for k in self.valuation.catalogue.cheapest_first:
            enough = total is None or all(n <= q for n, q in zip(total, types[k].capacity, strict=True))
            if enough and fits(types[k], self.demands):
                return k
        return self.type


def _groups(problem: Problem) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The groups in the order of their first tasks, and the number of each task's."""
    prices = ReservationPrices(problem.catalogue)
    # Of one-task jobs, which are most: found without making a group.
    alone: dict[tuple[Demand, str], int] = {}
    number: dict[Group, int] = {}
    group_of: dict[int, int] = {}
    for task in problem.tasks:
        siblings = problem.jobs[task.job]
        known = alone.get((task.demand, task.kind)) if len(siblings) == 1 else None
        if known is None:
            own = prices.of(task)
            job_price = prices.total(problem.task[each] for each in siblings)
            group = Group(task.demand, task.kind, own.usd_per_h, own.type, job_price, len(siblings))
            known = number.setdefault(group, len(number))
            if len(siblings) == 1:
                alone[task.demand, task.kind] = known
        group_of[task.id] = known
    return tuple(number), group_of


def _without(kinds: tuple[int, ...], kind: int) -> tuple[int, ...]:
    place = kinds.index(kind)
    return kinds[:place] + kinds[place + 1 :]
