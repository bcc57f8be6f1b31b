"""A distribution given as a table of (value, cumulative probability), linear between its points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.errors import InputError, TraceError, did_you_mean
from betimes.workload.small_table import SmallTable

FloatArray = NDArray[np.float64]

_END_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class EmpiricalCdf:
    """Piecewise-linear distribution: values ascending, cumulative probabilities ascending to 1.

    Equal neighbouring values are an atom; a first probability above 0 is an atom at the first value.
    """

    values: FloatArray
    probabilities: FloatArray

    @classmethod
    def of(cls, points: list[tuple[float, float]]) -> EmpiricalCdf:
        """From (value, cumulative probability) pairs; raises InputError naming the offending pair."""
        fault = _fault(points)
        if fault is not None:
            place, message = fault
            raise InputError(f"distribution, point {place + 1}: {message}")
        table = np.array(points, dtype=np.float64)
        return cls(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1]))

    @classmethod
    def read_csv(cls, path: str | Path, kind: str | None = None, workload: str | None = None) -> EmpiricalCdf:
        """From a CSV file with columns `value` and `cdf` (plain or gzip).

        A file that holds many tables says which row belongs to which in the columns `kind` and `workload`.
        Raises TraceError with file, line and field.
        """
        table = SmallTable(path, TraceError)
        rows = table.rows
        for field, wanted in (("kind", kind), ("workload", workload)):
            if field not in table.columns:
                if wanted is not None:
                    raise table.fail(f"no column {field} to find {wanted!r} in", field=field)
                continue
            names = tuple(dict.fromkeys(row.cells[field] for row in rows))
            if wanted is None:
                raise table.fail(f"the file holds several tables; say which {field}", field=field)
            if wanted not in names:
                # Both filters apply in turn, so the names on offer are those that really have a table.
                raise table.fail(f"no {field} {wanted!r}{did_you_mean(wanted, names)}", field=field)
            rows = [row for row in rows if row.cells[field] == wanted]
        for field in ("value", "cdf"):
            if field not in table.columns:
                raise table.fail(f"no column {field}; the header has {', '.join(table.columns)}", field=field)
        points = [(table.number(row, "value"), table.number(row, "cdf")) for row in rows]
        fault = _fault(points)
        if fault is not None:
            place, message = fault
            raise table.fail(message, rows[place].line)
        return cls.of(points)

    @property
    def points(self) -> list[tuple[float, float]]:
        """(value, cumulative probability) pairs."""
        return list(zip(self.values.tolist(), self.probabilities.tolist(), strict=True))

    @property
    def mean_s(self) -> float:
        """In closed form."""
        middles = (self.values[1:] + self.values[:-1]) / 2
        return float(self.values[0] * self.probabilities[0] + np.sum(np.diff(self.probabilities) * middles))

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent values, by inversion."""
        return np.interp(rng.random(n), self.probabilities, self.values)

    def sample_whole(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """`n` whole numbers, rounded up, so that P(N <= v) is the table's at every whole v in it."""
        return np.ceil(self.sample(rng, n)).astype(np.int64)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """The probability of a value up to `x`."""
        x = np.asarray(x, dtype=np.float64)
        after = np.searchsorted(self.values, x, side="right")
        low = np.maximum(after - 1, 0)
        high = np.minimum(after, len(self.values) - 1)
        width = self.values[high] - self.values[low]
        share = np.where(width > 0, (x - self.values[low]) / np.where(width > 0, width, 1.0), 0.0)
        inside = self.probabilities[low] + share * (self.probabilities[high] - self.probabilities[low])
        return np.where(after == 0, 0.0, inside)


def _fault(points: list[tuple[float, float]]) -> tuple[int, str] | None:
    """The first thing wrong with a table: the place of the point and what was expected."""
    for place, (value, probability) in enumerate(points):
        if not (np.isfinite(value) and value >= 0):
            return place, f"expected a finite value from 0, got {value:g}"
        if not 0 <= probability <= 1 + _END_TOLERANCE:
            return place, f"expected a cumulative probability from 0 to 1, got {probability:g}"
        if place and (value < points[place - 1][0] or probability < points[place - 1][1]):
            return place, "values and probabilities must not fall from one row to the next; sort the table"
    if not points or abs(points[-1][1] - 1.0) > _END_TOLERANCE:
        last = points[-1][1] if points else 0.0
        return max(len(points) - 1, 0), f"the last cumulative probability must be 1, got {last:g}"
    return None
