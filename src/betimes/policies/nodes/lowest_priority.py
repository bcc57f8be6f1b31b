"""Lowest priority first: jobs rank by priority, and a job may preempt those of lower priority."""

from __future__ import annotations

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.passes.preemption import level_of
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, PLACEMENT, TRIM, NodesPolicy
from betimes.policies.nodes.orders import highest_level
from betimes.policies.nodes.youngest import latest_start


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
