"""The exact planner: Eva's ILP, solved in a process that can be ended, with Algorithm 1 as the fallback."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from betimes.policies.packing.catalogue import Catalogue, Demand
from betimes.policies.packing.covering import Covering, NoCoveringInTime, Pattern, cover
from betimes.policies.packing.matching import match
from betimes.policies.packing.plan import Bin, Plan
from betimes.policies.packing.planners.reconfiguration import full_reconfiguration, keep, kept_bins
from betimes.policies.packing.problem import Problem, Round
from betimes.policies.packing.throughput import ThroughputTable
from betimes.policies.packing.valuation import Valuation
from betimes.processes import Do, Processes, Say


class Solver:
    """HiGHS in a separate process, which ends with this object, or when it exceeds `limit_s`.

    The next call then starts another. The start of a process does not count.
    """

    def __init__(self, catalogue: Catalogue, limit_s: float) -> None:
        self.catalogue, self.limit_s = catalogue, limit_s
        self._end: weakref.finalize[[], Solver] | None = None
        self._processes: Processes | None = None

    def solve(self, demands: list[Demand], counts: list[int], known: list[Pattern]) -> Covering | None:
        """The covering of `counts` tasks of each demand; None if it took too long."""
        processes = self._processes or self._start()
        begun: list[float] = []

        def is_late() -> bool:
            return bool(begun) and time.monotonic() > begun[0] + self.limit_s

        def heard(_task: int, _said: Any) -> None:
            begun.append(time.monotonic())

        for _, covering in processes.answers([(demands, counts, known)], heard, is_late):
            return covering
        self.close()
        return None

    def close(self) -> None:
        """End the process, if there is one."""
        if self._end is not None:
            self._end()
        self._processes = self._end = None

    def _start(self) -> Processes:
        self._processes = Processes(_prepare, (self.catalogue, self.limit_s), 1).__enter__()
        self._end = weakref.finalize(self, self._processes.__exit__)
        return self._processes


def _prepare(catalogue: Catalogue, limit_s: float) -> Do:
    import_module("scipy.optimize")  # before the time counts

    def do(task: Any, say: Say) -> Covering | None:
        demands, counts, known = task
        say("begun")
        try:
            return cover(catalogue, demands, counts, limit_s=limit_s, known=known)
        except NoCoveringInTime:
            return None

    return do


class Exact:
    """The cheapest machines without regard to interference, with the fewest moves; those with pinned tasks stay.

    After `limit_s` of wall-clock time the solver is ended and the plan is that of Full Reconfiguration, as it is if
    that is no dearer. `covering` is the last round's, None if it took too long.
    """

    def __init__(self, limit_s: float = 10.0) -> None:
        self.limit_s = limit_s
        self.covering: Covering | None = None
        self._solver: Solver | None = None

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        valuation = Valuation(problem, ThroughputTable(1.0), "none")
        free = [each for each in problem.machines if each.id not in problem.pinned]
        stay = kept_bins(keep(valuation, problem.pinned, lambda _: True))
        heuristic = full_reconfiguration(valuation, down_sizing="reuse", refill=False)[len(stay) :]
        if self._solver is None or self._solver.catalogue != problem.catalogue:
            self._solver = Solver(problem.catalogue, self.limit_s)
        self.covering = covering_of(heuristic, problem, self._solver)
        bins, reason = heuristic, "full"
        cost = Plan(heuristic).usd_per_h(problem.catalogue)
        if self.covering is not None and self.covering.usd_per_h < cost - 1e-6:
            bins, reason = covered(self.covering, heuristic, problem), "exact"
        return Plan((*stay, *match(bins, free, valuation)), reason=reason)


def covering_of(bins: Sequence[Bin], problem: Problem, solver: Solver) -> Covering | None:
    """The cheapest covering of the tasks of these bins; None if there are none, or the solver took too long."""
    waiting = _by_demand(bins, problem)
    if not waiting:
        return None
    counts = [len(tasks) for tasks in waiting.values()]
    return solver.solve(list(waiting), counts, _patterns(bins, problem, list(waiting)))


def covered(covering: Covering, bins: Sequence[Bin], problem: Problem) -> tuple[Bin, ...]:
    """The tasks of these bins on the new machines of their covering."""
    return _bins(covering, problem.catalogue, list(_by_demand(bins, problem).values()))


def _by_demand(bins: Sequence[Bin], problem: Problem) -> dict[Demand, deque[int]]:
    """The tasks of bins in the order of their arrival, by demand."""
    packed = {task for each in bins for task in each.tasks}
    waiting: dict[Demand, deque[int]] = {}
    for task in problem.tasks:
        if task.id in packed:
            waiting.setdefault(task.demand, deque()).append(task.id)
    return waiting


def _patterns(bins: Sequence[Bin], problem: Problem, demands: list[Demand]) -> list[Pattern]:
    """The patterns of the bins of a plan."""
    place = {demand: g for g, demand in enumerate(demands)}
    patterns: list[Pattern] = []
    for each in bins:
        amounts = [0] * len(demands)
        for task in each.tasks:
            amounts[place[problem.task[task].demand]] += 1
        patterns.append((problem.catalogue.place[each.type], tuple(amounts)))
    return patterns


def _bins(covering: Covering, catalogue: Catalogue, waiting: list[deque[int]]) -> tuple[Bin, ...]:
    """Tasks in the slots of the patterns, in the order of arrival; surplus slots stay free."""
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
