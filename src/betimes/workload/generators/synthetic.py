"""`synthetic`: any arrival process with any distribution of sizes, widths and curves, at a stated load."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from betimes.errors import InputError
from betimes.workload.generators import arrivals as arrival_processes
from betimes.workload.generators.arrivals import FloatArray, mean_gap_s, rounded, speedup_at_max, streams
from betimes.workload.generators.distributions import (
    BoundedPareto,
    Constant,
    EmpiricalCdf,
    Exponential,
    LogNormal,
    Mix,
    Sizes,
    TruncatedNormal,
)
from betimes.workload.generators.parameters import Generator, Parameter
from betimes.workload.workload import Workload

ARRIVALS = ("poisson", "batches", "mmpp", "replay", "resample")
SIZES = ("exponential", "lognormal", "pareto", "normal", "constant", "cdf")
_FROM_TRACE = ("replay", "resample")


def synthetic(
    *,
    units: int,
    seed: int,
    jobs: int,
    load: float,
    arrivals: str,
    batch_jobs: float,
    burst_ratio: float,
    burst_frac: float,
    burst_jobs: float,
    gaps_of: str,
    sizes: str,
    mean_s: float,
    cv: float,
    shape: float,
    min_s: float,
    max_s: float,
    cdf: str,
    cdf_of: str,
    widths: str,
    rigid: bool,
    curves: str,
    exact: bool,
    resolution_s: float,
) -> Workload:
    """Jobs as the parameters of `GENERATOR` say; raises InputError."""
    distribution = size_distribution(
        sizes, mean_s=mean_s, cv=cv, shape=shape, min_s=min_s, max_s=max_s, cdf=cdf, cdf_of=cdf_of
    )
    width_mix = Mix.parse(widths)
    curve_names = Mix.parse(curves).formulas()
    arrival_rng, size_rng, width_rng, curve_rng = streams(seed, 4)

    work_s = rounded(distribution.sample(size_rng, jobs), resolution_s)
    work_s = np.maximum(work_s, resolution_s or np.finfo(np.float64).tiny)
    max_units = width_mix.whole_numbers()[width_mix.sample(width_rng, jobs)]
    curve = Mix.parse(curves).sample(curve_rng, jobs)
    speedup = speedup_at_max(curve_names, curve, max_units)
    gap_s = mean_gap_s(work_s / speedup * max_units, load, units)
    if arrivals == "poisson":
        gaps = arrival_processes.poisson(arrival_rng, jobs, gap_s)
    elif arrivals == "batches":
        gaps = arrival_processes.batches(arrival_rng, jobs, gap_s, batch_jobs)
    elif arrivals == "mmpp":
        gaps = arrival_processes.mmpp(
            arrival_rng, jobs, gap_s, burst_ratio=burst_ratio, burst_frac=burst_frac, burst_jobs=burst_jobs
        )
    elif arrivals == "replay":
        gaps = arrival_processes.replayed(jobs, gaps_of_trace(gaps_of), gap_s)
    else:
        gaps = arrival_processes.resampled(arrival_rng, jobs, gaps_of_trace(gaps_of), gap_s)
    if exact:
        gaps = arrival_processes.stretched(gaps, gap_s)
    return Workload.from_columns(
        submit_s=rounded(np.cumsum(gaps), resolution_s),
        work_s=work_s,
        min_units=max_units if rigid else 1,
        max_units=max_units,
        curve=curve,
        curve_names=curve_names,
        name="synthetic",
        machine_units=units,
    )


def size_distribution(
    name: str,
    *,
    mean_s: float,
    cv: float,
    shape: float,
    min_s: float,
    max_s: float,
    cdf: str = "",
    cdf_of: str = "",
) -> Sizes:
    """The distribution that a name and its parameters mean; raises InputError."""
    if name == "exponential":
        return Exponential(mean_s)
    if name == "lognormal":
        return LogNormal(mean_s, cv)
    if name == "pareto":
        return BoundedPareto(shape, min_s, max_s)
    if name == "normal":
        return TruncatedNormal(mean_s, cv * mean_s, min_s, max_s)
    if name == "constant":
        return Constant(mean_s)
    if not cdf:
        raise InputError("sizes=cdf needs cdf=PATH, a table with the columns value and cdf")
    kind, slash, workload = cdf_of.partition("/")
    if cdf_of and not slash:
        raise InputError(f"cdf_of: expected KIND/WORKLOAD, got {cdf_of!r}")
    return EmpiricalCdf.read_csv(Path(cdf), kind or None, workload or None)


def gaps_of_trace(path: str) -> FloatArray:
    """The gaps between the submissions of a trace in any known format; raises InputError."""
    if not path:
        raise InputError("arrivals=replay and arrivals=resample need gaps_of=PATH, a trace")
    from betimes.workload.readers.registry import read_trace

    return np.diff(read_trace(path).submit_s)


GENERATOR = Generator(
    name="synthetic",
    description="Any arrival process, sizes, widths and curves, at a stated load.",
    source="Betimes",
    parameters=(
        Parameter("jobs", "int", 1000, "number of jobs", minimum=1, maximum=10_000_000),
        Parameter(
            "load",
            "float",
            0.8,
            "offered load: unit-seconds wanted at full width over units x time",
            minimum=0,
            above=True,
        ),
        Parameter("arrivals", "choice", "poisson", "arrival process", choices=ARRIVALS),
        Parameter(
            "batch_jobs",
            "float",
            10.0,
            "mean (geometric) number of jobs that arrive at one instant",
            minimum=1,
            used_with=("arrivals", ("batches",)),
        ),
        Parameter(
            "burst_ratio",
            "float",
            10.0,
            "arrival rate in a burst over the calm rate",
            minimum=1,
            used_with=("arrivals", ("mmpp",)),
        ),
        Parameter(
            "burst_frac",
            "float",
            0.1,
            "share of the time that is burst",
            minimum=0.001,
            maximum=0.999,
            used_with=("arrivals", ("mmpp",)),
        ),
        Parameter(
            "burst_jobs",
            "float",
            50.0,
            "mean number of jobs a burst",
            minimum=1,
            used_with=("arrivals", ("mmpp",)),
        ),
        Parameter(
            "gaps_of",
            "path",
            "",
            "trace whose gaps are replayed in order or resampled, stretched to the load",
            used_with=("arrivals", _FROM_TRACE),
        ),
        Parameter(
            "sizes", "choice", "exponential", "distribution of the run time on one unit", choices=SIZES
        ),
        Parameter(
            "mean_s",
            "float",
            3600.0,
            "mean size in seconds (normal: before the cut)",
            minimum=0,
            above=True,
            used_with=("sizes", ("exponential", "lognormal", "normal", "constant")),
        ),
        Parameter(
            "cv",
            "float",
            2.0,
            "standard deviation over mean (normal: before the cut)",
            minimum=0,
            above=True,
            used_with=("sizes", ("lognormal", "normal")),
        ),
        Parameter(
            "shape",
            "float",
            1.1,
            "exponent of the tail",
            minimum=0,
            above=True,
            used_with=("sizes", ("pareto",)),
        ),
        Parameter(
            "min_s",
            "float",
            60.0,
            "smallest size in seconds",
            minimum=0,
            above=True,
            used_with=("sizes", ("pareto", "normal")),
        ),
        Parameter(
            "max_s",
            "float",
            864000.0,
            "largest size in seconds",
            minimum=0,
            above=True,
            used_with=("sizes", ("pareto", "normal")),
        ),
        Parameter(
            "cdf",
            "path",
            "",
            "table of a distribution in seconds: columns value, cdf",
            used_with=("sizes", ("cdf",)),
        ),
        Parameter(
            "cdf_of",
            "text",
            "",
            "KIND/WORKLOAD, which table of a file with the columns kind and workload",
            used_with=("sizes", ("cdf",)),
        ),
        Parameter("widths", "text", "1", "most units of a job and their weights, such as 1@0.7+2@0.2+8@0.1"),
        Parameter("rigid", "bool", False, "a job runs on exactly its width, never on fewer units"),
        Parameter(
            "curves", "text", "linear", "speed-up curves and their weights, such as linear+amdahl:0.05"
        ),
        Parameter(
            "exact",
            "bool",
            False,
            "stretch the gaps so that this very sample offers the load (up to rounding)",
        ),
        Parameter("resolution_s", "float", 0.0, "round times to multiples of this; 0: not", minimum=0),
    ),
    function=synthetic,
)
