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
from betimes.workload.small_table import Row, SmallTable
from betimes.workload.speedup_formulas import FORMULAS, LINEAR, parse_formula

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Columns of a file of measured curves, by whichever name it has.
_UNITS = ("num_gpus", "units")
_TIMES = ("time_per_iteration_us", "time_per_iteration_s")
_SPEEDUPS = ("speedup", "speedup_vs_1gpu")
_MOST_UNITS = 1_000_000
_ONE_TOLERANCE = 1e-3  # a speed-up on one unit may be written as 0.9998


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
        """Measured curves of a CSV file (plain or gzip); see `betimes.workload.speedup.read_curves` for its columns.

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
    """One line for the curves that `bind` could not find: the assumption and the remedy."""
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

    As in the published PCS code: with an efficiency that dips and recovers it stops at the
    dip. The result is 0 only for `zeta_min > 1`.
    """
    for units in range(1, demand + 1):
        if row[units] / units < zeta_min:
            return units - 1
    return demand


def cap_largest(row: FloatArray, demand: int, zeta_min: float) -> int:
    """The largest number of units up to `demand` whose efficiency is at least `zeta_min`, and at least 1.

    As defined in the PCS paper (section 3.2).
    """
    for units in range(demand, 1, -1):
        if row[units] / units >= zeta_min:
            return units
    return 1


def formula_row(name: str, widest: int) -> FloatArray | None:
    """The row of a formula's name on 0..widest units; None where the name is not a formula's.

    Raises CurveError as `parse_formula` does.
    """
    formula = parse_formula(name)
    if formula is None:
        return None
    family, parameter = formula
    if family == LINEAR:
        return linear_row(widest)
    return amdahl_row(parameter, widest) if family == "amdahl" else power_row(parameter, widest)


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


def read_curves(path: str | Path) -> dict[str, FloatArray]:
    """Curves of a CSV file by model name in the file's order: speed-ups on 0..last units of each.

    Columns (any order, further ones ignored): `model`, the curve's name, spelt as in the trace; `num_gpus` or
    `units`, a whole number of at least 1 (every model needs a row for 1); `time_per_iteration_us` or
    `time_per_iteration_s`, above 0; and/or `speedup` or `speedup_vs_1gpu`, above 0, and 1 on one unit.
    Where time and speed-up both stand the ratio of the times counts, unrounded (a published speed-up is rounded);
    a model whose times are all empty has its speed-ups read instead. Units that were not measured, between two
    that were, get a linearly interpolated *speed-up*, as a fractional allocation would. A speed-up that falls as
    units are added is refused, without a tolerance: no policy means to slow a job down by giving it more, and
    smoothing would hide it. An efficiency that rises is allowed.

    Raises CurveError naming file, line and field.
    """
    table = SmallTable(path, CurveError)
    units_field = _one_of(table, _UNITS, "the number of units")
    time_field = _one_of(table, _TIMES, "a time per iteration", needed=False)
    speedup_field = _one_of(table, _SPEEDUPS, "a speed-up", needed=False)
    value_field = time_field or speedup_field
    if "model" not in table.columns or units_field is None or value_field is None:
        missing = "model" if "model" not in table.columns else f"{_TIMES[0]} or {_SPEEDUPS[0]}"
        raise table.fail(f"no column {missing}; the header has {', '.join(table.columns)}", field=missing)

    models: dict[str, dict[int, Row]] = {}
    for row in table.rows:
        own = models.setdefault(_model(table, row), {})
        units = _whole_units(table, row, units_field)
        if units in own:
            raise table.fail(
                f"{row.cells['model']} on {units} units stands on line {own[units].line} already",
                row.line,
                units_field,
            )
        own[units] = row
    curves: dict[str, FloatArray] = {}
    for model, own in models.items():
        # A model may have speed-ups only, in a table that has times of others.
        timed = time_field is not None and any(row.cells[time_field] for row in own.values())
        field = time_field if timed or speedup_field is None else speedup_field
        curves[model] = _curve(table, model, own, field or value_field, timed=timed)
    return curves


def _one_of(table: SmallTable, names: tuple[str, ...], what: str, *, needed: bool = True) -> str | None:
    found = [name for name in names if name in table.columns]
    if len(found) > 1:
        raise table.fail(f"both {found[0]} and {found[1]} give {what}; keep one", field=found[1])
    if not found and needed:
        wanted = " or ".join(names)
        raise table.fail(f"no column {wanted}; the header has {', '.join(table.columns)}", field=names[0])
    return found[0] if found else None


def _model(table: SmallTable, row: Row) -> str:
    model = row.cells["model"]
    if not model:
        raise table.fail("expected the name of a model", row.line, "model")
    if model.partition(":")[0] in FORMULAS:
        raise table.fail(
            f"{model!r} names a formula; give the measured curve another name", row.line, "model"
        )
    return model


def _whole_units(table: SmallTable, row: Row, field: str) -> int:
    value = table.number(row, field)
    if value != int(value) or not 1 <= value <= _MOST_UNITS:
        raise table.fail(
            f"expected a whole number from 1 to {_MOST_UNITS}, got {row.cells[field]!r}", row.line, field
        )
    return int(value)


def _curve(table: SmallTable, model: str, rows: dict[int, Row], field: str, *, timed: bool) -> FloatArray:
    measured = sorted(rows)
    if measured[0] != 1:
        raise table.fail(
            f"{model} has no row for 1 unit (its smallest is {measured[0]}); speed-up is relative to it",
            rows[measured[0]].line,
        )
    values = [_positive(table, rows[units], field) for units in measured]
    one = values[0]
    if not timed and abs(one - 1.0) > _ONE_TOLERANCE:
        raise table.fail(
            f"{model}: the speed-up on 1 unit is 1 by definition, got {one:g}", rows[1].line, field
        )
    speedups = [1.0, *((one / value if timed else value) for value in values[1:])]
    for k in range(1, len(measured)):
        if speedups[k] < speedups[k - 1]:
            raise table.fail(
                f"{model}: speed-up falls from {speedups[k - 1]:.6g} on {measured[k - 1]} units to "
                f"{speedups[k]:.6g} on {measured[k]}; measure again or leave the row out",
                rows[measured[k]].line,
                field,
            )
    grid = np.arange(measured[-1] + 1, dtype=np.float64)
    return np.interp(grid, [0.0, *map(float, measured)], [0.0, *speedups])


def _positive(table: SmallTable, row: Row, field: str) -> float:
    value = table.number(row, field)
    if value <= 0:
        raise table.fail(f"expected a number above 0, got {row.cells[field]!r}", row.line, field)
    return value
