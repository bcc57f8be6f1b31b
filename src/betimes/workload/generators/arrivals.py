"""Arrival processes: gaps between submissions, at a stated mean gap, and the gap at which jobs offer a stated load.

Processes return float64[n], seconds since the previous job; the first gap is 0, so job 0 arrives at 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from betimes.errors import InputError
from betimes.workload.speedup import bind

FloatArray = NDArray[np.float64]


def poisson(rng: np.random.Generator, jobs: int, mean_gap_s: float) -> FloatArray:
    """Independent exponential gaps: arrivals know nothing of each other."""
    gaps = rng.exponential(mean_gap_s, jobs)
    gaps[:1] = 0.0
    return gaps


def batches(rng: np.random.Generator, jobs: int, mean_gap_s: float, batch_jobs: float) -> FloatArray:
    """Batch-Poisson: batches arrive as a Poisson process, a batch's jobs at one instant.

    Batch sizes are geometric with mean `batch_jobs` (at least 1; 1 is plain Poisson). The squared coefficient
    of variation of the gaps is `2 batch_jobs - 1`.
    """
    opens = rng.random(jobs) < 1.0 / batch_jobs  # a job opens a new batch, or joins the one before it
    gaps = np.where(opens, rng.exponential(mean_gap_s * batch_jobs, jobs), 0.0)
    gaps[:1] = 0.0
    return gaps


def mmpp(
    rng: np.random.Generator,
    jobs: int,
    mean_gap_s: float,
    *,
    burst_ratio: float,
    burst_frac: float,
    burst_jobs: float,
) -> FloatArray:
    """Poisson arrivals whose rate switches between calm and burst (a two-state MMPP, in steady state).

    A burst's rate is `burst_ratio` (at least 1) times the calm rate. Bursts fill `burst_frac` (between 0 and
    1) of the time and bring `burst_jobs` (at least 1) jobs each on average; both states last exponentially
    long.
    """
    calm_rate = 1.0 / (mean_gap_s * (burst_frac * burst_ratio + 1.0 - burst_frac))
    burst_rate = burst_ratio * calm_rate
    burst_s = burst_jobs / burst_rate
    calm_s = burst_s * (1.0 - burst_frac) / burst_frac
    first_is_burst = bool(rng.random() < burst_frac)

    # In a clock that runs at the current rate the arrivals are a plain Poisson process; `clock_at_switch` and
    # `time_at_switch` map that clock to time.
    clock = np.cumsum(rng.exponential(1.0, jobs))
    clock_at_switch, time_at_switch = np.zeros(1), np.zeros(1)
    jobs_a_pair = burst_jobs + calm_rate * calm_s
    while jobs and clock_at_switch[-1] < clock[-1]:
        pairs = math.ceil((clock[-1] - clock_at_switch[-1]) / jobs_a_pair) + 2
        in_burst = np.tile([first_is_burst, not first_is_burst], pairs)
        lasts = rng.exponential(np.where(in_burst, burst_s, calm_s))
        ticks = lasts * np.where(in_burst, burst_rate, calm_rate)
        clock_at_switch = np.concatenate((clock_at_switch, clock_at_switch[-1] + np.cumsum(ticks)))
        time_at_switch = np.concatenate((time_at_switch, time_at_switch[-1] + np.cumsum(lasts)))
    arrivals = np.interp(clock, clock_at_switch, time_at_switch)
    return np.diff(arrivals, prepend=arrivals[:1])


def replayed(jobs: int, gaps: ArrayLike, mean_gap_s: float | None = None) -> FloatArray:
    """Given gaps in their order, from the start again at their end; stretched to a mean gap if stated."""
    chosen = np.concatenate((np.zeros(min(jobs, 1)), np.resize(_checked(gaps), max(jobs - 1, 0))))
    return chosen if mean_gap_s is None else stretched(chosen, mean_gap_s)


def resampled(
    rng: np.random.Generator, jobs: int, gaps: ArrayLike, mean_gap_s: float | None = None
) -> FloatArray:
    """Gaps drawn from given ones with replacement: their distribution without their order."""
    drawn = rng.choice(_checked(gaps), max(jobs - 1, 0))
    chosen = np.concatenate((np.zeros(min(jobs, 1)), drawn))
    return chosen if mean_gap_s is None else stretched(chosen, mean_gap_s)


def stretched(gaps: FloatArray, mean_gap_s: float) -> FloatArray:
    """These gaps times one factor, so that the mean of all but the first is `mean_gap_s` exactly."""
    if len(gaps) < 2:
        return gaps
    own = float(np.mean(gaps[1:]))
    if own == 0:
        raise InputError("all jobs would arrive at one instant, which no stretching can bring to a load")
    return gaps * (mean_gap_s / own)


def _checked(gaps: ArrayLike) -> FloatArray:
    source = np.asarray(gaps, dtype=np.float64)
    if source.ndim != 1 or len(source) == 0:
        raise InputError("gaps to replay: expected at least one; take a trace with two jobs or more")
    if not np.all(np.isfinite(source)) or np.any(source < 0):
        worst = int(np.argmin(np.where(np.isfinite(source), source, -np.inf)))
        raise InputError(
            f"gaps to replay: expected finite numbers from 0, got {source[worst]} at place {worst}"
        )
    return source


IntArray = NDArray[np.int64]


def streams(seed: int, count: int) -> list[np.random.Generator]:
    """Independent generators, one an aspect: changing how jobs arrive leaves their sizes as they were."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def speedup_at_max(curve_names: tuple[str, ...], curve: IntArray, max_units: IntArray) -> FloatArray:
    """Each job's speed-up at full width, for curves that are formulas."""
    widest = int(max_units.max(initial=1))
    return bind(curve_names, widest)[0].at(curve, max_units)


def mean_gap_s(wanted_unit_s: FloatArray, load_frac: float, units: int) -> float:
    """The mean gap at which these jobs offer the stated load.

    `wanted_unit_s` is each job's demand in unit-seconds at full width; load is their sum over units x
    span, as in `Workload.offered_load`.
    """
    return float(wanted_unit_s.sum()) / (load_frac * units * max(len(wanted_unit_s) - 1, 1))


def rounded(values: FloatArray, resolution_s: float) -> FloatArray:
    """Times in multiples of the resolution (0: as they are)."""
    return np.round(values / resolution_s) * resolution_s if resolution_s > 0 else values
