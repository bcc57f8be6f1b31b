"""Measured speed-up curves from a CSV file.

Columns (any order, further ones ignored):

- `model`: the curve's name, spelt as in the trace;
- `num_gpus` or `units`: a whole number, at least 1; every model needs a row for 1;
- `time_per_iteration_us` or `time_per_iteration_s`: above 0; and/or
- `speedup` or `speedup_vs_1gpu`: above 0, and 1 on one unit.

Where time and speed-up both stand the ratio of the times counts, unrounded (a published speed-up is rounded);
a model whose times are all empty has its speed-ups read instead.
Units that were not measured, between two that were, get a linearly interpolated *speed-up*, as a fractional
allocation would. A speed-up that falls as units are added is refused, without a tolerance: no policy means
to slow a job down by giving it more, and smoothing would hide it. An efficiency that rises is allowed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from betimes.errors import CurveError
from betimes.workload.small_table import Row, SmallTable
from betimes.workload.speedup_formulas import FORMULAS, FloatArray

_UNITS = ("num_gpus", "units")
_TIMES = ("time_per_iteration_us", "time_per_iteration_s")
_SPEEDUPS = ("speedup", "speedup_vs_1gpu")
_MOST_UNITS = 1_000_000
_ONE_TOLERANCE = 1e-3  # a speed-up on one unit may be written as 0.9998


def read_curves(path: str | Path) -> dict[str, FloatArray]:
    """Curves by model name in the file's order: speed-ups on 0..last units of each.

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
