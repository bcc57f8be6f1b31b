"""On which nodes a job's tasks go."""

from collections.abc import Sequence
from fractions import Fraction

from tests.reference.nodes.model import Placement, Resources
from tests.reference.nodes.resources import NOTHING, fits, minus, shares, times


def place(
    rule: str, demands: Sequence[Resources | None], tasks: int, free: Sequence[Resources], largest: Resources
) -> Placement | None:
    """Nodes for all tasks, or None; `largest` is the most of each resource that any node has when empty.

    demands: what a task needs on each node, None where it cannot run.
    """
    can = {node: demand for node, demand in enumerate(demands) if demand is not None}
    scored = [
        (_score(rule, node, demand, free[node], largest), node)
        for node, demand in can.items()
        if fits(demand, free[node])
    ]
    nodes = [node for _, node in sorted(scored)]
    if sum(most_tasks(can[node], free[node]) for node in nodes) < tasks:
        return None
    placed = dict.fromkeys(nodes, 0)
    while sum(placed.values()) < tasks:
        for node in nodes:
            room = most_tasks(can[node], free[node]) - placed[node]
            here = min(room, tasks - sum(placed.values()))
            if rule == "worst":
                here = min(here, 1)  # and the next round may bring another
            placed[node] += here
    return tuple(sorted((node, count) for node, count in placed.items() if count > 0))


def most_tasks(demand: Resources, room: Resources) -> int:
    """How many tasks fit side by side."""
    count = 0
    while fits(times(count + 1, demand), room):
        count += 1
    return count


def largest_of(capacities: Sequence[Resources]) -> Resources:
    most = NOTHING
    for capacity in capacities:
        most = (max(most[0], capacity[0]), max(most[1], capacity[1]), max(most[2], capacity[2]))
    return most


def squared_norm(amount: Resources, largest: Resources) -> Fraction:
    """The squared Euclidean norm of a vector of shares, exactly."""
    return sum((Fraction(part, of) ** 2 for part, of in shares(amount, largest)), Fraction(0))


def _score(rule: str, node: int, demand: Resources, room: Resources, largest: Resources) -> Fraction:
    if rule == "first":
        return Fraction(node)
    if rule == "best-cores":
        gpu, cpu, _ = minus(room, demand)
        return Fraction(gpu * (largest[1] + 1) + cpu)
    left_over = squared_norm(minus(room, demand), largest)
    return left_over if rule == "best" else -left_over
