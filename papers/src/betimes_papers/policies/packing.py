"""The schedulers that Eva's evaluation compares, each extended to rent as section 6 has it.

*Synergy* (Mohan et al., OSDI'22): a new task goes where worth over price is highest, and then stays. *Owl* (Tian et
al., SoCC'22): pairs of tasks with the least interference for their price, never more than two; it knows the true
pairwise throughputs. *Stratus* (Chung et al., SoCC'18): tasks that end at about the same time share a machine, so that
it can be given back whole.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Literal, cast, get_args

from betimes.cluster import Cluster
from betimes.errors import PolicyError
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.packing import PAIR, PERIOD, ROUNDS, Values, fills, in_rounds
from betimes.policies.packing.catalogue import Catalogue, InstanceType, fits
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.planners.boxes import Box, bins, standing
from betimes.policies.packing.planners.reconfiguration import Filled, keep, kept_bins
from betimes.policies.packing.problem import Problem, Round, Task
from betimes.policies.packing.reservation_price import ReservationPrices
from betimes.policies.packing.throughput import DEFAULT_PAIR, Throughput, ThroughputTable
from betimes.policies.packing.valuation import Group, Valuation, level, valued


class Synergy:
    """Best fit without migration, aware of interference; learns the same table as Eva, unless `known` is given."""

    def __init__(self, *, default_pair: float = DEFAULT_PAIR, known: Throughput | None = None) -> None:
        self.table = ThroughputTable(default_pair)
        self.throughput: Throughput = self.table if known is None else known
        self._valuation: Valuation | None = None

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        problem = round_.problem
        self.table.observe_round(problem, round_.reports)
        changed = self.table.take_changed()
        self._valuation = valuation = valued(self._valuation, problem, self.throughput, "none", changed)
        busy = [machine for machine, tasks in problem.residents.items() if tasks]
        machines = keep(valuation, busy, lambda _: True)
        for task in problem.tasks:
            if task.machine is None:
                _place(task.id, machines, valuation)
        return Plan(kept_bins(machines), reason="synergy")


def _place(task: int, machines: list[Filled], valuation: Valuation) -> None:
    """Place a task where worth over price, then alignment, is highest, among machines then worth their price."""
    group = valuation.group_of[task]
    best: tuple[float, int] | None = None
    chosen: Filled | None = None
    worth = 0
    for machine in machines:
        usd_per_h = valuation.catalogue.types[machine.contents.type].usd_per_h
        found = machine.contents.adding(group)
        if found is not None and found[0] >= level(usd_per_h):
            key = (found[0] / usd_per_h, found[1])
            if best is None or key > best:
                best, chosen, worth = key, machine, found[0]
    if chosen is None:
        chosen = Filled(None, valuation.holding(valuation.groups[group].price_type, [task]))
        machines.append(chosen)
    else:
        chosen.contents = chosen.contents.plus(group, worth)
    chosen.tasks.append(task)


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


Grouping = Literal["consecutive", "prefixes"]
"""Ways to group tasks for new machines: one, then two, then three ... (Eva's version), or the prefix, of the tasks of
one bin of run time, that scores best (Stratus)."""


class Stratus:
    """Packs by bins of run time: the tasks of bin n have from 2**n to 2**(n+1) s left, which must be known.

    Tasks go by their remaining run time, and a machine is cleared by the resources that it has. Eva's released version
    uses the whole run time, and never clears a machine without GPUs.
    """

    def __init__(self, *, grouping: Grouping = "consecutive") -> None:
        if grouping not in get_args(Grouping):
            raise PolicyError(
                f"stratus: expected grouping {' or '.join(get_args(Grouping))}, found {grouping!r}"
            )
        self.grouping: Grouping = grouping

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on.

        Raises ClusterError for a task that fits no type, PolicyError for one whose remaining run time is not known.
        """
        problem = round_.problem
        prices = ReservationPrices(problem.catalogue)
        for task in problem.tasks:
            prices.of(task)
            if math.isnan(task.remaining_s):
                raise PolicyError(
                    f"stratus: the run time that task {task.id} has left is not known: give an estimate"
                )
        boxes = standing(problem)
        cleared = [box for box in boxes if _clears(box, problem, prices)]
        boxes = [box for box in boxes if box not in cleared]
        loose = {task.id for box in cleared for task in box.tasks}
        left: list[Task] = []
        for task in problem.tasks:
            if task.machine is None or task.id in loose:
                box = _best_box(task, boxes)
                if box is None:
                    left.append(task)
                else:
                    box.add(task)
        new = self._scale_out(left, problem.catalogue)
        _take_over(new, cleared)
        return Plan(bins([*boxes, *new]), reason="stratus")

    def _scale_out(self, tasks: list[Task], catalogue: Catalogue) -> list[Box]:
        """New machines for tasks that fit no running one, the longest run time first."""
        waiting = sorted(tasks, key=lambda task: -task.remaining_s)
        new: list[Box] = []
        while waiting:
            if self.grouping == "consecutive":
                size, type_ = _consecutive(waiting, len(new) + 1, catalogue)
            else:
                size, type_ = _best_prefix(waiting, catalogue)
            new.append(Box(type_, None, waiting[:size]))
            waiting = waiting[size:]
        return new


def _run_time_bin(remaining_s: float) -> int:
    return math.floor(math.log2(max(1.0, remaining_s)))


def _lasts_s(task: Task, type_: InstanceType) -> float:
    return task.remaining_s / type_.speed(task.kind)


def _left_s(box: Box) -> float:
    return max(_lasts_s(task, box.type) for task in box.tasks)


def _best_box(task: Task, boxes: Sequence[Box]) -> Box | None:
    """The machine of the task's bin that ends nearest to the task; else the one with the most free resources, of the
    longer ones, else of the shorter ones.
    """
    fitting = [box for box in boxes if box.fits(task)]
    behind = [_run_time_bin(_left_s(box)) - _run_time_bin(_lasts_s(task, box.type)) for box in fitting]
    if same := [box for box, bins_ in zip(fitting, behind, strict=True) if bins_ == 0]:
        return min(same, key=lambda box: abs(_left_s(box) - _lasts_s(task, box.type)))
    longer = [box for box, bins_ in zip(fitting, behind, strict=True) if bins_ > 0]
    return max(longer or fitting, key=lambda box: box.free_units, default=None)


def _clears(box: Box, problem: Problem, prices: ReservationPrices) -> bool:
    """Whether less than half of every resource is used, and the tasks may move to something cheaper."""
    if any(task.pinned for task in box.tasks):
        return False
    if len(box.tasks) == 1 and problem.catalogue.types[prices.of(box.tasks[0]).type] is box.type:
        return False
    return all(2 * (q - free) < q for q, free in zip(box.type.capacity, box.free, strict=True) if q > 0)


def _consecutive(waiting: Sequence[Task], most: int, catalogue: Catalogue) -> tuple[int, InstanceType]:
    """The number of next tasks, `most` or as many as a type holds, and the type that scores best for them."""
    size = next(n for n in range(min(most, len(waiting)), 0, -1) if _feasible(waiting[:n], catalogue))
    return size, max(
        _feasible(waiting[:size], catalogue), key=lambda each: _score(waiting[:size], each, catalogue)
    )


def _best_prefix(waiting: Sequence[Task], catalogue: Catalogue) -> tuple[int, InstanceType]:
    """The prefix of the first bin of run time, and the type, that score best; of equals the shorter prefix."""
    first = _run_time_bin(waiting[0].remaining_s)
    best: tuple[float, int, InstanceType] | None = None
    for size in range(1, len(waiting) + 1):
        if _run_time_bin(waiting[size - 1].remaining_s) != first:
            break
        types = _feasible(waiting[:size], catalogue)
        if not types:
            break
        for each in types:
            score = _score(waiting[:size], each, catalogue)
            if best is None or score > best[0]:
                best = (score, size, each)
    assert best is not None  # a task alone fits some type
    return best[1], best[2]


def _feasible(tasks: Sequence[Task], catalogue: Catalogue) -> list[InstanceType]:
    demands = [task.demand for task in tasks]
    return [each for each in catalogue.types if fits(each, demands)]


def _score(tasks: Sequence[Task], type_: InstanceType, catalogue: Catalogue) -> float:
    """Use of the scarcest resource, in machines of the cheapest type that has it, over the price.

    A task's use is multiplied by its speed there, so that it counts per hour of work, not of the machine.
    """
    needed = [(task.demand.on(type_.family) or (0, 0, 0), type_.speed(task.kind)) for task in tasks]

    def share(r: int) -> float:
        return sum(each[r] for each, _ in needed) / type_.capacity[r]

    scarcest = max((r for r in range(3) if type_.capacity[r] > 0), key=share)
    used = sum(each[scarcest] * speed for each, speed in needed)
    base = next(
        catalogue.types[k] for k in catalogue.cheapest_first if catalogue.types[k].capacity[scarcest] > 0
    )
    return used / base.capacity[scarcest] / type_.usd_per_h


def _take_over(new: Sequence[Box], cleared: Sequence[Box]) -> None:
    """Give a cleared machine to a new set of its type with one of its tasks, which then need not move."""
    free = {box.machine: box.type for box in cleared}
    for box in new:
        for task in box.tasks:
            if task.machine is not None and free.get(task.machine) is box.type:
                box.machine = task.machine
                del free[task.machine]
                break


def _synergy(values: Values, _: Cluster) -> Synergy:
    return Synergy(default_pair=float(cast("float", values[PAIR.name])))


def _owl(_: Values, cluster: Cluster) -> Owl:
    if cluster.interference is None:
        raise PolicyError(
            f"policy owl: it has to know how tasks slow each other, and cluster {cluster.name} does not say; name a "
            "table there (interference = ...)"
        )
    return Owl(cluster.interference)


stratus = NodesPolicy(
    name="stratus",
    summary="Tasks that end at about the same time share a machine.",
    question="Which tasks free a machine together?",
    paper="Stratus (SoCC 2018), as Eva compares it",
    parameters=(PERIOD, ROUNDS),
    fills=fills,
    planner=in_rounds(lambda _values, _cluster: Stratus(), every_round=True),
)
synergy = NodesPolicy(
    name="synergy",
    summary="A new task goes where it adds most to what a machine is worth; none ever moves.",
    question="How far does packing at arrival go?",
    paper="Synergy (OSDI 2022), as Eva compares it",
    parameters=(PERIOD, ROUNDS, PAIR),
    fills=fills,
    planner=in_rounds(_synergy),
)
owl = NodesPolicy(
    name="owl",
    summary="Pairs of tasks that are known to disturb each other least share a machine.",
    question="Which pairs get on well?",
    paper="Owl (SoCC 2022), as Eva compares it",
    parameters=(PERIOD, ROUNDS),
    fills=fills,
    planner=in_rounds(_owl),
)
