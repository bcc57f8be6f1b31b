"""The choices of victims that FitGpp compares with its own (section 4), in a policy that is the same otherwise.

*LRTP*: longest remaining time preemption (Big-C, ATC 2017). *Rand*: random victims, until there is room.
"""

from __future__ import annotations

from betimes.core.nodes.columns import NodesView
from betimes.core.work import believed_left
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, PLACEMENT, TRIM, NodesPolicy
from betimes.policies.nodes.orders import highest_level, lot


@kernel
def longest_remaining(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """By the believed remaining run time, the longest first."""
    for k in range(len(chosen)):
        score[k] = -believed_left(view, chosen[k], now)


lrtp = NodesPolicy(
    name="lrtp",
    summary="A trial job that finds no room preempts the best-effort jobs that have longest to go, as believed.",
    question="Who is hurt least by a pause, in proportion?",
    paper="Big-C (ATC 2017), as compared in FitGpp (OpML 2019), section 4",
    parameters=(MOST_PREEMPTIONS, TRIM, PLACEMENT),
    rank=highest_level,
    evict=longest_remaining,
)


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
