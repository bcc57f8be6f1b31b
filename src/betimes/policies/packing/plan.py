"""The answer of a planner: `Plan`, the bins of tasks, and the changes that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from betimes.errors import PolicyViolation
from betimes.policies.packing.catalogue import Catalogue, fits
from betimes.policies.packing.problem import Problem, Round


@dataclass(frozen=True)
class Bin:
    """Tasks that share a machine of a type: the machine with this id, or a new one (None)."""

    type: str
    tasks: tuple[int, ...]
    machine: int | None = None


@dataclass(frozen=True)
class Plan:
    """The machines to have and the tasks on each; a machine that is in no bin is given back.

    With `keep_running` a moving task stays on its old machine until the new one is up, else it is stopped at once.
    `reason` is a word for the origin of the plan (`full`, `partial`, ...).
    """

    bins: tuple[Bin, ...]
    keep_running: bool = False
    reason: str = ""

    def usd_per_h(self, catalogue: Catalogue) -> float:
        """The cost of the plan's machines an hour."""
        return sum(catalogue.named(each.type).usd_per_h for each in self.bins)


class Planner(Protocol):
    """Decides each round. A planner may learn from round to round, so that each cluster needs a separate one."""

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on; raises ClusterError for a task that fits no type."""
        ...


@dataclass(frozen=True)
class Move:
    """A task that moves from a machine (None: it had none) to the bin of this number in the plan."""

    task: int
    job: int
    from_machine: int | None
    to_bin: int


@dataclass(frozen=True)
class Changes:
    """The changes of a plan: tasks that move, bins that need a new machine, machines to give back (each in order).

    `jobs` are the jobs with a moving task, new ones included: a job moves as a whole.
    """

    moves: tuple[Move, ...] = ()
    rented: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
    jobs: frozenset[int] = field(default_factory=frozenset[int])


def changes(plan: Plan, problem: Problem) -> Changes:
    """The changes that bring a problem's machines and tasks to the plan."""
    moves: list[Move] = []
    for number, each in enumerate(plan.bins):
        for task in (problem.task[task] for task in each.tasks):
            if task.machine is None or task.machine != each.machine:
                moves.append(Move(task.id, task.job, task.machine, number))
    kept = {each.machine for each in plan.bins}
    return Changes(
        tuple(moves),
        tuple(number for number, each in enumerate(plan.bins) if each.machine is None),
        tuple(machine.id for machine in problem.machines if machine.id not in kept),
        frozenset(move.job for move in moves),
    )


def check(plan: Plan, problem: Problem) -> None:
    """Raise PolicyViolation unless every task is in one bin with room for it, pinned ones where they are.

    A machine is in one bin at most, of its own type; no bin is empty.
    """
    placed = Counter(task for each in plan.bins for task in each.tasks)
    _unless(
        set(placed) == set(problem.task),
        "tasks that are left out or unknown",
        set(placed) ^ set(problem.task),
    )
    _unless(
        max(placed.values(), default=1) == 1, "tasks in several bins", [t for t, n in placed.items() if n > 1]
    )
    used = Counter(each.machine for each in plan.bins if each.machine is not None)
    _unless(
        max(used.values(), default=1) == 1, "machines in several bins", [m for m, n in used.items() if n > 1]
    )
    for each in plan.bins:
        _unless(bool(each.tasks), "a bin without tasks on machine", [each.machine])
        _unless(each.machine is None or each.machine in problem.machine, "an unknown machine", [each.machine])
        right = each.machine is None or problem.machine[each.machine].type == each.type
        _unless(right, f"a bin of type {each.type} on a machine of another type", [each.machine])
        demands = [problem.task[task].demand for task in each.tasks]
        _unless(
            fits(problem.catalogue.named(each.type), demands),
            f"a {each.type} that cannot hold tasks",
            each.tasks,
        )
        moved = [t for t in each.tasks if problem.task[t].pinned and problem.task[t].machine != each.machine]
        _unless(not moved, "pinned tasks that move", moved)


def _unless(kept: bool, what: str, which: Iterable[object]) -> None:
    if not kept:
        listed = ", ".join(str(each) for each in list(which)[:10])
        raise PolicyViolation(f"a packing plan has {what}: {listed}")
