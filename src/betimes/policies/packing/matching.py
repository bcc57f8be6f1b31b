"""Assignment of running machines to planned bins with the fewest moves.

Tasks of one group are interchangeable, so bins first count groups only; each is assigned to a machine of its type such
that as many tasks as possible stay where they are, and as many machines as possible are used again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from betimes.policies.packing.plan import Bin
from betimes.policies.packing.problem import Machine
from betimes.policies.packing.valuation import Valuation


def match(bins: Sequence[Bin], free: Iterable[Machine], valuation: Valuation) -> tuple[Bin, ...]:
    """The bins with distinct machines from `free`, and tasks exchanged within their groups so that most stay.

    The bins have no machines yet. Their tasks, counted by group, and their cost do not change.
    """
    if not bins:
        return ()
    problem = valuation.problem
    group = valuation.group_of
    packed = {task for each in bins for task in each.tasks}
    wanted = [Counter(group[task] for task in each.tasks) for each in bins]
    held: dict[int, dict[int, list[int]]] = {}
    by_type: dict[str, list[int]] = {}
    for machine in free:
        tasks = held[machine.id] = {}
        for task in problem.residents[machine.id]:
            if task in packed:
                tasks.setdefault(group[task], []).append(task)
        by_type.setdefault(machine.type, []).append(machine.id)
    matched: dict[int, int] = {}
    for type_name, machines in by_type.items():
        numbers = [number for number, each in enumerate(bins) if each.type == type_name]
        here = [{g: len(tasks) for g, tasks in held[machine].items()} for machine in machines]
        for row, column in _assignment([wanted[n] for n in numbers], here):
            matched[numbers[row]] = machines[column]
    staying = [
        {g: held[matched[number]].get(g, [])[:count] for g, count in wanted[number].items()}
        if number in matched
        else {}
        for number in range(len(bins))
    ]
    settled = {task for each in staying for tasks in each.values() for task in tasks}
    order = {task.id: position for position, task in enumerate(problem.tasks)}
    others: dict[int, deque[int]] = {}
    for task in sorted(packed - settled, key=order.__getitem__):
        others.setdefault(group[task], deque()).append(task)
    result: list[Bin] = []
    for number, each in enumerate(bins):
        tasks = [task for stays in staying[number].values() for task in stays]
        for g, count in wanted[number].items():
            tasks += [others[g].popleft() for _ in range(count - len(staying[number].get(g, ())))]
        result.append(Bin(each.type, tuple(sorted(tasks, key=order.__getitem__)), matched.get(number)))
    return tuple(result)


def _assignment(
    wanted: Sequence[Mapping[int, int]], held: Sequence[Mapping[int, int]]
) -> list[tuple[int, int]]:
    """Pairs of bin and machine that keep the most tasks in place; both are given as tasks by group."""
    if not wanted or not held:
        return []
    optimize: Any = import_module("scipy.optimize")
    # Many bins are alike, and so are many machines: each distinct pair is evaluated once.
    bins, bin_of = _different(wanted)
    machines, machine_of = _different(held)
    stay = np.array([[_stay(each, machine) for machine in machines] for each in bins])
    # An assignment is complete even if pairs keep no task, so as many machines as possible are used again.
    rows, columns = optimize.linear_sum_assignment(stay[np.ix_(bin_of, machine_of)], maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _different(counts: Sequence[Mapping[int, int]]) -> tuple[list[Mapping[int, int]], list[int]]:
    """The distinct counts, and the index of each count among them."""
    number: dict[frozenset[tuple[int, int]], int] = {}
    of = [number.setdefault(frozenset(each.items()), len(number)) for each in counts]
    return [dict(each) for each in number], of


def _stay(wanted: Mapping[int, int], held: Mapping[int, int]) -> int:
    """The number of tasks of a machine that a bin can keep."""
    if held.keys().isdisjoint(wanted):
        return 0  # the usual case
    return sum(min(count, held.get(group, 0)) for group, count in wanted.items())
