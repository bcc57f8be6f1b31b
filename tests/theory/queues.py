"""What the tests against queueing theory share: arrivals, sizes of a stated distribution, errors of means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate

from betimes import Result, Workload

Floats = NDArray[np.float64]

WARM_UP_FRAC = 0.1
BATCHES = 30
STANDARD_ERRORS = 4.0  # two-sided t with 29 degrees of freedom: 1 in 2,500; the seeds are fixed besides


@dataclass(frozen=True)
class Size:
    """A distribution of work: its density and tail, its support, its first two moments, and draws from it."""

    name: str
    density: Callable[[float], float]
    tail: Callable[[float], float]
    low: float
    high: float
    mean: float
    second_moment: float
    draw: Callable[[np.random.Generator, int], Floats]


def exponential(mean: float = 1.0) -> Size:
    return Size(
        "exponential",
        lambda x: float(np.exp(-x / mean) / mean),
        lambda x: float(np.exp(-x / mean)),
        0.0,
        40.0 * mean,  # beyond it lies a probability of 4e-18
        mean,
        2.0 * mean**2,
        lambda rng, n: rng.exponential(mean, n),
    )


def bounded_pareto(shape: float = 1.5, spread: float = 100.0) -> Size:
    """Bounded Pareto with mean 1 whose largest value is `spread` times the smallest; shape not 1 or 2."""
    mass = 1.0 - spread**-shape
    unit_mean = shape / mass * (1.0 - spread ** (1.0 - shape)) / (shape - 1.0)
    low = 1.0 / unit_mean
    high = low * spread
    second = shape * low**shape / mass * (high ** (2.0 - shape) - low ** (2.0 - shape)) / (2.0 - shape)
    return Size(
        "bounded Pareto",
        lambda x: shape * low**shape * x ** (-shape - 1.0) / mass if low <= x <= high else 0.0,
        lambda x: float(((low / x) ** shape - spread**-shape) / mass) if low < x < high else float(x <= low),
        low,
        high,
        1.0,
        second,
        lambda rng, n: low * (1.0 - rng.random(n) * mass) ** (-1.0 / shape),
    )


def deterministic() -> Size:
    """Always 1; it has no density."""
    return Size(
        "deterministic",
        lambda _: 0.0,
        lambda x: float(x < 1.0),
        1.0,
        1.0,
        1.0,
        1.0,
        lambda _, n: np.ones(n),
    )


def poisson_workload(
    jobs: int, load_frac: float, size: Size, seed: int, *, units: int = 1, **columns: Any
) -> Workload:
    """Poisson arrivals that offer `load_frac` of the pool's `units`; further columns as the workload takes them."""
    rng = np.random.default_rng(seed)
    rate = load_frac * units / size.mean
    submit_s = np.cumsum(rng.exponential(1.0 / rate, jobs))
    return Workload.from_columns(submit_s=submit_s, work_s=size.draw(rng, jobs), **columns)


def responses(result: Result) -> Floats:
    return result.jobs.finish_s - result.jobs.submit_s


def mean_with_error(values: Floats) -> tuple[float, float]:
    """The mean after the warm-up and its standard error by batch means: values in the order of submission."""
    steady = values[int(WARM_UP_FRAC * len(values)) :]
    batches = np.array([batch.mean() for batch in np.array_split(steady, BATCHES)])
    return float(steady.mean()), float(batches.std(ddof=1) / np.sqrt(BATCHES))


def agrees(values: Floats, expected: float, *, precision: float) -> None:
    """Assert that the mean is the expected one, by its own standard error, which `precision` bounds (relative)."""
    mean, error = mean_with_error(values)
    assert error < precision * expected, (
        f"a standard error of {error:.3g} proves nothing about {expected:.6g}"
    )
    assert abs(mean - expected) < STANDARD_ERRORS * error, (
        f"{mean:.6g} is {(mean - expected) / error:+.1f} standard errors from {expected:.6g}"
    )


def integral(function: Callable[[float], float], low: float, high: float) -> float:
    value, error = integrate.quad(function, low, high, limit=200)
    assert error < 1e-6 * max(1.0, abs(value))
    return value


def partial_moment(size: Size, upto: float, power: int) -> float:
    """E[S^power; S <= upto]."""
    upto = min(upto, size.high)
    return integral(lambda x: x**power * size.density(x), size.low, upto) if upto > size.low else 0.0


def capped_moment(size: Size, upto: float, power: int) -> float:
    """E[min(S, upto)^power]."""
    return partial_moment(size, upto, power) + upto**power * size.tail(upto)
