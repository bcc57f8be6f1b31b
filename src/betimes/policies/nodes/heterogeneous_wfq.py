"""`wfq:...,heterogeneous=yes`: weighted fair queueing on nodes that run jobs at different speeds.

Where nodes are of one family it is `wfq` itself, on a pool (`where_alike`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from typing import cast

from betimes.cluster import Cluster
from betimes.core.planning import Planner
from betimes.policies.hooks import Parameter, Value
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.parsing import parsed
from betimes.policies.pool.wfq import class_weights, increasing, wfq

HETEROGENEOUS = Parameter(
    "heterogeneous",
    "on nodes of several families, by the jobs' speeds there; where they are of one it is `wfq` for a pool. Jobs keep "
    "their full width and take turns, so that zeta_min, delta and cap say nothing",
    "yes",
    choices=("yes",),
)
PERIOD = Parameter(
    "period",
    "on nodes: seconds between two rounds; a job starts, and gets what is free, in the next one",
    60.0,
    low=1.0,
    high=1e6,
    is_duration=True,
)
TURN = Parameter(
    "turn",
    "on nodes: seconds that a job runs for its share before another has its turn",
    360.0,
    low=0.0,
    high=1e6,
    is_duration=True,
)
THRESHOLDS = "thresholds"
NO_THRESHOLDS = (Fraction(3600), Fraction(36_000))


def _parameters() -> tuple[Parameter, ...]:
    """Those for a pool but for T, which makes classes of a whole trace at once."""
    of_pool = tuple(each for each in wfq.parameters if each.name != "T")
    return tuple(
        replace(each, default=NO_THRESHOLDS) if each.name == THRESHOLDS else each for each in of_pool
    )


def _turns(values: dict[str, Value | None], cluster: Cluster) -> Planner:
    from betimes.policies.packing.planners.heterogeneous import Turns

    weights = cast("tuple[Fraction, ...] | None", values["weights"])
    thresholds = cast("tuple[Fraction, ...]", values[THRESHOLDS])
    if thresholds is NO_THRESHOLDS and weights is not None and len(weights) == 1:
        thresholds = ()
    ends = increasing(thresholds)
    parts = class_weights(values, len(ends) + 1)
    period_s, turn_s = (float(cast("float", values[each.name])) for each in (PERIOD, TURN))
    return Turns((*ends, math.inf), [float(part) for part in parts], period_s, turn_s)


heterogeneous_wfq = NodesPolicy(
    name=wfq.name,
    summary="Classes of jobs by size share nodes of several families by weight, each job where it is fast.",
    question="Which trade-off between speed, fairness and predictability do you want, where machines differ?",
    paper="PCS (OSDI 2024), section 4, by the program of Gavel (OSDI 2020)",
    parameters=(*_parameters(), HETEROGENEOUS, PERIOD, TURN),
    planner=_turns,
    rents_nothing=True,
)


def where_alike(policy: str, families: Collection[str]) -> str:
    """The policy for machines of these families: `wfq` without `heterogeneous` where they are of one, or of none.

    Whoever names the engine, `nodes:wfq:...`, gets that. Raises PolicyError for a parameter that is only for nodes.
    """
    name, _, rest = policy.strip().partition(":")
    if name != wfq.name or len(families) > 1 or not asks_for_it(rest):
        return policy
    parts = {part: part.partition("=")[0].strip() for part in rest.split(",")}
    own = [part for part, named in parts.items() if named in (HETEROGENEOUS.name, PERIOD.name, TURN.name)]
    parsed(f"{name}:{','.join(own)}", {name: heterogeneous_wfq}, NodesPolicy)
    kept = [part for part in parts if part not in own]
    return f"{name}:{','.join(kept)}" if kept else name


def asks_for_it(parameters: str) -> bool:
    """Whether `heterogeneous` is among the parameters of a specification."""
    return any(part.partition("=")[0].strip() == HETEROGENEOUS.name for part in parameters.split(","))
