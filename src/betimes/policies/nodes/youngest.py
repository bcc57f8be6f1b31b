"""Youngest first: without checkpoints the job that started last loses least work; common among operators."""

from __future__ import annotations

from betimes.core.nodes.columns import NodesView
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
