"""Means over independent runs: confidence intervals whose width comes from the runs themselves."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np

from betimes import Result
from tests.theory.queues import STANDARD_ERRORS, WARM_UP_FRAC, Floats

REPLICATIONS = 20
JOBS = 10_000


def seeds_for(*case: object) -> range:
    """Seeds of a case's own, so that one unlucky draw does not shift all cases alike."""
    first = crc32(repr(case).encode())
    return range(first, first + REPLICATIONS)


def waits(result: Result) -> Floats:
    """Seconds from submission to the first start, in order of submission."""
    return result.jobs.start_s - result.jobs.submit_s


def steady(values: Floats) -> Floats:
    """Without the warm-up; values in the order of submission."""
    return values[int(WARM_UP_FRAC * len(values)) :]


def steady_mean(values: Floats, of: Floats | None = None) -> float:
    """The mean after the warm-up, of those jobs that the mask `of` keeps."""
    late = steady(values)
    return float(late.mean() if of is None else late[steady(of).astype(bool)].mean())


def agrees(means: Iterable[float], expected: float, *, precision: float) -> None:
    """Assert that independent runs have the expected mean, by their own standard error (below `precision`)."""
    values = np.array(list(means))
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    assert error < precision * expected, (
        f"a standard error of {error:.3g} proves nothing about {expected:.6g}"
    )
    assert abs(mean - expected) < STANDARD_ERRORS * error, (
        f"{mean:.6g} is {(mean - expected) / error:+.1f} standard errors from {expected:.6g}"
    )
