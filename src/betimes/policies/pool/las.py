"""Least attained service first, in two dimensions (Tiresias, NSDI 2019: units held times seconds)."""

from __future__ import annotations

from typing import cast

import numpy as np

from betimes.core.pool.columns import Again, Grant, View
from betimes.kernels import Floats, Ints, Records, kernel
from betimes.policies.hooks import Parameter, Policy, Prepared, Setting, Value, greedy

QUANTUM_S = 0


@kernel
def attained_service(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Unit-seconds held so far."""
    for k in range(len(chosen)):
        key[k] = view.jobs[chosen[k]].attained


@kernel
def share_in_turns(view: View, now: float, grants: Records[Grant], again: Records[Again]) -> int:
    """Hand out units by attained service, and again after a quantum while any job wants more than it holds."""
    count = greedy(view, now, grants, again)
    held = 0.0
    for k in range(count):
        held += grants[k].units
    if held < view.groups[0].demand:
        again[0].at_s = now + view.params[QUANTUM_S]
    return count


def _prepare(values: dict[str, Value | None], setting: Setting) -> Prepared:
    quantum_s = cast(float, values["quantum"])
    setting.check_period("las", "quantum", quantum_s)
    return Prepared(np.array([quantum_s]))


las = Policy(
    name="las",
    summary="The job that has held the fewest unit-seconds goes first, others backfill; decided again every quantum.",
    question="Which order gives short completion times when the sizes are unknown?",
    paper="Tiresias (NSDI 2019), two-dimensional least attained service",
    parameters=(
        Parameter("quantum", "seconds between two decisions when nothing else happens", 600.0, low=1e-3),
    ),
    rank=attained_service,
    in_order=True,
    allocate=share_in_turns,
    prepare=_prepare,
)
