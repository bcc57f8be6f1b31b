"""Distributions of job sizes and other draws: distributions of seconds, truncated normals, tables of cumulative
probabilities, weighted choices.

Every distribution of sizes has `sample(rng, n) -> float64[n]`, `mean_s` and `cdf(x)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.errors import InputError, TraceError, did_you_mean
from betimes.workload.small_table import SmallTable
from betimes.workload.speedup import bind

FloatArray = NDArray[np.float64]


class Sizes(Protocol):
    """A distribution of sizes in seconds."""

    @property
    def mean_s(self) -> float:
        """The mean of the distribution, not of a sample."""
        ...

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent sizes."""
        ...

    def cdf(self, x: ArrayLike) -> FloatArray:
        """The probability of a size up to `x`."""
        ...


@dataclass(frozen=True)
class Constant:
    """Every job has the same size."""

    size_s: float

    def __post_init__(self) -> None:
        _above_zero("mean_s", self.size_s)

    @property
    def mean_s(self) -> float:
        """The size."""
        return self.size_s

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` times the size."""
        return np.full(n, float(self.size_s))

    def cdf(self, x: ArrayLike) -> FloatArray:
        """A step at the size."""
        return (np.asarray(x) >= self.size_s).astype(np.float64)


@dataclass(frozen=True)
class Exponential:
    """Exponential sizes (the M of M/M/1)."""

    mean_s: float

    def __post_init__(self) -> None:
        _above_zero("mean_s", self.mean_s)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent sizes."""
        return rng.exponential(self.mean_s, n)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """1 - exp(-x / mean)."""
        return -np.expm1(-np.maximum(np.asarray(x, dtype=np.float64), 0.0) / self.mean_s)


@dataclass(frozen=True)
class LogNormal:
    """Sizes whose logarithm is normal, stated by their own mean and coefficient of variation (std / mean)."""

    mean_s: float
    cv: float

    def __post_init__(self) -> None:
        _above_zero("mean_s", self.mean_s)
        _above_zero("cv", self.cv)

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p(self.cv**2))

    @property
    def mu(self) -> float:
        """Mean of the logarithm."""
        return math.log(self.mean_s) - self.sigma**2 / 2

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent sizes."""
        return rng.lognormal(self.mu, self.sigma, n)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Phi((ln x - mu) / sigma)."""
        x = np.asarray(x, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return _phi((np.log(np.maximum(x, 0.0)) - self.mu) / self.sigma)


@dataclass(frozen=True)
class BoundedPareto:
    """Power-law sizes cut at both ends: density proportional to x ** (-shape - 1) on [min_s, max_s]."""

    shape: float
    min_s: float
    max_s: float

    def __post_init__(self) -> None:
        _above_zero("shape", self.shape)
        _interval(self.min_s, self.max_s)

    @property
    def _kept(self) -> float:
        # The share of the unbounded Pareto that lies below max_s.
        return -math.expm1(self.shape * math.log(self.min_s / self.max_s))

    @property
    def mean_s(self) -> float:
        """In closed form."""
        a, low, high = self.shape, self.min_s, self.max_s
        if abs(a - 1.0) < 1e-9:
            return low * math.log(high / low) / self._kept
        return a * low * -math.expm1((a - 1.0) * math.log(low / high)) / ((a - 1.0) * self._kept)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent sizes, by inversion."""
        sizes = self.min_s * (1.0 - rng.random(n) * self._kept) ** (-1.0 / self.shape)
        return np.clip(sizes, self.min_s, self.max_s)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """(1 - (min / x) ** shape) / (1 - (min / max) ** shape)."""
        inside = np.clip(np.asarray(x, dtype=np.float64), self.min_s, self.max_s)
        return np.minimum((1.0 - (self.min_s / inside) ** self.shape) / self._kept, 1.0)


@dataclass(frozen=True)
class TruncatedNormal:
    """A normal of the stated mean and standard deviation, kept where it falls in [min_s, max_s].

    `centre_s` and `std_s` are those *before* the cut; `mean_s` is the mean after it.
    """

    centre_s: float
    std_s: float
    min_s: float
    max_s: float

    def __post_init__(self) -> None:
        _above_zero("std_s", self.std_s)
        _interval(self.min_s, self.max_s)
        if not math.isfinite(self.centre_s):
            raise InputError(f"sizes, mean_s: expected a finite number, got {self.centre_s}")
        if self._kept < LEAST_ACCEPTANCE:
            raise InputError(
                f"sizes: under {LEAST_ACCEPTANCE:.1%} of a normal with mean {self.centre_s:g} and standard "
                f"deviation {self.std_s:g} lies in {self.min_s:g}..{self.max_s:g}; move min_s or max_s"
            )

    @property
    def _ends(self) -> tuple[float, float]:
        return (self.min_s - self.centre_s) / self.std_s, (self.max_s - self.centre_s) / self.std_s

    @property
    def _kept(self) -> float:
        return acceptance(self.centre_s, self.std_s, self.min_s, self.max_s)

    @property
    def mean_s(self) -> float:
        """In closed form."""
        low, high = self._ends
        densities = (math.exp(-low * low / 2) - math.exp(-high * high / 2)) / math.sqrt(2 * math.pi)
        return self.centre_s + self.std_s * densities / self._kept

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` independent sizes, by rejection (at least one draw in a thousand is kept)."""
        return truncated_normal(rng, n, self.centre_s, self.std_s, self.min_s, self.max_s)

    def cdf(self, x: ArrayLike) -> FloatArray:
        """The normal's, renormalised to the interval."""
        inside = np.clip(np.asarray(x, dtype=np.float64), self.min_s, self.max_s)
        below = 0.5 * (1.0 + math.erf(self._ends[0] / math.sqrt(2)))
        return (_phi((inside - self.centre_s) / self.std_s) - below) / self._kept


def _phi(z: FloatArray) -> FloatArray:
    erf = np.frompyfunc(math.erf, 1, 1)
    return 0.5 * (1.0 + np.asarray(erf(np.asarray(z) / math.sqrt(2)), dtype=np.float64))


def _above_zero(field: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"sizes, {field}: expected a finite number above 0, got {value}")


def _interval(min_s: float, max_s: float) -> None:
    _above_zero("min_s", min_s)
    _above_zero("max_s", max_s)
    if min_s >= max_s:
        raise InputError(f"sizes: expected min_s below max_s, got {min_s:g} and {max_s:g}")


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

        In a file of many tables the columns `kind` and `workload` assign each row to its table.
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


@dataclass(frozen=True)
class Mix:
    """Choices and their weights (which are normalised to sum 1)."""

    choices: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Mix:
        """`choice@weight` joined by `+`; a choice alone has weight 1."""
        choices: list[str] = []
        weights: list[float] = []
        for part in text.split("+"):
            choice, at, number = part.strip().rpartition("@")
            if not at:
                choice, number = number, "1"
            try:
                weight = float(number)
            except ValueError:
                weight = math.nan
            if not choice or not (math.isfinite(weight) and weight >= 0):
                raise InputError(
                    f"expected choices with weights such as 1@0.7+2@0.3, got {part!r} in {text!r}"
                )
            choices.append(choice)
            weights.append(weight)
        if len(set(choices)) != len(choices):
            raise InputError(f"expected every choice once, got {text!r}")
        total = sum(weights)
        if total <= 0:
            raise InputError(f"expected weights that sum to more than 0, got {text!r}")
        return cls(tuple(choices), tuple(weight / total for weight in weights))

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Indices into `choices`."""
        return rng.choice(len(self.choices), size=n, p=self.weights).astype(np.int64)

    def whole_numbers(self) -> NDArray[np.int64]:
        """The choices as numbers of units."""
        for choice in self.choices:
            if not (choice.isascii() and choice.isdigit() and 1 <= int(choice) <= 1_000_000):
                raise InputError(f"expected numbers of units from 1 such as 1@0.7+8@0.3, got {choice!r}")
        return np.array([int(choice) for choice in self.choices], dtype=np.int64)

    def formulas(self) -> tuple[str, ...]:
        """The choices as speed-up formulas; anything else is refused."""
        unknown = bind(self.choices, 1)[1]
        if unknown:
            raise InputError(
                f"expected speed-up curves such as linear@0.5+amdahl:0.05@0.5, got {unknown[0]!r}"
            )
        return self.choices
