"""Orders of the queue of waiting jobs.

Static keys are computed once, when a job begins to wait; dynamic ones at every pass. Sources: WFP3 and UNICEF
are those of Tang et al. (CLUSTER 2009) and of the portfolio study, whose "LXF" is `slowdown` here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from betimes.core.nodes.columns import NodesView
from betimes.core.nodes.passes.preemption import level_of
from betimes.core.work import believed_left
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.size_classes import SIZE_CLASSES, by_class_shares

LEAST_RUN_S = 1.0  # least run time as a divisor


@dataclass(frozen=True)
class Order:
    """A named rank: `rank` is the compiled hook, `dynamic` whether it changes while a job waits.

    parameters: it is for policies that have these.
    """

    name: str
    summary: str
    rank: Any
    dynamic: bool = False
    parameters: tuple[Parameter, ...] = ()


@kernel
def first_come(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By submission."""
    for k in range(len(chosen)):
        key[k] = 0.0


@kernel
def highest_level(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By level, the highest first, then by submission."""
    mask = view.cluster[0].level_mask
    for k in range(len(chosen)):
        key[k] = -float(level_of(view.needs[chosen[k]], mask))


@kernel
def shortest(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By the believed remaining run time."""
    for k in range(len(chosen)):
        key[k] = believed_left(view, chosen[k], now)


@kernel
def longest(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By the believed remaining run time, the longest first."""
    for k in range(len(chosen)):
        key[k] = -believed_left(view, chosen[k], now)


@kernel
def widest(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By the norm of the whole job's demand, the largest first."""
    for k in range(len(chosen)):
        key[k] = -view.needs[chosen[k]].share


@kernel
def expansion(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By the slowdown of the job if it starts now, (wait + run) / run, the largest first."""
    for k in range(len(chosen)):
        run_s = max(believed_left(view, chosen[k], now), LEAST_RUN_S)
        key[k] = -(now - view.jobs[chosen[k]].submit_s + run_s) / run_s


@kernel
def wfp3(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By (wait / run)^3 x units, the largest first."""
    for k in range(len(chosen)):
        job = view.jobs[chosen[k]]
        waited = (now - job.submit_s) / max(believed_left(view, chosen[k], now), LEAST_RUN_S)
        key[k] = -(waited * waited * waited * job.max_units)


@kernel
def unicef(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By wait / (log2(units) x run), the largest first; a job of one unit counts as one of two."""
    for k in range(len(chosen)):
        job = view.jobs[chosen[k]]
        run_s = max(believed_left(view, chosen[k], now), LEAST_RUN_S)
        key[k] = -(now - job.submit_s) / (math.log2(max(job.max_units, 2)) * run_s)


@kernel
def at_random(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By a lot drawn once for each job, so that copies of the state play alike."""
    for k in range(len(chosen)):
        key[k] = lot(view.cluster[0].seed, 0, view.jobs[chosen[k]].seq)


ORDERS: dict[str, Order] = {
    order.name: order
    for order in (
        Order("fifo", "by submission", first_come),
        Order(
            "level",
            "trial jobs first, or by priority where a policy goes by it; then by submission",
            highest_level,
        ),
        Order("sjf", "the shortest first, as believed", shortest),
        Order("ljf", "the longest first, as believed", longest),
        Order("widest", "the largest demand first", widest),
        Order("slowdown", "the largest slowdown first, if it started now", expansion, dynamic=True),
        Order("wfp3", "the largest (wait / run)^3 x units first", wfp3, dynamic=True),
        Order("unicef", "the largest wait / (log2(units) x run) first", unicef, dynamic=True),
        Order("random", "by lots, drawn by the seed", at_random),
        Order(
            "wfq-order",
            "the class of jobs by size that is furthest below its share, as under the policy of that name",
            by_class_shares,
            dynamic=True,
            parameters=SIZE_CLASSES,
        ),
    )
}


# --- lots that depend only on a seed, the number of the draw and the job: the same live and simulated ---

LOW_32 = 0xFFFFFFFF


@kernel
def lot(seed: int, draw: int, seq: int) -> float:
    """A uniform number from 0 up to 1 for one job in one draw."""
    return _mixed(_mixed(_mixed(seed & LOW_32) + draw) + seq) / 4294967296.0


@kernel
def _mixed(number: int) -> int:
    """A 32-bit hash of `number`; products stay within 63 bits."""
    bits = number & LOW_32
    bits = ((bits ^ (bits >> 16)) * 0x45D9F3B) & LOW_32
    bits = ((bits ^ (bits >> 16)) * 0x45D9F3B) & LOW_32
    return bits ^ (bits >> 16)
