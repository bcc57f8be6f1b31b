"""The sizes that the scheduler knows: the truth, the user's estimate, the user's history, or the truth with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from betimes.errors import InputError
from betimes.kernels import Floats
from betimes.workload import Workload

SMALLEST_ESTIMATE_S = 1.0
USUAL_S = 3600.0  # believed of a user's first job where no job has an estimate


@dataclass(frozen=True)
class Sizes:
    """A choice of `--sizes`: `true`, `estimate`, `last-two`, `learned`, or `noise` with the error as a fraction."""

    kind: str
    error_frac: float = 0.0

    def __str__(self) -> str:
        return f"noise:{self.error_frac:g}" if self.kind == "noise" else self.kind


@dataclass(frozen=True)
class Beliefs:
    """Believed sizes (seconds on one unit), the pace of belief, and the limit on beliefs from history (s)."""

    size: Floats
    per_work: Floats
    longest_s: Floats
    without_estimate: int = 0
    assumed_s: float = math.nan  # of jobs without an estimate


def parse_sizes(text: str) -> Sizes:
    """`true`, `estimate`, `last-two`, `learned` or `noise:F` with F from 0 to 1; raises InputError."""
    kind, _, rest = text.partition(":")
    if kind in ("true", "estimate", "last-two", "learned") and not rest:
        return Sizes(kind)
    if kind == "noise":
        try:
            error = float(rest)
        except ValueError:
            error = -1.0
        if 0.0 <= error < 1.0:
            return Sizes(kind, error)
        raise InputError(f"--sizes {text}: noise takes a fraction of at least 0 and below 1, as in noise:0.2")
    raise InputError(f"--sizes {text}: choose true, estimate, last-two, learned or noise:F")


def beliefs(sizes: Sizes, workload: Workload, full_speed: Floats, seed: int) -> Beliefs:
    """The scheduler's beliefs about each job when it is submitted.

    full_speed: (jobs,) speed-up at max_units. A job without an estimate is believed to take as long as the
    median job that has one; where no job has any, `last-two` and `learned` believe an hour until they know better, and
    `estimate` raises InputError.
    """
    work = workload.work_s
    never = np.full(len(workload), np.inf)
    if sizes.kind == "true" or not len(workload):
        return Beliefs(work.copy(), np.ones(len(workload)), never)
    if sizes.kind == "noise":
        # One factor a job, drawn evenly from 1 - F to 1 + F (the simulator published with PCS, `-p_error`).
        factor = np.random.default_rng([seed, 0x51E5]).uniform(
            1.0 - sizes.error_frac, 1.0 + sizes.error_frac, len(workload)
        )
        return Beliefs(work * factor, factor, never)
    known = ~np.isnan(workload.estimate_s)
    if sizes.kind in ("last-two", "learned") and not known.any():
        usual_s = np.full(len(workload), USUAL_S)
        return Beliefs(usual_s * full_speed, np.ones(len(workload)), never, len(workload), USUAL_S)
    if not known.any():
        raise InputError(
            f"--sizes {sizes}: no job of {workload.name} has an estimate; choose true or noise:F"
        )
    median_s = float(np.median(workload.estimate_s[known]))
    estimate_s = np.where(known, workload.estimate_s, median_s)
    estimate_s = np.maximum(estimate_s, SMALLEST_ESTIMATE_S)
    longest_s = np.where(known, estimate_s, np.inf)
    return Beliefs(estimate_s * full_speed, np.ones(len(workload)), longest_s, int(np.sum(~known)), median_s)
