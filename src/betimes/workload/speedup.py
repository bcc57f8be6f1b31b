"""Speed-up curves: how much faster a job runs on `g` units than on one.

A curve is a row of numbers, `row[g]` for whole `g`, with `row[0] = 0` and `row[1] = 1`, never decreasing.
Between whole numbers of units it is interpolated linearly, as in the simulator published with PCS (`rate`).
It comes from a formula (`linear`, `amdahl:0.05`, `power:0.8`) or from a user's table of measurements
(`SpeedupTable.read_csv`).

Efficiency is `row[g] / g`. It is *allowed* to rise again with `g`: measured curves do (most DNN models of
AFS and PCS). The two ways of capping a job by efficiency differ exactly there, so both are
here: `cap_first_violation` (the published code) and `cap_largest` (the paper's definition).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from betimes.errors import CurveError, did_you_mean
from betimes.workload.curve_file import read_curves
from betimes.workload.speedup_formulas import FORMULAS, FloatArray, formula_row, linear_row

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SpeedupTable:
    """Speed-up curves as rows of one array.

    names: c curve names; speedup: float64[c, K+1], C-contiguous; last: int64[c], the largest number of units
    each curve knows (never above K). Beyond its last point a row continues flat: more units do not help.
    """

    names: tuple[str, ...]
    speedup: FloatArray
    last: IntArray

    def __post_init__(self) -> None:
        shape = (len(self.names), self.speedup.shape[1])
        if self.speedup.shape != shape or self.last.shape != shape[:1] or shape[1] < 2:
            raise ValueError(
                f"{len(self.names)} names, speed-ups {self.speedup.shape}, last {self.last.shape}"
            )

    @property
    def widest(self) -> int:
        """K, the largest number of units a row reaches."""
        return self.speedup.shape[1] - 1

    @classmethod
    def read_csv(cls, path: str | Path) -> SpeedupTable:
        """Measured curves of a CSV file (plain or gzip); see `betimes.workload.curve_file` for its columns.

        Raises CurveError with file, line and field.
        """
        curves = read_curves(path)
        widest = max(len(row) for row in curves.values()) - 1
        rows = np.empty((len(curves), widest + 1))
        for i, row in enumerate(curves.values()):
            rows[i, : len(row)] = row
            rows[i, len(row) :] = row[-1]
        last = np.array([len(row) - 1 for row in curves.values()], dtype=np.int64)
        return cls(tuple(curves), rows, last)

    def row(self, name: str) -> FloatArray:
        """The row of one curve; raises CurveError with the nearest name where there is none."""
        try:
            return self.speedup[self.names.index(name)]
        except ValueError:
            raise CurveError(f"no speed-up curve {name!r}{did_you_mean(name, self.names)}") from None

    def at(self, codes: NDArray[np.integer], units: NDArray[np.integer]) -> FloatArray:
        """Speed-up of curve `codes[i]` on the whole number `units[i]` of units (flat beyond the row)."""
        return self.speedup[codes, np.minimum(units, self.widest)]


def bind(
    curve_names: Sequence[str], widest: int, measured: SpeedupTable | None = None
) -> tuple[SpeedupTable, tuple[str, ...]]:
    """The rows that one simulation needs: row `i` is `curve_names[i]` on 0..widest units.

    A name is looked up among the measured curves, then among the formulas. What is neither (a model that
    was never measured) gets the linear curve and is returned, so that the caller can warn; a formula that
    is misspelt or out of range ("amdal:0.1", "power:2") is refused with a CurveError instead.
    """
    if widest < 1:
        raise CurveError(f"speed-up curves need at least one unit, got {widest}")
    rows = np.empty((len(curve_names), widest + 1))
    last = np.full(len(curve_names), widest, dtype=np.int64)
    known = {name: i for i, name in enumerate(measured.names)} if measured is not None else {}
    unknown: list[str] = []
    for i, name in enumerate(curve_names):
        if measured is not None and name in known:
            source = known[name]
            last[i] = min(int(measured.last[source]), widest)
            reach = last[i] + 1
            rows[i, :reach] = measured.speedup[source, :reach]
            rows[i, reach:] = rows[i, reach - 1]
            continue
        formula = formula_row(name, widest)
        if formula is None:
            unknown.append(name)
            formula = linear_row(widest)
        rows[i] = formula
    return SpeedupTable(tuple(curve_names), rows, last), tuple(unknown)


def unknown_curves_warning(unknown: Sequence[str], measured: SpeedupTable | None) -> str:
    """One line for the curves that `bind` could not find: what was assumed and what to do."""
    names = (*(measured.names if measured is not None else ()), *FORMULAS)
    shown = ", ".join(f"{name!r}{did_you_mean(name, names)}" for name in unknown[:3])
    more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
    advice = "add them to the table of curves" if measured is not None else "give measured curves"
    return f"no speed-up curve for {shown}{more}: linear speed-up assumed; {advice} to change that"


# --- pure functions on one row: plain loops, so that a compiler can take them as they are -----------


def rate(row: FloatArray, demand: int, units: float) -> float:
    """Work per second of a job that holds `units` (fractions allowed) and can use `demand`."""
    if units >= demand:
        return float(row[demand])
    low = int(units)
    return float(row[low] + (units - low) * (row[low + 1] - row[low]))


def efficiency(row: FloatArray, units: int) -> float:
    """Speed-up per unit on a whole number (at least 1) of units."""
    return float(row[units] / units)


def cap_first_violation(row: FloatArray, demand: int, zeta_min: float) -> int:
    """One unit less than the first number of units whose efficiency is below `zeta_min`; `demand` if none.

    What the published PCS code does: with an efficiency that dips and recovers it stops at the
    dip. It is 0 only for `zeta_min > 1`.
    """
    for units in range(1, demand + 1):
        if row[units] / units < zeta_min:
            return units - 1
    return demand


def cap_largest(row: FloatArray, demand: int, zeta_min: float) -> int:
    """The largest number of units up to `demand` whose efficiency is at least `zeta_min`, and at least 1.

    What the PCS paper defines (section 3.2).
    """
    for units in range(demand, 1, -1):
        if row[units] / units >= zeta_min:
            return units
    return 1
