"""Random victims, until there is room (FitGpp, section 4, a baseline)."""

from __future__ import annotations

from betimes.core.nodes.columns import NodesView
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, PLACEMENT, TRIM, NodesPolicy
from betimes.policies.nodes.lots import lot
from betimes.policies.nodes.orders import highest_level


@kernel
def drawn(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """By lot."""
    for k in range(len(chosen)):
        score[k] = lot(view.cluster[0].seed, draw, view.jobs[chosen[k]].seq)


rand = NodesPolicy(
    name="rand",
    summary="A trial job that finds no room preempts best-effort jobs at random until there is some.",
    question="What does choosing victims well bring?",
    paper="FitGpp (OpML 2019), section 4",
    parameters=(MOST_PREEMPTIONS, TRIM, PLACEMENT),
    rank=highest_level,
    evict=drawn,
)
