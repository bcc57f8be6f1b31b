"""How fast a job works on so many units."""

from __future__ import annotations

from betimes.core.columns import Floats
from betimes.core.kernel import inlined_kernel


@inlined_kernel
def speed(speedup: Floats, curve: int, units: float) -> float:
    """Work a second on `units`, linear between the whole numbers of units (PCS's simulator, `Job.rate`)."""
    below = int(units)
    if units == below:
        return speedup[curve, below]
    slow, fast = speedup[curve, below], speedup[curve, below + 1]
    return slow + (fast - slow) * (units - below)
