"""Speed-up curves by a formula: `linear`, `amdahl:0.05`, `power:0.8`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from betimes.errors import CurveError, nearest

FloatArray = NDArray[np.float64]

LINEAR = "linear"
FORMULAS = {
    "linear": "speed-up g on g units",
    "amdahl": "amdahl:F, a fraction F (0 to 1) of the work is serial: g / (F g + 1 - F)",
    "power": "power:A, speed-up g ** A with an exponent A from 0 to 1",
}


def formula_row(name: str, widest: int) -> FloatArray | None:
    """The row of a formula's name on 0..widest units; None where the name is not a formula's.

    Raises CurveError where it plainly tries to be one: its parameter is bad, or its family is nearly right.
    """
    family, colon, text = name.partition(":")
    if family not in FORMULAS:
        near = nearest(family, FORMULAS)
        if colon and near and _is_number(text):
            raise CurveError(f"no speed-up formula {family!r} in {name!r}; did you mean '{near[0]}:{text}'?")
        return None
    if family == LINEAR:
        if colon:
            raise CurveError(f"curve {name!r}: linear takes no parameter; write 'linear'")
        return linear_row(widest)
    if not _is_number(text) or not 0.0 <= float(text) <= 1.0:
        raise CurveError(f"curve {name!r}: expected {FORMULAS[family]}")
    return amdahl_row(float(text), widest) if family == "amdahl" else power_row(float(text), widest)


def linear_row(widest: int) -> FloatArray:
    """Speed-up g on g units, exactly."""
    return np.arange(widest + 1, dtype=np.float64)


def amdahl_row(serial_frac: float, widest: int) -> FloatArray:
    """Speed-up g / (f g + 1 - f): a fraction f of the work runs on one unit only (Amdahl 1967)."""
    units = linear_row(widest)
    return _tidy(units / np.maximum(serial_frac * units + (1.0 - serial_frac), 1e-300))


def power_row(exponent: float, widest: int) -> FloatArray:
    """Speed-up g ** a."""
    return _tidy(linear_row(widest) ** exponent)


def _tidy(row: FloatArray) -> FloatArray:
    row[0], row[1] = 0.0, 1.0
    # A formula may fall by one rounding error where it is almost flat; a row must not.
    return np.maximum.accumulate(row)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
