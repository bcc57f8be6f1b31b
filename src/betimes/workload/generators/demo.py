"""`demo`: a busy cluster of elastic jobs on which policies differ visibly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from betimes.workload.generators.arrivals import (
    FloatArray,
    mean_gap_s,
    mmpp,
    rounded,
    speedup_at_max,
    streams,
    stretched,
)
from betimes.workload.generators.distributions import BoundedPareto, Mix
from betimes.workload.generators.parameters import Generator, Parameter
from betimes.workload.workload import Workload

SIZES = BoundedPareto(shape=0.8, min_s=120.0, max_s=40_000.0)
WIDTHS = "1@0.35+2@0.2+4@0.2+8@0.15+16@0.1"
CURVES = "linear@0.25+amdahl:0.02@0.25+power:0.9@0.25+amdahl:0.1@0.25"
BURSTS = {"burst_ratio": 5.0, "burst_frac": 0.2, "burst_jobs": 40.0}
USERS = 30
_USER_SKEW = 1.0
_ESTIMATE_STEP_S = 300.0
_UNDERESTIMATED = 0.05


def demo(*, units: int, seed: int, jobs: int, load: float) -> Workload:
    """Heavy-tailed sizes, four curves, bursts, some users with many jobs, and their rough estimates.

    Wide jobs are large: the Pareto size counts for each unit of the width. Whole seconds; the load is met up
    to that rounding. Users ask for one to several times the run time at full width, rounded up to five
    minutes; one job in twenty asks for too little.
    """
    arrival_rng, size_rng, width_rng, curve_rng, user_rng, estimate_rng = streams(seed, 6)
    widths, curves = Mix.parse(WIDTHS), Mix.parse(CURVES)
    max_units = np.minimum(widths.whole_numbers()[widths.sample(width_rng, jobs)], units)
    work_s = rounded(SIZES.sample(size_rng, jobs), 1.0) * max_units
    curve = curves.sample(curve_rng, jobs)
    run_s = work_s / speedup_at_max(curves.choices, curve, max_units)
    gap_s = mean_gap_s(run_s * max_units, load, units)
    gaps = stretched(mmpp(arrival_rng, jobs, gap_s, **BURSTS), gap_s)
    return Workload.from_columns(
        submit_s=rounded(np.cumsum(gaps), 1.0),
        work_s=work_s,
        min_units=1,
        max_units=max_units,
        curve=curve,
        curve_names=curves.choices,
        estimate_s=_estimates(estimate_rng, run_s),
        user=_users(user_rng, jobs),
        name="demo",
        machine_units=units,
    )


def _users(rng: np.random.Generator, jobs: int) -> NDArray[np.int64]:
    weights = 1.0 / np.arange(1, USERS + 1) ** _USER_SKEW
    return rng.choice(USERS, size=jobs, p=weights / weights.sum()).astype(np.int64)


def _estimates(rng: np.random.Generator, run_s: FloatArray) -> FloatArray:
    asked = run_s * (1.0 + rng.exponential(1.0, len(run_s)))
    padded = np.ceil(asked / _ESTIMATE_STEP_S) * _ESTIMATE_STEP_S
    return np.where(
        rng.random(len(run_s)) < _UNDERESTIMATED, np.maximum(rounded(run_s / 2, 1.0), 1.0), padded
    )


GENERATOR = Generator(
    name="demo",
    description="A busy cluster of elastic jobs: heavy-tailed sizes, four curves, bursts, estimates.",
    source="Betimes",
    parameters=(
        Parameter("jobs", "int", 2000, "number of jobs", minimum=1, maximum=1_000_000),
        Parameter(
            "load",
            "float",
            0.9,
            "offered load: unit-seconds wanted at full width over units x time",
            minimum=0,
            above=True,
        ),
    ),
    function=demo,
)
