"""Filling machines with waiting tasks, one after another: the greedy step that Eva's algorithms share.

The next task has the highest (worth of the machine with the task, whether the task is there already, alignment); among
equals the first to arrive goes first. Source: Eva, Algorithm 1, lines 8 to 14, and as released.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from betimes.policies.packing.problem import Task
from betimes.policies.packing.valuation import Contents, Valuation

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
        for level, alignment, group in contents.candidates:
            if not count[group]:
                continue
            if best is not None and (level < best[0] or (alignment < best[2] and not here)):
                break
            position = self.first(group)
            assert position is not None  # the count is above 0
            mine = next((each for each in here.get(group, ()) if not self._taken[each]), None)
            choice = (level, mine is not None, alignment, -(position if mine is None else mine), group)
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
