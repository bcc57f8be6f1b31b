"""The speed-up curves of the present jobs, as rows of one array."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from betimes.kernels import Floats
from betimes.service.engines.messages import JobRequest
from betimes.workload.speedup import formula_row

NARROWEST = 8


class Speedups:
    """Rows by curve; `table` is (curves, widest + 1), row[0] = 0 and row[1] = 1, flat beyond what a curve knows.

    Row 0 is the linear curve's. A change makes another table: a play-out of a copy of the state goes on with its own.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, tuple[float, ...]], int] = {("linear", ()): 0}
        self.table: Floats = _row("linear", (), NARROWEST)[None, :]

    def __len__(self) -> int:
        return len(self.rows)

    def row_of(self, request: JobRequest) -> int:
        """The row of a job's curve."""
        key = (request.curve, request.table)
        widest = self.table.shape[1] - 1
        if request.max_units > widest:
            self._make(list(self.rows), max(2 * widest, request.max_units))
        if key not in self.rows:
            self._make([*self.rows, key], self.table.shape[1] - 1)
        return self.rows[key]

    def keep(self, rows: Iterable[int]) -> dict[int, int]:
        """Forget all curves but these; the new row of each."""
        kept = sorted({0, *rows})
        keys = list(self.rows)
        self._make([keys[row] for row in kept], self.table.shape[1] - 1)
        return {row: at for at, row in enumerate(kept)}

    def _make(self, keys: list[tuple[str, tuple[float, ...]]], widest: int) -> None:
        self.rows = {key: row for row, key in enumerate(keys)}
        self.table = np.array([_row(*key, widest) for key in keys])


def speed(request: JobRequest, units: int) -> float:
    """Speed-up of a job on so many units over one."""
    return float(_row(request.curve, request.table, max(NARROWEST, request.max_units, units))[units])


@lru_cache(maxsize=4096)
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
