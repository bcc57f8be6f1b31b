"""Random workloads of some size, from a seed, and the policies to run them under."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.workload import Workload

POLICIES = [
    "fifo",
    "srsf",
    "srtf",
    "las:quantum=30",
    "themis:lease=60",
    "afs",
    "max-min",
    "wfq:thresholds=20+60,weights=1/2+3/10+1/5,zeta_min=0.6,delta=0.1",
]
MODES = pytest.mark.parametrize("fractional", [True, False], ids=["fractional", "whole"])
EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)
CURVE_NAMES = ("linear", "amdahl:0.1", "power:0.7")


def crowd(
    seed: int,
    jobs: int,
    *,
    widest: int = 8,
    minimums: bool = True,
    gap_s: float = 6.0,
    whole_times: bool = False,
) -> Workload:
    """Jobs of mixed curves and widths, in bursts; with `whole_times` many things happen at one instant."""
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(gap_s, jobs) * (rng.random(jobs) < 0.7)
    work = rng.lognormal(3.0, 1.0, jobs)
    if whole_times:
        gaps, work = np.floor(gaps), np.ceil(work)
    widths = rng.integers(1, widest + 1, jobs)
    low = np.where(rng.random(jobs) < 0.4, rng.integers(1, widths + 1), 1) if minimums else 1
    curve = rng.integers(0, len(CURVE_NAMES), jobs)
    return Workload.from_columns(
        submit_s=np.cumsum(gaps),
        work_s=work,
        max_units=widths,
        min_units=low,
        curve=curve,
        curve_names=CURVE_NAMES,
        estimate_s=np.maximum(1.0, work / widths * rng.uniform(0.3, 4.0, jobs)),
        user=rng.integers(0, 5, jobs),
        name=f"crowd {seed}",
    )
