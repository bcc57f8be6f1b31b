"""FitGpp: one victim, small, quick to leave, and large enough alone (FitGpp, sections 3 and 4)."""

from __future__ import annotations

import math

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.passes.preemption import makes_room
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, PLACEMENT, TRIM, NodesPolicy
from betimes.policies.nodes.lots import lot
from betimes.policies.nodes.orders import highest_level

FALLBACK = 2  # place of the parameter among the numbers: s, P, fallback


@kernel
def least_score(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """Size over the largest size, plus s times grace period over the longest; only who makes room alone.

    A size is over the capacity of the largest node; the paper says of "the node", and its nodes are equal.

    The maxima are over all running best-effort jobs, also those that cannot be taken (equation 2). Where no
    single job makes room, victims are drawn at random, or none is taken if the fallback is off.
    """
    largest, longest_s = 0.0, 0.0
    for k in range(len(chosen)):
        need = view.needs[chosen[k]]
        largest = max(largest, need.share)
        longest_s = max(longest_s, need.grace_s)
    weight, most = view.params[0], view.params[1]
    found = False
    for k in range(len(chosen)):
        need = view.needs[chosen[k]]
        score[k] = math.inf
        if view.progress[chosen[k]].preemptions < most and makes_room(view, chosen[k], slot):
            found = True
            score[k] = need.share / largest
            if longest_s > 0.0:
                score[k] += weight * need.grace_s / longest_s
    if not found and view.params[FALLBACK] > 0.0:
        for k in range(len(chosen)):
            score[k] = lot(view.cluster[0].seed, draw, view.jobs[chosen[k]].seq)


fitgpp = NodesPolicy(
    name="fitgpp",
    summary="A trial job that finds no room preempts the one best-effort job that is small, leaves soon and suffices.",
    question="A trial job is in a hurry: who makes room?",
    paper="FitGpp (OpML 2019)",
    parameters=(
        Parameter("s", "weight of the grace period against the size of a victim", 4.0, low=0.0, high=1e6),
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
