"""Speed-up curves that a formula names: `linear`, `amdahl:F`, `power:A`. Clients check them, which have no NumPy."""

from __future__ import annotations

import difflib
import math

from betimes.errors import CurveError

LINEAR = "linear"
FORMULAS = {
    "linear": "speed-up g on g units",
    "amdahl": "amdahl:F, a fraction F (0 to 1) of the work is serial: g / (F g + 1 - F)",
    "power": "power:A, speed-up g ** A with an exponent A from 0 to 1",
}


def parse_formula(name: str) -> tuple[str, float] | None:
    """The family of a formula and its parameter (0 for `linear`); None where the name is not a formula's.

    Raises CurveError where it plainly tries to be one: its parameter is bad, or its family is nearly right.
    """
    family, colon, text = name.partition(":")
    if family not in FORMULAS:
        near = difflib.get_close_matches(family.lower(), list(FORMULAS), n=1, cutoff=0.7)
        if colon and near and _is_number(text):
            raise CurveError(f"no speed-up formula {family!r} in {name!r}; did you mean '{near[0]}:{text}'?")
        return None
    if family == LINEAR:
        if colon:
            raise CurveError(f"curve {name!r}: linear takes no parameter; write 'linear'")
        return family, 0.0
    if not _is_number(text) or not 0.0 <= float(text) <= 1.0:
        raise CurveError(f"curve {name!r}: expected {FORMULAS[family]}")
    return family, float(text)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
