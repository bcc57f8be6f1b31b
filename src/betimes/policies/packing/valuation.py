"""The worth of a set of tasks on one machine: the throughput-normalised reservation price (TNRP), by groups of tasks.

Tasks of equal demand and kind, whose jobs weigh the same, are one group: a planner weighs groups, however many tasks
there are. `Contents` is a machine's tasks counted by group, with the worth after adding one task of each group;
contents are kept once weighed, so that the cost of planning grows with the number of *different* ones.

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
from betimes.policies.packing.problem import Problem, Task
from betimes.policies.packing.reservation_price import ReservationPrices
from betimes.policies.packing.throughput import Entry, Throughput
from betimes.policies.packing.weighing import weigh

LEVELS = 2.0**20  # levels of one USD an hour
_MOST_CONTENTS = 5000  # kept contents, some 10 KiB each
_MOST_GROUPS = 1000  # kept groups, beyond twice the number of tasks
_NONE: NDArray[np.float64] = np.zeros(0)
_NO_TABLE: NDArray[np.float64] = np.zeros((0, 0))
_NOWHERE = 2**62  # a demand on a family where a task cannot run

Penalty = Literal["none", "job", "own"]
"""The cost of a task's lost throughput: its own share only; that of all its job's tasks (section 4.4 of the paper); or
its own reservation price times the number of tasks, down to nothing (the released code)."""


def level(value: float) -> int:
    """A value in USD an hour as a whole number of levels."""
    return round(value * LEVELS)


@dataclass(frozen=True)
class Group:
    """Tasks that a planner treats alike: reservation price and its type, and their job's price and number of tasks.

    Prices are those of an hour of work at speed 1.
    """

    demand: Demand
    kind: str
    price: float
    price_type: int
    job_price: float
    job_tasks: int

    def weight(self, penalty: Penalty) -> float:
        """The cost of an hour in which a task of the group stands still, on a machine of speed 1."""
        if penalty == "none" or self.job_tasks == 1:
            return self.price
        return self.job_price if penalty == "job" else self.price * self.job_tasks


class Valuation:
    """The worth of tasks to a planner. Weighed contents are kept from round to round, until their inputs change.

    `turn_to` brings the next round's problem, which must have the same catalogue. Raises ClusterError if a task fits no
    type.
    """

    def __init__(self, problem: Problem, throughput: Throughput, penalty: Penalty = "job") -> None:
        self.throughput = throughput
        self.penalty: Penalty = penalty
        self.catalogue = problem.catalogue
        self.floor = 0.0 if penalty == "own" else -np.inf
        # Types with the same speeds share a number.
        numbers: dict[tuple[tuple[str, float], ...], int] = {}
        self.hardware = [numbers.setdefault(each.speeds, len(numbers)) for each in problem.catalogue.types]
        self.is_uniform = len(numbers) == 1
        self._prices = ReservationPrices(problem.catalogue)
        self._start()
        self.turn_to(problem)

    def _start(self) -> None:
        self.groups: list[Group] = []
        self.kinds: list[str] = []
        self._number: dict[Group, int] = {}
        self._kind_number: dict[str, int] = {}
        self._known: dict[tuple[int, tuple[int, ...]], Contents] = {}
        self._of_kinds: dict[tuple[int, ...], list[Contents]] = {}
        self._with_kind: dict[int, set[tuple[int, ...]]] = {}
        self._values: dict[tuple[int, tuple[int, ...]], float] = {}
        self._grouped_as: dict[int, tuple[Task, tuple[int, ...], int]] = {}

    def turn_to(self, problem: Problem, changed: Iterable[Entry] = ()) -> None:
        """Value the tasks of another round, after these entries of the throughput table have changed."""
        if len(self._known) > _MOST_CONTENTS or len(self.groups) > _MOST_GROUPS + 2 * len(problem.tasks):
            self._start()
        for kind, others in changed:
            self._forget(kind, others)
            self._values.clear()
        self.problem = problem
        # Groups do not depend on the penalty, so that two valuations of the same rounds number them alike.
        before = len(self.groups)
        self.group_of = self._grouped(problem)
        if len(self.groups) > before or before == 0:
            self._take_groups()

    def _grouped(self, problem: Problem) -> dict[int, int]:
        """The number of each task's group; a new group gets the next number."""
        # Most tasks were in the round before, as part of the same job.
        before, now = self._grouped_as, dict[int, tuple[Task, tuple[int, ...], int]]()
        group_of: dict[int, int] = {}
        for task in problem.tasks:
            siblings = problem.jobs[task.job]
            known = before.get(task.id)
            if known is None or len(siblings) > 1 or not _alike(known[0], task) or known[1] != siblings:
                own = self._prices.of(task)
                job_price = self._prices.total(problem.task[each] for each in siblings)
                group = Group(task.demand, task.kind, own.usd_per_h, own.type, job_price, len(siblings))
                number = self._number.setdefault(group, len(self.groups))
                if number == len(self.groups):
                    self.groups.append(group)
                known = (task, siblings, number)
            now[task.id] = known
            group_of[task.id] = known[2]
        self._grouped_as = now
        return group_of

    def _take_groups(self) -> None:
        """Fill the columns of all groups, and the recorded throughputs of their kinds."""
        kinds = len(self.kinds)
        for group in self.groups:
            if group.kind not in self._kind_number:
                self._kind_number[group.kind] = len(self.kinds)
                self.kinds.append(group.kind)
        self.kind = np.array([self._kind_number[group.kind] for group in self.groups], np.int64)
        self._worth_on: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self.found = np.zeros((len(self.groups), 3), np.int64)
        self.worth = np.zeros((len(self.groups), 2))
        self._needed: dict[str, NDArray[np.int64]] = {}
        self._fitting: NDArray[np.float64] | None = None
        self.priced_by: dict[int, list[int]] = {}
        for number, group in enumerate(self.groups):
            self.priced_by.setdefault(group.price_type, []).append(number)
        if len(self.kinds) > kinds or kinds == 0:
            pair = self.throughput.pair
            rows = [[pair(kind, other) for other in self.kinds] for kind in self.kinds]
            self.pairs = np.array(rows, np.float64).reshape(len(rows), len(rows))
            self._index()

    def _index(self) -> None:
        """Index throughputs recorded beyond pairs, by neighbours, and by neighbours without one of them."""
        self.recorded: dict[tuple[int, ...], dict[int, float]] = {}
        self.completed: dict[tuple[int, tuple[int, ...]], dict[int, float]] = {}
        for kind, others, value in self.throughput.combinations():
            self._record(kind, others, value)

    def _record(self, kind: str, others: Sequence[str], value: float) -> None:
        place = self._kind_number
        if kind not in place or not all(other in place for other in others):
            return
        key = tuple(sorted(place[other] for other in others))
        self.recorded.setdefault(key, {})[place[kind]] = value
        for last in set(key):
            rest = _without(key, last)
            self.completed.setdefault((place[kind], rest), {})[last] = value

    def _forget(self, kind: str, others: Sequence[str]) -> None:
        """Take in a changed entry, and drop contents that depend on it, with their tasks or with one more."""
        place = self._kind_number
        if kind not in place or not all(other in place for other in others):
            return
        value = self.throughput.of(kind, others)
        if len(others) == 1:
            first, second = place[kind], place[others[0]]
            self.pairs[first, second] = value
            stale = self._with_kind.get(first, set()) | self._with_kind.get(second, set())
        else:
            self._record(kind, others, value)
            whole = tuple(sorted((place[kind], *(place[other] for other in others))))
            stale = {whole, *(_without(whole, each) for each in whole)}
        for kinds in stale & self._of_kinds.keys():
            for contents in self._of_kinds.pop(kinds):
                contents.stale = True
                del self._known[contents.type, contents.groups]
            for each in set(kinds):
                self._with_kind[each].discard(kinds)

    def needed(self, family: str) -> NDArray[np.int64]:
        """(groups, 3) the demand of a task on a family; more than any machine has if the task cannot run there."""
        if family not in self._needed:
            rows = [group.demand.on(family) or (_NOWHERE,) * 3 for group in self.groups]
            self._needed[family] = np.array(rows, np.int64).reshape(-1, 3)
        return self._needed[family]

    @property
    def fitting(self) -> NDArray[np.float64]:
        """(types, groups) the worth of a task's work on each type that holds it, 0 on others."""
        if self._fitting is None:
            types = self.catalogue.types
            fit = [
                (self.needed(each.family) <= np.array(each.capacity, np.int64)).all(axis=1) for each in types
            ]
            worth = [self.worth_on(k)[0] for k in range(len(types))]
            self._fitting = np.where(np.array(fit), np.array(worth), 0.0)
        return self._fitting

    def worth_on(self, type: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # noqa: A002
        """By group the worth of a task's work an hour on machines of a type, and the weight of its loss there.

        These are its price and its weight, times its speed there.
        """
        number = self.hardware[type]
        if number not in self._worth_on:
            speed = [self.catalogue.types[type].speed(group.kind) for group in self.groups]
            price = np.array([group.price for group in self.groups])
            weight = np.array([group.weight(self.penalty) for group in self.groups])
            self._worth_on[number] = price * speed, weight * speed
        return self._worth_on[number]

    def value(self, tasks: Iterable[int], type: int) -> float:  # noqa: A002 - the field's word
        """TNRP of tasks (their ids) that share a machine of the type of this index, USD an hour."""
        return self.value_of(tuple(sorted(self.group_of[task] for task in tasks)), type)

    def value_of(self, groups: tuple[int, ...], type: int) -> float:  # noqa: A002 - the field's word
        """TNRP of tasks of these groups, sorted."""
        key = (self.hardware[type], groups)
        if key not in self._values:
            self._values[key] = self._value(groups, type)
        return self._values[key]

    def empty(self, type: int) -> Contents:  # noqa: A002 - the field's word
        """A machine of the type of this index in the catalogue, without tasks."""
        return self.contents(type, (), 0)

    def holding(self, type: int, tasks: Iterable[int]) -> Contents:  # noqa: A002 - the field's word
        """A machine of the type of this index with these tasks (their ids)."""
        groups = tuple(sorted(self.group_of[task] for task in tasks))
        known = self._known.get((type, groups))
        return known or self.contents(type, groups, level(self._value(groups, type)))

    def contents(self, type: int, groups: tuple[int, ...], worth: int) -> Contents:  # noqa: A002
        """The one object for a type and sorted groups, with the known level `worth`."""
        known = self._known.get((type, groups))
        if known is None:
            known = self._known[type, groups] = Contents(self, type, groups, worth)
            self._of_kinds.setdefault(known.kinds, []).append(known)
            for kind in set(known.kinds):
                self._with_kind.setdefault(kind, set()).add(known.kinds)
        return known

    def _value(self, groups: Sequence[int], type: int) -> float:  # noqa: A002 - the field's word
        total = 0.0
        price, weight = self.worth_on(type)
        kinds = sorted(self.groups[group].kind for group in groups)
        for group, count in Counter(groups).items():
            each = self.groups[group]
            others = kinds.copy()
            others.remove(each.kind)
            lost = 1.0 - self.throughput.of(each.kind, others)
            total += count * max(self.floor, float(price[group]) - lost * float(weight[group]))
        return total


def _alike(one: Task, other: Task) -> bool:
    return one.kind == other.kind and (one.demand is other.demand or one.demand == other.demand)


def valued(
    before: Valuation | None,
    problem: Problem,
    throughput: Throughput,
    penalty: Penalty = "job",
    changed: Iterable[Entry] = (),
) -> Valuation:
    """The valuation of a round's problem: that of the round before, after these entries of the table have changed."""
    if before is None or before.catalogue != problem.catalogue:
        return Valuation(problem, throughput, penalty)
    before.turn_to(problem, changed)
    return before


class Contents:
    """The tasks on a machine of a type, counted by group: their level, and that with one more task of each group.

    `groups` has a group for each task, sorted. The same contents are the same object.
    """

    __slots__ = (
        "__dict__",
        "_adding",
        "_candidates",
        "_cheapest",
        "_next",
        "_weighed",
        "groups",
        "kinds",
        "level",
        "stale",
        "type",
        "valuation",
    )

    def __init__(self, valuation: Valuation, type: int, groups: tuple[int, ...], worth: int) -> None:  # noqa: A002
        self.valuation, self.type, self.groups, self.level = valuation, type, groups, worth
        self.kinds = tuple(sorted(valuation.kind[list(groups)].tolist()))
        self.stale = False  # whether a throughput that the level depends on has changed
        self._next: dict[int, Contents] = {}
        self._cheapest: dict[bool, int] = {}
        self._weighed = 0  # the number of groups weighed as candidates
        self._candidates: list[tuple[int, int, int]] = []
        self._adding: dict[int, tuple[int, int]] | None = None

    def plus(self, group: int, worth: int) -> Contents:
        """The contents with one more task of a group, whose level is then `worth`."""
        known = self._next.get(group)
        if known is None or known.stale:
            groups = list(self.groups)
            insort(groups, group)
            known = self._next[group] = self.valuation.contents(self.type, tuple(groups), worth)
        return known

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """The demand of each task."""
        return tuple(self.valuation.groups[group].demand for group in self.groups)

    def _costs_no_more(self, other: int) -> bool:
        """Whether a unit of work of these tasks costs no more on a machine of another type."""
        if self.valuation.is_uniform:
            return True
        types, value = self.valuation.catalogue.types, self.valuation.value_of
        here, there = value(self.groups, self.type), value(self.groups, other)
        return level(there * types[self.type].usd_per_h) >= level(here * types[other].usd_per_h)

    @property
    def candidates(self) -> list[tuple[int, int, int]]:
        """Every group with room for one more task: (level with it, alignment, group), best first, equal ones by number.

        Alignment, compared like values, is the match of a demand and the free resources, as shares of the machine.
        """
        count = len(self.valuation.groups)
        if self._weighed < count:
            new = self._weigh(self._weighed)
            if new:
                known = self._candidates
                self._candidates = sorted((*known, *new), key=_best_first) if known else new
                self._adding = None
            self._weighed = count
        return self._candidates

    def _weigh(self, first: int) -> list[tuple[int, int, int]]:
        """The candidates among the groups from `first` on, best first."""
        valuation = self.valuation
        type_ = valuation.catalogue.types[self.type]
        price, weight = valuation.worth_on(self.type)
        own, slowed = self._recorded()
        count = weigh(
            valuation.needed(type_.family),
            np.array(type_.capacity, np.int64),
            valuation.kind,
            price,
            weight,
            valuation.pairs,
            np.array(self.groups, np.int64),
            np.array(self.kinds, np.int64),
            own,
            slowed,
            valuation.floor,
            LEVELS,
            first,
            valuation.found,
            valuation.worth,
        )
        found = [(worth, alignment, group) for group, worth, alignment in valuation.found[:count].tolist()]
        found.sort(key=_best_first)
        return found

    def _recorded(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Recorded throughputs: by kind next to these tasks, and by two kinds that of one of these tasks next to the
        others and one more task. NaN where nothing is recorded; empty if nothing is at all.
        """
        valuation, kinds = self.valuation, self.kinds
        own, slowed = _NONE, _NO_TABLE
        if known := valuation.recorded.get(kinds):
            own = np.full(len(valuation.kinds), np.nan)
            own[list(known)] = list(known.values())
        if valuation.completed:
            for kind in set(kinds):
                if known := valuation.completed.get((kind, _without(kinds, kind))):
                    if slowed is _NO_TABLE:
                        slowed = np.full((len(valuation.kinds),) * 2, np.nan)
                    slowed[kind, list(known)] = list(known.values())
        return own, slowed

    def adding(self, group: int) -> tuple[int, int] | None:
        """The level and the alignment of one more task of a group; None if it does not fit."""
        candidates = self.candidates
        if self._adding is None:
            self._adding = {each: (worth, alignment) for worth, alignment, each in candidates}
        return self._adding.get(group)

    def cheapest(self, as_counted: bool) -> int:
        """Index of the cheapest type of any family that holds these tasks; the contents' type if none is cheaper.

        If types run the tasks at different speeds, only types on which their work costs no more count. With
        `as_counted` the type must also hold the tasks' demand on this family.
        """
        if as_counted not in self._cheapest:
            self._cheapest[as_counted] = self._cheapest_type(as_counted)
        return self._cheapest[as_counted]

    def _cheapest_type(self, as_counted: bool) -> int:
        types = self.valuation.catalogue.types
        family = types[self.type].family
        total: Amounts | None = None
        if as_counted:
            gpu, cpu, memory = self.valuation.needed(family)[list(self.groups)].sum(axis=0).tolist()
            total = (gpu, cpu, memory)
        for k in self.valuation.catalogue.cheapest_first:
            enough = total is None or all(n <= q for n, q in zip(total, types[k].capacity, strict=True))
            if enough and fits(types[k], self.demands) and self._costs_no_more(k):
                return k
        return self.type


def _best_first(candidate: tuple[int, int, int]) -> tuple[int, int, int]:
    worth, alignment, group = candidate
    return -worth, -alignment, group


def _without(kinds: tuple[int, ...], kind: int) -> tuple[int, ...]:
    place = kinds.index(kind)
    return kinds[:place] + kinds[place + 1 :]
