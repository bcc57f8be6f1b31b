"""What the pool engine is given of a policy: one record of rules and hooks."""

from __future__ import annotations

from collections.abc import Callable

from betimes.core.pool.columns import Again, Grant, View
from betimes.kernels import Floats, Ints, Records, Struct


class PoolRules(Struct):
    """Which parts of the loop a policy and a choice of sizes need, and the policy's hooks (`policies.hooks`)."""

    ranked: bool
    reads_progress: bool
    learns: bool  # beliefs come from the user's last two jobs
    rank: Callable[[View, float, Ints, Floats], None]
    classify: Callable[[View, int], int]
    allocate: Callable[[View, float, Records[Grant], Records[Again]], int]
