"""Placement rules: the choice among nodes with room for a task.

The scalar is the squared Euclidean norm of a node's remaining resources, each over the largest node's capacity
(FitGpp's specification, B.2), so that nodes of different sizes compare by absolute amounts, not by fractions.
`best-cores` is the rule of the waiting policies' paper (Waiting Game, SC 2020: "a best-fit policy based on cores");
GPUs, where nodes have any, are scarcer and come first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.demands import demand_on, room_within
from betimes.core.placements import Node
from betimes.kernels import Floats, Ints, Records, kernel

# More tasks than any node has room for.
MANY = 1 << 40


@dataclass(frozen=True)
class Rule:
    """A named rule of placement: `place` is the compiled hook, `spreads` whether a gang takes nodes in turn."""

    name: str
    summary: str
    place: Any
    spreads: bool = False


@kernel
def left_over(view: NodesView, nodes: Records[Node], number: int, slot: int) -> float:
    """Squared norm of the resources left on node `number` once one task of the job runs there."""
    node, cluster = nodes[number], view.cluster[0]
    needed_gpu, needed_cpu, needed_memory = demand_on(view, view.needs[slot], number)
    gpu = (node.free_gpu - needed_gpu) / cluster.most_gpu
    cpu = (node.free_cpu - needed_cpu) / cluster.most_cpu
    memory = (node.free_memory - needed_memory) / cluster.most_memory
    return gpu * gpu + cpu * cpu + memory * memory


@kernel
def first_fit(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """The node with the lowest number."""
    for k in range(len(fitting)):
        score[k] = float(fitting[k])


@kernel
def best_fit(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """The node with the least left."""
    for k in range(len(fitting)):
        score[k] = left_over(view, nodes, fitting[k], slot)


@kernel
def best_fit_by_cores(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """The node with the fewest GPUs left, among these the one with the fewest cores left."""
    for k in range(len(fitting)):
        node = nodes[fitting[k]]
        needed_gpu, needed_cpu, _ = demand_on(view, view.needs[slot], fitting[k])
        left_gpu, left_cpu = float(node.free_gpu - needed_gpu), float(node.free_cpu - needed_cpu)
        score[k] = left_gpu * (view.cluster[0].most_cpu + 1.0) + left_cpu


@kernel
def worst_fit(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """The node with the most left."""
    for k in range(len(fitting)):
        score[k] = -left_over(view, nodes, fitting[k], slot)


@kernel
def tightest_row(view: NodesView, nodes: Records[Node], slot: int, fitting: Ints, score: Floats) -> None:
    """The tightest row of nodes with numbers one after another, of those with room for all tasks, from its begin on.

    A row is as large as the number of such tasks that it has room for, be the job's fewer. If none has room for all,
    the whole of the largest is taken, and the same for what is left: the tightest fit by CPUs of Slurm's `_eval_nodes`
    (select/cons_tres), on nodes that are alike.
    """
    need, count = view.needs[slot], len(fitting)
    missing, turn = need.tasks, 0.0
    for k in range(count):
        score[k] = math.inf
    while missing > 0:
        best, best_tasks, at = -1, 0, 0
        while at < count:
            first, tasks = at, 0
            while at < count and (at == first or fitting[at] == fitting[at - 1] + 1):
                if score[at] == math.inf:
                    tasks += room_within(view, nodes[fitting[at]], fitting[at], need, MANY)
                at += 1
            if tasks > best_tasks < missing or missing <= tasks < best_tasks:
                best, best_tasks = first, tasks
        if best < 0:
            break
        at = best
        while at < count and (at == best or fitting[at] == fitting[at - 1] + 1):
            score[at] = turn
            at += 1
        missing -= best_tasks
        turn += 1.0


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("first", "the node with the lowest number", first_fit),
        Rule("best", "the node that has least left", best_fit),
        Rule("worst", "the node that has most left", worst_fit, spreads=True),
        Rule("best-cores", "the node that has fewest GPUs left, then fewest cores", best_fit_by_cores),
        Rule(
            "row",
            "the row of nodes with least room, of those with room for all tasks, else most",
            tightest_row,
        ),
    )
}
