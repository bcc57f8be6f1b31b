"""Full and Partial Reconfiguration: all tasks, or new ones and those on machines not worth their price, packed anew.

Source: Eva, Algorithm 1 and section 4.5, and additions of the released code.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from betimes.policies.packing.plan import Bin
from betimes.policies.packing.problem import Machine, Problem, Task
from betimes.policies.packing.valuation import LEVELS, Contents, Valuation, level

DownSizing = Literal["never", "new", "reuse"]
"""Whether a set goes onto the cheapest type that holds it: never (the paper), always onto a new machine (the released
code), or onto a running one if there is one."""

FillRunning = Literal["never", "always", "cost-test"]
"""Whether tasks join those that stay: never (the paper), wherever they fit (the released code), or if the machine's
worth does not fall."""


def full_reconfiguration(
    valuation: Valuation,
    *,
    fill_running: FillRunning = "never",
    down_sizing: DownSizing = "never",
    refill: bool = True,
    beside: Valuation | None = None,
) -> tuple[Bin, ...]:
    """All unpinned tasks packed by Algorithm 1; pinned ones stay.

    Machines with pinned tasks get neighbours first; if running machines are never filled, they keep their neighbours.
    With `refill` a set goes onto a running machine of its type while there is one. `beside` values neighbours of pinned
    tasks, if not `valuation`.
    """
    problem = valuation.problem

    def moves(task: Task) -> bool:
        return not task.pinned and (fill_running != "never" or task.machine not in problem.pinned)

    waiting = Waiting(valuation, (task for task in problem.tasks if moves(task)))
    stays = keep(beside or valuation, problem.pinned, lambda task: not moves(task))
    if fill_running != "never":
        top_up(waiting, stays, fill_running == "cost-test")
    free = [each for each in problem.machines if each.running and each.id not in problem.pinned]
    bins = pack(valuation, waiting, free if refill else (), down_sizing)
    return (*kept_bins(stays), *bins)


def partial_reconfiguration(
    valuation: Valuation,
    *,
    fill_running: FillRunning = "never",
    down_sizing: DownSizing = "never",
    refill: bool = True,
    beside: Valuation | None = None,
    moves: bool = True,
) -> tuple[Bin, ...]:
    """Machines worth their price stay with their tasks, and may get more; Algorithm 1 packs the others' tasks.

    Source: Eva, section 4.5, and as released.

    `beside` values tasks on machines, if not `valuation`; without `moves` all machines with tasks stay, whatever their
    worth; the other arguments are those of full_reconfiguration.
    """
    problem = valuation.problem
    staying = {
        each.id
        for each in problem.machines
        if (_stays(beside or valuation, problem, each) if moves else problem.residents[each.id])
    }
    waiting = Waiting(valuation, (task for task in problem.tasks if task.machine not in staying))
    stays = keep(beside or valuation, staying, lambda _: True)
    if fill_running != "never":
        top_up(waiting, stays, fill_running == "cost-test")
    free = [each for each in problem.machines if each.running and each.id not in staying]
    bins = pack(valuation, waiting, free if refill else (), down_sizing)
    return (*kept_bins(stays), *bins)


def _stays(valuation: Valuation, problem: Problem, machine: Machine) -> bool:
    """Whether a machine has a pinned task, is worth its price, or is of the type that sets its only task's price."""
    tasks = problem.residents[machine.id]
    if machine.id in problem.pinned or not tasks:
        return bool(tasks)
    place = problem.catalogue.place[machine.type]
    if valuation.holding(place, tasks).level >= level(problem.catalogue.types[place].usd_per_h):
        return True
    return len(tasks) == 1 and valuation.groups[valuation.group_of[tasks[0]]].price_type == place


def keep(valuation: Valuation, machines: Iterable[int], stays: Callable[[Task], bool]) -> list[Filled]:
    """These machines (ids), in the order of their renting, with the tasks for which `stays(task)`."""
    wanted, problem = set(machines), valuation.problem
    kept: list[Filled] = []
    for machine in problem.machines:
        if machine.id in wanted:
            tasks = [each for each in problem.residents[machine.id] if stays(problem.task[each])]
            place = valuation.catalogue.place[machine.type]
            kept.append(Filled(machine.id, valuation.holding(place, tasks), tasks))
    return kept


def kept_bins(kept: Iterable[Filled]) -> tuple[Bin, ...]:
    """The bins of machines that stay."""
    return tuple(
        Bin(each.contents.valuation.catalogue.types[each.contents.type].name, tuple(each.tasks), each.machine)
        for each in kept
    )


def pack(
    valuation: Valuation, waiting: Waiting, free: Sequence[Machine], down_sizing: DownSizing
) -> tuple[Bin, ...]:
    """Algorithm 1: sets of waiting tasks on empty machines (`free`), and on new ones.

    The dearest type first; a set must be worth its machine. After each type, tasks whose reservation price it sets and
    that are in no set get a machine each, so that none is left over.
    """
    catalogue = valuation.catalogue
    residents = valuation.problem.residents
    spare: dict[int, list[int]] = {}
    for machine in free:
        spare.setdefault(catalogue.place[machine.type], []).append(machine.id)
    for machines in spare.values():
        machines.sort(key=lambda machine: -len(residents[machine]))
    bins: list[Bin] = []
    at_most = waiting.fitting_usd_per_h()
    for k in catalogue.dearest_first:
        price = level(catalogue.types[k].usd_per_h)
        # A set is worth its tasks' prices at most; the slack is for rounding each to a level.
        while at_most[k] * LEVELS + len(waiting.tasks) >= price:
            own = spare.get(k)
            machine = own[0] if own else None
            added, contents = fill(waiting, valuation.empty(k), machine)
            if not added or not _worth_its_machine(contents, price, k):
                waiting.put_back(added)
                break
            place = contents.cheapest(down_sizing == "new") if down_sizing != "never" else k
            if place != k:
                machine = _first(spare.get(place)) if down_sizing == "reuse" else None
            if machine is not None:
                spare[place].remove(machine)
            tasks = tuple(waiting.tasks[position].id for position in added)
            bins.append(Bin(catalogue.types[place].name, tasks, machine))
            at_most = waiting.fitting_usd_per_h()
        if waiting.has(valuation.priced_by.get(k, ())):
            bins += _alone(valuation, waiting, k, spare.get(k, []))
            at_most = waiting.fitting_usd_per_h()
    return tuple(bins)


def _worth_its_machine(contents: Contents, price: int, k: int) -> bool:
    if contents.level >= price:
        return True
    return len(contents.groups) == 1 and contents.valuation.groups[contents.groups[0]].price_type == k


def _first(machines: list[int] | None) -> int | None:
    return machines[0] if machines else None


def _alone(valuation: Valuation, waiting: Waiting, k: int, spare: list[int]) -> list[Bin]:
    """A machine for each waiting task whose reservation price this type sets: its present one, or a new one."""
    bins: list[Bin] = []
    for position in list(waiting):
        if valuation.groups[waiting.group[position]].price_type != k:
            continue
        task: Task = waiting.tasks[position]
        mine = task.machine if task.machine in spare else None
        if mine is not None:
            spare.remove(mine)
        waiting.take(position)
        bins.append(Bin(valuation.catalogue.types[k].name, (task.id,), mine))
    return bins


# --- filling machines with waiting tasks, one after another: the greedy step that Eva's algorithms share ---
# The next task has the highest (worth of the machine with the task, whether the task is there already, alignment);
# among equals the first to arrive goes first. Source: Eva, Algorithm 1, lines 8 to 14, and as released.

Choice = tuple[int, bool, int, int, int]
"""(level, already there, alignment, minus the task's position, group): the greatest is the next."""


class Waiting:
    """The tasks still to be placed, in the order of arrival, by group."""

    def __init__(self, valuation: Valuation, tasks: Iterable[Task]) -> None:
        self.valuation = valuation
        self.tasks = tuple(tasks)
        self.group = [valuation.group_of[task.id] for task in self.tasks]
        self._queue: list[list[int]] = [[] for _ in valuation.groups]
        self._count = [0] * len(valuation.groups)
        self._rank: list[int] = []  # of each position in its group's queue
        self._head = [0] * len(valuation.groups)
        self._taken = bytearray(len(self.tasks))
        self._here: dict[int, dict[int, list[int]]] = {}
        for position, (task, group) in enumerate(zip(self.tasks, self.group, strict=True)):
            self._rank.append(len(self._queue[group]))
            self._queue[group].append(position)
            self._count[group] += 1
            if task.machine is not None:
                self._here.setdefault(task.machine, {}).setdefault(group, []).append(position)

    def __iter__(self) -> Iterator[int]:
        """The positions of all waiting tasks."""
        return (position for position in range(len(self.tasks)) if not self._taken[position])

    def take(self, position: int) -> None:
        """Mark a task as placed."""
        self._taken[position] = True
        self._count[self.group[position]] -= 1

    def put_back(self, positions: Iterable[int]) -> None:
        """Mark tasks as waiting again."""
        for position in positions:
            self._taken[position] = False
            group = self.group[position]
            self._count[group] += 1
            self._head[group] = min(self._head[group], self._rank[position])

    def fitting_usd_per_h(self) -> list[float]:
        """The sum of the reservation prices of waiting tasks that fit on a machine of the type, by type."""
        return (self.valuation.fitting @ np.array(self._count, np.float64)).tolist()

    def has(self, groups: Iterable[int]) -> bool:
        """Whether a task of one of these groups waits."""
        return any(self._count[group] for group in groups)

    def first(self, group: int) -> int | None:
        """The position of the first waiting task of a group."""
        queue, head = self._queue[group], self._head[group]
        while head < len(queue) and self._taken[queue[head]]:
            head += 1
        self._head[group] = head
        return queue[head] if head < len(queue) else None

    def next_for(self, contents: Contents, machine: int | None) -> Choice | None:
        """The best task to add to a machine (None: a new one), even if the machine's worth falls."""
        here = self._here.get(machine, {}) if machine is not None else {}
        count = self._count
        best: Choice | None = None
        for worth, alignment, group in contents.candidates:
            if not count[group]:
                continue
            if best is not None and (worth < best[0] or (alignment < best[2] and not here)):
                break
            position = self.first(group)
            assert position is not None  # the count is above 0
            mine = next((each for each in here.get(group, ()) if not self._taken[each]), None)
            choice = (worth, mine is not None, alignment, -(position if mine is None else mine), group)
            best = choice if best is None else max(best, choice)
        return best


@dataclass
class Filled:
    """A machine (None: a new one) with its contents and the ids of its tasks."""

    machine: int | None
    contents: Contents
    tasks: list[int] = field(default_factory=list[int])


def fill(waiting: Waiting, contents: Contents, machine: int | None) -> tuple[list[int], Contents]:
    """Add tasks while the machine's worth does not fall; returns their positions and the new contents."""
    added: list[int] = []
    while (choice := waiting.next_for(contents, machine)) is not None and choice[0] >= contents.level:
        waiting.take(-choice[3])
        added.append(-choice[3])
        contents = contents.plus(choice[4], choice[0])
    return added, contents


def top_up(waiting: Waiting, running: list[Filled], cost_test: bool) -> None:
    """Put waiting tasks onto running machines that stay: the best pair of task and machine, until nothing fits.

    With `cost_test` a task is added only if the machine's worth does not fall, as in Algorithm 1; the released code
    adds it in any case. Among equal pairs the earlier task, then the earlier machine, goes first.
    """
    # A machine's best choice only becomes worse as tasks are taken, so a top entry that still holds is the best.
    queue: list[tuple[tuple[int, int, int, int, int], int]] = []

    def push(number: int) -> None:
        filled = running[number]
        choice = waiting.next_for(filled.contents, filled.machine)
        if choice is not None and not (cost_test and choice[0] < filled.contents.level):
            key = (-choice[0], -int(choice[1]), -choice[2], -choice[3], choice[4])
            heapq.heappush(queue, (key, number))

    for number in range(len(running)):
        push(number)
    while queue:
        (*key, group), number = queue[0][0], queue[0][1]
        heapq.heappop(queue)
        filled = running[number]
        choice = waiting.next_for(filled.contents, filled.machine)
        if choice is None:
            continue
        if [-choice[0], -int(choice[1]), -choice[2], -choice[3]] == key:
            waiting.take(-choice[3])
            filled.tasks.append(waiting.tasks[-choice[3]].id)
            filled.contents = filled.contents.plus(group, choice[0])
        push(number)
