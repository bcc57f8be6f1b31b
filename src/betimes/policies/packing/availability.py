"""Limits of the cloud's supply: the catalogue of a round, and the next choice for machines that are not available."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from betimes.policies.packing.catalogue import Catalogue, fits
from betimes.policies.packing.plan import Bin, Plan
from betimes.policies.packing.problem import Problem
from betimes.policies.packing.reservation_price import ReservationPrices


def available(catalogue: Catalogue, left: Mapping[str, int], rented: Collection[str]) -> Catalogue | None:
    """The catalogue of a round: types that are rented or have machines left to rent; None: there are none.

    left: the number of rentable machines of each type; rented: the types of present machines.
    """
    types = tuple(each for each in catalogue.types if left[each.name] > 0 or each.name in rented)
    if len(types) == len(catalogue.types):
        return catalogue
    return Catalogue(types) if types else None


def within(plan: Plan, problem: Problem, left: Mapping[str, int]) -> Plan:
    """The plan with the next choice for each new machine whose type is used up.

    The next choice is a machine that the plan would give back, preferably the one with most of the tasks; else a new
    one of the available type that holds them and does their work at least cost. If there is neither, waiting jobs wait
    on; if placed jobs are affected, all placed jobs stay where they are, and each task of a waiting job gets a machine.
    """
    remaining = dict(left)
    kept = {each.machine for each in plan.bins}
    idle = {machine.id: machine.type for machine in problem.machines if machine.id not in kept}
    bins, missing = list[Bin](), list[Bin]()
    for each in plan.bins:
        if each.machine is None and remaining[each.type] == 0:
            missing.append(each)
            continue
        remaining[each.type] -= each.machine is None
        bins.append(each)
    if not missing:
        return plan
    waiting = set[int]()  # jobs for which no machine is available
    for each in missing:
        found = _on_idle(each.tasks, problem, idle) or _of_next_type(each.tasks, problem, remaining)
        if found is None:
            waiting |= {problem.task[task].job for task in each.tasks}
        elif found.machine is None:
            remaining[found.type] -= 1
            bins.append(found)
        else:
            del idle[found.machine]
            bins.append(found)
    if any(problem.task[task].machine is not None for job in waiting for task in problem.jobs[job]):
        return replace(plan, bins=(*_as_they_are(problem), *_each_alone(problem, left)))
    without = (
        replace(each, tasks=tuple(t for t in each.tasks if problem.task[t].job not in waiting))
        for each in bins
    )
    return replace(plan, bins=tuple(each for each in without if each.tasks))


def _as_they_are(problem: Problem) -> list[Bin]:
    on = problem.residents
    return [Bin(each.type, on[each.id], each.id) for each in problem.machines if on[each.id]]


def _each_alone(problem: Problem, left: Mapping[str, int]) -> list[Bin]:
    """A new machine for each task of waiting jobs, as far as available."""
    remaining, bins = dict(left), list[Bin]()
    for tasks in problem.jobs.values():
        if any(problem.task[task].machine is not None for task in tasks):
            continue
        after, own = dict(remaining), list[Bin]()
        for task in tasks:
            found = _of_next_type((task,), problem, after)
            if found is None:
                break
            after[found.type] -= 1
            own.append(found)
        else:
            remaining, bins = after, bins + own
    return bins


def _on_idle(tasks: tuple[int, ...], problem: Problem, idle: Mapping[int, str]) -> Bin | None:
    """The tasks on a machine that the plan would give back; None: none holds them."""
    demands = [problem.task[task].demand for task in tasks]
    holding = [id_ for id_, type_ in idle.items() if fits(problem.catalogue.named(type_), demands)]
    if not holding:
        return None

    def stay(machine: int) -> int:
        return sum(problem.task[task].machine == machine for task in tasks)

    best = max(
        holding, key=lambda machine: (stay(machine), -problem.catalogue.named(idle[machine]).usd_per_h)
    )
    return Bin(idle[best], tasks, best)


def _of_next_type(tasks: tuple[int, ...], problem: Problem, left: Mapping[str, int]) -> Bin | None:
    """The tasks on a new machine of an available type; None: none holds them."""
    prices = ReservationPrices(problem.catalogue)
    obtainable = {name for name, count in left.items() if count > 0}
    k = prices.cheapest_holding([problem.task[task] for task in tasks], obtainable)
    return None if k is None else Bin(problem.catalogue.types[k].name, tasks)
