"""Policies that differ from FitGpp in the choice of victims alone.

*Youngest*: without checkpoints the job that started last loses least work; common among operators. *Lowest priority*:
jobs rank by priority, and a job may preempt those of lower priority.
"""

from __future__ import annotations

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.passes.preemption import level_of
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, PLACEMENT, TRIM, NodesPolicy
from betimes.policies.nodes.orders import highest_level


@kernel
def latest_start(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """By the start of the present run, the latest first."""
    for k in range(len(chosen)):
        score[k] = -view.progress[chosen[k]].since


youngest = NodesPolicy(
    name="youngest",
    summary="A trial job that finds no room preempts the best-effort jobs that have started last.",
    question="Whose pause loses the least work?",
    paper="the usual practice of operators",
    parameters=(MOST_PREEMPTIONS, TRIM, PLACEMENT),
    rank=highest_level,
    evict=latest_start,
    later_first=True,
)


@kernel
def least_urgent(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """By level, the lowest first; among equals the latest start first."""
    latest_start(view, now, slot, draw, chosen, score)
    mask = view.cluster[0].level_mask
    for k in range(len(chosen)):
        # A start lies between 0 and now: whole levels are further apart than starts can be.
        score[k] += float(level_of(view.needs[chosen[k]], mask)) * (now + 1.0)


lowest_priority = NodesPolicy(
    name="lowest-priority",
    summary="Jobs go by priority; one that finds no room preempts those of the lowest, the youngest first.",
    question="What if urgency is all that counts?",
    paper="the usual practice of operators",
    parameters=(MOST_PREEMPTIONS, TRIM, PLACEMENT),
    rank=highest_level,
    evict=least_urgent,
    later_first=True,
    by_priority=True,
)
