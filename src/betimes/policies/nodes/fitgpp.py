"""FitGpp: one victim, small, quick to leave, and large enough alone (FitGpp, sections 3 and 4)."""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.demands import demand_on
from betimes.core.nodes.passes.preemption import makes_room
from betimes.core.placements import Node
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, PLACEMENT, TRIM, NodesPolicy
from betimes.policies.nodes.orders import highest_level, lot

GRACE_WEIGHT = 4.0  # the paper's s
FALLBACK = 2  # place of the parameter among the numbers: s, P, fallback


@kernel
def least_score(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """Size over the largest size, plus s times grace period over the longest, for jobs that alone make enough room.

    The maxima are over all running best-effort jobs, including those that cannot be taken (equation 2). If no
    single job makes enough room, victims are drawn at random, or none is taken if the fallback is off.
    """
    falls_back = view.params[FALLBACK] > 0.0
    score_victims(view, slot, draw, chosen, score, view.params[0], view.params[1], falls_back)


@kernel
def score_victims(
    view: NodesView,
    slot: int,
    draw: int,
    chosen: Ints,
    score: Floats,
    weight: float,
    most: float,
    falls_back: bool,
) -> None:
    """Score as `least_score` does, with these parameters: s, P, and whether victims are drawn."""
    largest, longest_s = 0.0, 0.0
    for k in range(len(chosen)):
        score[k] = size_held(view, chosen[k])
        largest = max(largest, score[k])
        longest_s = max(longest_s, view.needs[chosen[k]].grace_s)
    found = False
    for k in range(len(chosen)):
        if view.progress[chosen[k]].preemptions < most and makes_room(view, chosen[k], slot):
            found = True
            score[k] /= largest
            if longest_s > 0.0:
                score[k] += weight * view.needs[chosen[k]].grace_s / longest_s
        else:
            score[k] = math.inf
    if not found and falls_back:
        for k in range(len(chosen)):
            score[k] = lot(view.cluster[0].seed, draw, view.jobs[chosen[k]].seq)


@kernel
def size_held(view: NodesView, slot: int) -> float:
    """Euclidean norm of a job's resources, each over the capacity of the node (section 3.1).

    The paper's jobs are on one node each. The size of a job on several nodes is the sum of its parts, each over the
    capacity of its node. Consecutive parts on nodes of one capacity are added up before the division, so that jobs of
    equal demand tie exactly.
    """
    need = view.needs[slot]
    gpu, cpu, memory = 0.0, 0.0, 0.0
    at = need.placed
    while at >= 0:
        node = view.nodes[view.placements[at].node]
        held_gpu, held_cpu, held_memory = 0, 0, 0
        while at >= 0 and _is_as_large(view.nodes[view.placements[at].node], node):
            placement = view.placements[at]
            task_gpu, task_cpu, task_memory = demand_on(view, need, placement.node)
            held_gpu += placement.tasks * task_gpu
            held_cpu += placement.tasks * task_cpu
            held_memory += placement.tasks * task_memory
            at = placement.follows
        # A resource that the node lacks is not held there.
        gpu += held_gpu / max(1, node.gpu)
        cpu += held_cpu / max(1, node.cpu)
        memory += held_memory / max(1, node.memory)
    return math.sqrt(gpu * gpu + cpu * cpu + memory * memory)


@kernel
def _is_as_large(node: Node, other: Node) -> bool:
    return node.gpu == other.gpu and node.cpu == other.cpu and node.memory == other.memory


fitgpp = NodesPolicy(
    name="fitgpp",
    summary="A trial job that finds no room preempts the one best-effort job that is small, leaves soon and suffices.",
    question="A trial job is in a hurry: who makes room?",
    paper="FitGpp (OpML 2019)",
    parameters=(
        Parameter(
            "s", "weight of the grace period against the size of a victim", GRACE_WEIGHT, low=0.0, high=1e6
        ),
        MOST_PREEMPTIONS,
        Parameter(
            "fallback",
            "where no single job suffices: take none, or some at random",
            "rand",
            choices=("none", "rand"),
        ),
        TRIM,
        PLACEMENT,
    ),
    rank=highest_level,
    evict=least_score,
)
