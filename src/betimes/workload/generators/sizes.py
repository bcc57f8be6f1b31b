"""How large jobs are: distributions of seconds, each with its mean and cumulative distribution.

Every distribution has `sample(rng, n) -> float64[n]`, `mean_s` and `cdf(x)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.errors import InputError
from betimes.workload.generators.truncated import LEAST_ACCEPTANCE, acceptance, truncated_normal

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
