"""From sizes and widths to gaps: the arithmetic of the offered load, and separate random streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from betimes.workload.speedup import bind

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def streams(seed: int, count: int) -> list[np.random.Generator]:
    """Independent generators, one an aspect: changing how jobs arrive leaves their sizes as they were."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def speedup_at_max(curve_names: tuple[str, ...], curve: IntArray, max_units: IntArray) -> FloatArray:
    """Each job's speed-up at full width, for curves that are formulas."""
    widest = int(max_units.max(initial=1))
    return bind(curve_names, widest)[0].at(curve, max_units)


def mean_gap_s(wanted_unit_s: FloatArray, load_frac: float, units: int) -> float:
    """The mean gap at which these jobs offer the stated load.

    `wanted_unit_s` is what each job wants in unit-seconds at full width; load is their sum over units x
    span, as in `Workload.offered_load`.
    """
    return float(wanted_unit_s.sum()) / (load_frac * units * max(len(wanted_unit_s) - 1, 1))


def rounded(values: FloatArray, resolution_s: float) -> FloatArray:
    """Times in multiples of the resolution (0: as they are)."""
    return np.round(values / resolution_s) * resolution_s if resolution_s > 0 else values
