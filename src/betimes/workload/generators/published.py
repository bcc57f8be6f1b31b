"""The draws of the published PCS simulator, number for number (`sim.py: gen_workload`).

NumPy's legacy generator, whose stream is frozen for good, in the order of the published code. Its quirks are
the point: a value is drawn uniformly between two points of its table and *truncated* to a whole number (so
the top value never comes), widths come from a pool of 100 draws, and gaps are floored to whole units of time
(so the realised load is above the one asked for).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.workload.generators.empirical import EmpiricalCdf

_POOL = 100
_MAX_SEED = 2**32 - 1
DEFAULT_SEED = 4567


@dataclass(frozen=True)
class PublishedTables:
    """The four tables of a published workload, named as in its files."""

    service: EmpiricalCdf
    num_jobs: EmpiricalCdf
    max_gpus: EmpiricalCdf
    min_gpus: EmpiricalCdf


@dataclass(frozen=True)
class PublishedApps:
    """What comes out, in the simulator's own unit of time: arrival, one-unit work and width of every app."""

    arrival: NDArray[np.float64]
    work: NDArray[np.float64]
    width: NDArray[np.int64]


def published_apps(
    tables: PublishedTables, *, jobs: int, load_frac: float, units: int, seed: int
) -> PublishedApps:
    """The apps that the published simulator makes.

    Raises InputError for a seed beyond 32 bits and for tables that draw an app of nothing.
    """
    if not 0 <= seed <= _MAX_SEED:
        raise InputError(f"the published generator takes a seed from 0 to {_MAX_SEED}, got {seed}")
    rng = np.random.RandomState(seed)
    service = [_draw(rng, tables.service) for _ in range(jobs)]
    trials = [_draw(rng, tables.num_jobs) for _ in range(jobs)]
    pool = [_draw(rng, tables.max_gpus) for _ in range(_POOL)]
    for _ in range(_POOL):
        _draw(rng, tables.min_gpus)  # drawn and never used there, but it moves the stream on
    gaps = rng.exponential(float(np.mean(service)) / (load_frac * units), jobs)
    width = np.empty(jobs, dtype=np.int64)
    for i in range(jobs):
        width[i] = int(np.sum(rng.choice(pool, trials[i])))
        rng.choice(_ONE_MODEL)
    if min(trials) < 1 or width.min() < 1:
        raise InputError("the tables draw an app without a job or a unit; their values must begin at 1")
    work = [max(size // count, 1) * count for size, count in zip(service, trials, strict=True)]
    # App 0 arrives at 0; app i after the first i gaps.
    whole_gaps = np.floor(np.maximum(gaps, 0.01))
    arrival = np.concatenate(([0.0], np.cumsum(whole_gaps[:-1])))
    return PublishedApps(arrival, np.array(work, dtype=np.float64), width)


_ONE_MODEL: Sequence[int] = (0,)


def _draw(rng: np.random.RandomState, table: EmpiricalCdf) -> int:
    row = int(np.searchsorted(table.probabilities, rng.uniform(0, 1), side="left"))
    below = float(table.values[row - 1]) if row else 0.0
    return int(rng.uniform(below, float(table.values[row])))
