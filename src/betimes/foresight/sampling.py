"""The sample of jobs that are promised a finish."""

from __future__ import annotations

import numpy as np

from betimes.errors import InputError
from betimes.kernels import Ints


def drawn(jobs: int, sample: int | None, seed: int) -> Ints:
    """(jobs,) 1 for those that are promised a finish: all, or `sample` of them drawn by `seed`."""
    wanted: Ints = np.ones(jobs, dtype=np.int64)
    if sample is not None and sample < jobs:
        if sample < 1:
            raise InputError(f"--predict-sample {sample}: at least one job")
        wanted[:] = 0
        wanted[np.random.default_rng([seed, 0xD4A]).choice(jobs, sample, replace=False)] = 1
    return wanted
