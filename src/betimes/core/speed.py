"""How fast a job works on so many units."""

from __future__ import annotations

from betimes.kernels import FloatTable, kernel


@kernel
def speed(speedup: FloatTable, curve: int, units: float) -> float:
    """Work a second on `units`, linear between the whole numbers of units (PCS's simulator, `Job.rate`)."""
    below = int(units)
    if units == below:
        return speedup[curve, below]
    slow, fast = speedup[curve, below], speedup[curve, below + 1]
    return slow + (fast - slow) * (units - below)
