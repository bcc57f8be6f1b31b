"""The exact planner: Eva's ILP, solved in a process that can be ended, with Algorithm 1 as the fallback.

The ILP is a covering of demands by patterns, without interference: a pattern is a type with a number of tasks of each
demand. Tasks of equal demand are interchangeable, so a few thousand patterns cover any number of tasks. If there are
too many patterns to list, those that pay are generated (Gilmore and Gomory, 1961): the plan is then near the optimum,
and the bound limits the gap. Source: Eva, section 4.1.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.errors import BetimesError
from betimes.policies.packing.catalogue import Catalogue, Demand
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

    def __deepcopy__(self, _: dict[int, Any]) -> Solver:
        """Another solver: a copy of a planner may be asked in another thread, and a process has one caller."""
        return Solver(self.catalogue, self.limit_s)

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


# --- the cheapest covering ---

MOST_PATTERNS = 20_000
Pattern = tuple[int, tuple[int, ...]]
"""Index of a type in the catalogue, and the number of tasks of each demand on it."""


class NoCoveringInTime(BetimesError):
    """The solver found no covering before its limit."""


_PAYS = 1e-7  # least saving of a new pattern, over its price


@dataclass(frozen=True)
class Covering:
    """The patterns taken: (index of the type, number of tasks of each demand, number of machines).

    `bound_usd_per_h` is a lower bound of all plans' cost; the covering is `proven` optimal if it costs no more.
    """

    patterns: tuple[tuple[int, tuple[int, ...], int], ...]
    usd_per_h: float
    bound_usd_per_h: float

    @property
    def proven(self) -> bool:
        """Whether no plan is cheaper."""
        return self.usd_per_h <= self.bound_usd_per_h * (1 + 1e-6)


def cover(
    catalogue: Catalogue,
    demands: Sequence[Demand],
    counts: Sequence[int],
    *,
    limit_s: float,
    known: Sequence[Pattern] = (),
    most_patterns: int = MOST_PATTERNS,
) -> Covering:
    """The cheapest covering of `counts` tasks of each demand. Raises NoCoveringInTime if the solver finds none.

    `known` are patterns of a plan; generated ones are added to them. `limit_s` limits each call of the solver, which
    may overrun it: see `Exact`, which ends the process.
    """
    patterns = maximal_patterns(catalogue, demands, counts, most_patterns)
    listed = patterns is not None
    bound = 0.0
    if patterns is None:
        patterns, bound = _generated(catalogue, demands, counts, known, limit_s)
    prices = np.array([catalogue.types[k].usd_per_h for k, _ in patterns])
    held = np.array([amounts for _, amounts in patterns]).T
    result = _milp(prices, held, np.asarray(counts, np.float64), np.inf, limit_s)
    taken = np.rint(result.x).astype(int).tolist()
    usd_per_h = float(prices @ np.rint(result.x))
    chosen = tuple((k, amounts, n) for (k, amounts), n in zip(patterns, taken, strict=True) if n)
    return Covering(chosen, usd_per_h, float(result.mip_dual_bound) if listed else min(bound, usd_per_h))


def maximal_patterns(
    catalogue: Catalogue, demands: Sequence[Demand], counts: Sequence[int], most: int
) -> list[Pattern] | None:
    """All maximal patterns: types with tasks to which none can be added; None if there are more than `most`."""
    patterns: list[Pattern] = []
    for k, type_ in enumerate(catalogue.types):
        needs = [demand.on(type_.family) for demand in demands]
        taken = [0] * len(demands)
        # Depth first by demand, from the most tasks that fit. An explicit stack, as there may be many demands.
        stack = [(0, type_.capacity, -1)]
        while stack:
            g, free, count = stack.pop()
            if count >= 0:
                taken[g - 1] = count
            if g == len(demands):
                full = all(
                    need is None
                    or taken[n] >= counts[n]
                    or any(a > b for a, b in zip(need, free, strict=True))
                    for n, need in enumerate(needs)
                )
                if full and any(taken):
                    patterns.append((k, tuple(taken)))
                    if len(patterns) > most:
                        return None
                continue
            gpu, cpu, memory = needs[g] or (0, 0, 0)
            fits = [q // n for q, n in zip(free, (gpu, cpu, memory), strict=True) if n]
            for n in range(min(counts[g], *fits) + 1 if fits else 1):
                left = (free[0] - n * gpu, free[1] - n * cpu, free[2] - n * memory)
                stack.append((g + 1, left, n))
            if len(stack) + len(patterns) > 50 * most:
                return None
    return patterns


def _milp(
    prices: NDArray[np.float64],
    held: NDArray[Any],
    least: NDArray[np.float64],
    most: float | NDArray[np.float64],
    limit_s: float,
) -> Any:
    """The whole-number x that minimises `prices @ x` with `held @ x` at least `least` and x from 0 to `most`."""
    optimize: Any = import_module("scipy.optimize")
    result = optimize.milp(
        prices,
        constraints=optimize.LinearConstraint(held, lb=least),
        integrality=np.ones(len(prices)),
        bounds=optimize.Bounds(0, most),
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise NoCoveringInTime(f"the exact planner found no plan in {limit_s:g} s ({result.message.strip()})")
    return result


def _generated(
    catalogue: Catalogue,
    demands: Sequence[Demand],
    counts: Sequence[int],
    known: Sequence[Pattern],
    limit_s: float,
) -> tuple[list[Pattern], float]:
    """Patterns that pay in the relaxed problem, and its cost, which is the bound."""
    optimize: Any = import_module("scipy.optimize")
    patterns = list(dict.fromkeys([*_alone(catalogue, demands), *known]))
    seen = set(patterns)
    while True:
        prices = np.array([catalogue.types[k].usd_per_h for k, _ in patterns])
        held = np.array([amounts for _, amounts in patterns]).T
        relaxed = optimize.linprog(prices, A_ub=-held, b_ub=-np.asarray(counts), method="highs")
        worth = -relaxed.ineqlin.marginals
        new = [
            pattern
            for k in range(len(catalogue.types))
            if (pattern := _best_pattern(catalogue, k, demands, counts, worth, limit_s)) is not None
            and pattern not in seen
        ]
        if not new:
            return patterns, float(relaxed.fun)
        patterns += new
        seen.update(new)


def _alone(catalogue: Catalogue, demands: Sequence[Demand]) -> list[Pattern]:
    """Each demand on the cheapest machine that holds it: the initial covering."""
    patterns: list[Pattern] = []
    for g, demand in enumerate(demands):
        k = catalogue.cheapest_holding([demand])
        assert k is not None  # the caller has the demand's reservation price
        patterns.append((k, tuple(int(n == g) for n in range(len(demands)))))
    return patterns


def _best_pattern(
    catalogue: Catalogue,
    k: int,
    demands: Sequence[Demand],
    counts: Sequence[int],
    worth: NDArray[np.float64],
    limit_s: float,
) -> Pattern | None:
    """The pattern of a type that is worth most in the relaxed problem; None if it is not worth the price."""
    type_ = catalogue.types[k]
    needs = [demand.on(type_.family) for demand in demands]
    needed = np.array([need or (0, 0, 0) for need in needs], np.float64).T
    most = np.array(
        [0 if need is None else count for need, count in zip(needs, counts, strict=True)], np.float64
    )
    if not (worth * most).sum() > type_.usd_per_h * (1 + _PAYS):
        return None
    result = _milp(-worth, -needed, -np.array(type_.capacity, np.float64), most, limit_s)
    if -result.fun <= type_.usd_per_h * (1 + _PAYS):
        return None
    return k, tuple(int(n) for n in np.rint(result.x))
