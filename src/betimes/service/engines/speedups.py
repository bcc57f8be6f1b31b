"""The speed-up curves of the jobs that have come so far, as rows of one array that grows."""

from __future__ import annotations

import numpy as np

from betimes.core.columns import Floats
from betimes.service.engines.moves import Wanted
from betimes.workload.speedup import formula_row

NARROWEST = 8


class Speedups:
    """Rows by curve; `table` is (curves, widest + 1), row[0] = 0 and row[1] = 1, flat beyond what a curve knows."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, tuple[float, ...]], int] = {}
        self.table: Floats = np.zeros((0, NARROWEST + 1))
        self.row_of(Wanted(0, 1, 1, "linear", 1.0))

    def row_of(self, wanted: Wanted) -> int:
        """The row of a job's curve; the table is a new one if it had to grow for it."""
        key = (wanted.curve, wanted.table)
        widest = self.table.shape[1] - 1
        if wanted.max_units > widest:
            widest = max(2 * widest, wanted.max_units)
            self.table = np.array([_row(*known, widest) for known in self.rows]).reshape(-1, widest + 1)
        if key not in self.rows:
            self.rows[key] = len(self.rows)
            self.table = np.concatenate([self.table, _row(*key, widest)[None, :]])
        return self.rows[key]

    def speed(self, wanted: Wanted, units: int) -> float:
        """How much faster a job runs on so many units than on one."""
        row = self.row_of(wanted)  # may make another table
        return float(self.table[row, units])


def _row(curve: str, table: tuple[float, ...], widest: int) -> Floats:
    if table:
        row = np.full(widest + 1, table[-1])
        row[0] = 0.0
        known = min(len(table), widest)
        row[1 : known + 1] = table[:known]
        return row
    row = formula_row(curve, widest)
    if row is None:
        raise ValueError(f"internal: {curve!r} is no speed-up curve")
    return row
