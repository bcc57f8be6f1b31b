"""The exact planner: Eva's ILP, solved in a process that can be ended, with Algorithm 1 where that takes too long."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from betimes.policies.packing.catalogue import Catalogue, Demand
from betimes.policies.packing.covering import Covering, Pattern, cover
from betimes.policies.packing.full_reconfiguration import full_reconfiguration, keep, kept_bins
from betimes.policies.packing.matching import match
from betimes.policies.packing.plan import Bin, Plan
from betimes.policies.packing.problem import Problem, Round
from betimes.policies.packing.throughput import ThroughputTable
from betimes.policies.packing.valuation import Valuation
from betimes.processes import Do, Processes, Say


class Exact:
    """The cheapest machines, as if no task disturbed another, with the fewest moves; those with pinned tasks stay.

    After `limit_s` of wall-clock time the solver is ended and Full Reconfiguration plans; so it does where that is no
    dearer. `covering` is the last round's, None where it was given up.
    """

    def __init__(self, limit_s: float = 10.0) -> None:
        self.limit_s = limit_s
        self.covering: Covering | None = None

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        valuation = Valuation(problem, ThroughputTable(1.0), "none")
        free = [each for each in problem.machines if each.id not in problem.pinned]
        stay = kept_bins(keep(valuation, problem.pinned, lambda _: True))
        heuristic = full_reconfiguration(valuation, down_sizing="reuse", refill=False)[len(stay) :]
        waiting: dict[Demand, deque[int]] = {}
        for task in problem.tasks:
            if task.machine not in problem.pinned:
                waiting.setdefault(task.demand, deque()).append(task.id)
        counts = [len(tasks) for tasks in waiting.values()]
        self.covering = None
        if waiting:
            known = _patterns(heuristic, problem, list(waiting))
            self.covering = solve(problem.catalogue, list(waiting), counts, known, limit_s=self.limit_s)
        bins, reason = heuristic, "full"
        cost = Plan(heuristic).usd_per_h(problem.catalogue)
        if self.covering is not None and self.covering.usd_per_h < cost - 1e-6:
            bins, reason = _bins(self.covering, problem.catalogue, list(waiting.values())), "exact"
        return Plan((*stay, *match(bins, free, valuation)), reason=reason)


def solve(
    catalogue: Catalogue, demands: list[Demand], counts: list[int], known: list[Pattern], *, limit_s: float
) -> Covering | None:
    """The covering, found in another process, which is ended after `limit_s`: None then."""
    until_s = time.monotonic() + limit_s
    with Processes(_prepare, (catalogue, limit_s), 1) as solver:
        for _, covering in solver.answers(
            [(demands, counts, known)], stop=lambda: time.monotonic() > until_s
        ):
            return covering
    return None


def _prepare(catalogue: Catalogue, limit_s: float) -> Do:
    def do(task: Any, say: Say) -> Covering:
        demands, counts, known = task
        return cover(catalogue, demands, counts, limit_s=limit_s, known=known)

    return do


def _patterns(bins: tuple[Bin, ...], problem: Problem, demands: list[Demand]) -> list[Pattern]:
    """What the bins of a plan hold."""
    place = {demand: g for g, demand in enumerate(demands)}
    patterns: list[Pattern] = []
    for each in bins:
        amounts = [0] * len(demands)
        for task in each.tasks:
            amounts[place[problem.task[task].demand]] += 1
        patterns.append((problem.catalogue.place[each.type], tuple(amounts)))
    return patterns


def _bins(covering: Covering, catalogue: Catalogue, waiting: list[deque[int]]) -> tuple[Bin, ...]:
    """Tasks into the patterns' places, in the order of arrival; places beyond the last task stay free."""
    bins: list[Bin] = []
    for k, amounts, times in covering.patterns:
        for _ in range(times):
            tasks = [
                queue.popleft()
                for queue, amount in zip(waiting, amounts, strict=True)
                for _ in range(min(amount, len(queue)))
            ]
            if tasks:
                bins.append(Bin(catalogue.types[k].name, tuple(tasks)))
    return tuple(bins)
