"""A normal distribution cut at both ends, in any unit: rejection sampling of what falls between them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Below this share of draws that are kept, the bounds are a mistake and rejection would take for ever.
LEAST_ACCEPTANCE = 1e-3
_DRAWS_AT_ONCE = 2**20


def acceptance(mean: float, sigma: float, low: float, high: float) -> float:
    """The share of a normal (of this mean and standard deviation, both before the cut) in [low, high]."""
    upper, lower = (high - mean) / sigma, (low - mean) / sigma
    return 0.5 * (math.erf(upper / math.sqrt(2)) - math.erf(lower / math.sqrt(2)))


def truncated_normal(
    rng: np.random.Generator, n: int, mean: float, sigma: float, low: float, high: float
) -> FloatArray:
    """`n` independent draws, by rejection (at least `LEAST_ACCEPTANCE` of the draws must be kept)."""
    kept = acceptance(mean, sigma, low, high)
    parts: list[FloatArray] = [np.empty(0)]
    missing = n
    while missing > 0:
        draws = min(int(missing / kept * 1.1) + 16, _DRAWS_AT_ONCE)
        drawn = rng.normal(mean, sigma, draws)
        parts.append(drawn[(drawn >= low) & (drawn <= high)][:missing])
        missing -= len(parts[-1])
    return np.concatenate(parts)
