"""The three workloads of the PCS study (paper, section 5.1), and the draws of its published simulator.

The published simulator labels no unit: Workload-1 is in seconds, Workload-3 in minutes that it treats as
seconds. Here times are seconds, and `unit_s` is the unit of Workload-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.workload.generators import arrivals
from betimes.workload.generators.arrivals import FloatArray, mean_gap_s, streams
from betimes.workload.generators.distributions import EmpiricalCdf, Mix
from betimes.workload.generators.parameters import Generator, Parameter
from betimes.workload.speedup import SpeedupTable, bind
from betimes.workload.workload import Workload

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
    """The generated apps, in the simulator's unit of time: arrival, one-unit work and width of each."""

    arrival: NDArray[np.float64]
    work: NDArray[np.float64]
    width: NDArray[np.int64]


def published_apps(
    tables: PublishedTables, *, jobs: int, load_frac: float, units: int, seed: int
) -> PublishedApps:
    """The apps that the published simulator makes, number for number (`sim.py: gen_workload`).

    NumPy's legacy generator, whose stream is frozen for good, in the order of the published code. Its quirks are
    the point: a value is drawn uniformly between two points of its table and *truncated* to a whole number (so
    the top value never comes), widths come from a pool of 100 draws, and gaps are floored to whole units of time
    (so the realised load is above the one asked for).

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


# Gavel's continuous-multiple trace: widths of Gavel's own generator (70% on 1 GPU, 25% on 2 or 4, 5% on 8).
GAVEL_WIDTHS = "1@0.7+2@0.1+4@0.15+8@0.05"
# Sizes as PCS tabulates them, in minutes: 30-1000 with probability 0.8, else 1000-10000, uniform in each.
GAVEL_SIZES = [(30.0, 0.0), (1000.0, 0.8), (10000.0, 1.0)]
# Gavel itself draws the logarithm uniformly: 10 ** U(1.5, 3) minutes, else 10 ** U(3, 4).
GAVEL_LOG_SIZES = ((1.5, 3.0), (3.0, 4.0))
_GAVEL_SHORT = 0.8
_GAVEL_PUBLISHED = PublishedTables(
    service=EmpiricalCdf.of(GAVEL_SIZES),
    num_jobs=EmpiricalCdf.of([(1, 0.0), (1, 1.0)]),
    max_gpus=EmpiricalCdf.of([(1, 0.0), (1, 0.7), (2, 0.9), (4, 0.95), (8, 1.0)]),
    min_gpus=EmpiricalCdf.of([(1, 0.0), (1, 1.0)]),
)


def workload_1(
    *, units: int, seed: int, cdf: str, table: str, jobs: int, load: float, clip: bool, published: bool
) -> Workload:
    """Hyper-parameter searches of many one-job trials, after Themis; the tables are a user's file."""
    path = Path(cdf)
    tables = PublishedTables(
        service=EmpiricalCdf.read_csv(path, "app-service-times", table),
        num_jobs=EmpiricalCdf.read_csv(path, "num-jobs-per-app", table),
        max_gpus=EmpiricalCdf.read_csv(path, "max-gpus-per-job", table),
        min_gpus=EmpiricalCdf.read_csv(path, "min-gpus-per-job", table),
    )
    if published:
        apps = published_apps(tables, jobs=jobs, load_frac=load, units=units, seed=seed)
        return _published_workload(apps, "workload-1", 1.0, units, clip=clip)
    arrival_rng, size_rng, trial_rng, width_rng = streams(seed, 4)
    work_s = np.maximum(tables.service.sample(size_rng, jobs), 1.0)
    trials = np.maximum(tables.num_jobs.sample_whole(trial_rng, jobs), 1)
    trial_widths = np.maximum(tables.max_gpus.sample_whole(width_rng, int(trials.sum())), 1)
    firsts = np.concatenate(([0], np.cumsum(trials)[:-1]))
    width = np.add.reduceat(trial_widths, firsts)
    return _poisson_workload("workload-1", arrival_rng, work_s, width, load, units, clip=clip)


def workload_2(
    *, units: int, seed: int, trace: str, jobs: int, pick: str, load: float, curves: str
) -> Workload:
    """Jobs of a Philly virtual cluster, read from a trace; at its own load or stretched to another."""
    from betimes.workload.readers.registry import read_trace

    measured = SpeedupTable.read_csv(curves) if curves else None
    return workload_2_of(
        read_trace(trace), units=units, seed=seed, jobs=jobs, pick=pick, load_frac=load, measured=measured
    )


def workload_2_of(
    trace: Workload,
    *,
    units: int,
    seed: int = 0,
    jobs: int = 0,
    pick: str = "first",
    load_frac: float = 0.0,
    measured: SpeedupTable | None = None,
) -> Workload:
    """The first or a random choice of `jobs` jobs (0: all) of a trace, submitted from 0 on.

    `load_frac` 0 keeps the trace's own gaps. The load counts unit-seconds at full width, so it needs the
    measured curves that the trace names; without them jobs count as linear, as in the published `-load`.
    """
    chosen = trace
    if jobs:
        chosen = trace.head(jobs) if pick == "first" else trace.sample(jobs, seed)
    chosen = chosen.shift(to_s=0.0)
    if not load_frac:
        return chosen
    speedup = None
    if measured is not None:
        table, _ = bind(chosen.curve_names, int(chosen.max_units.max(initial=1)), measured)
        speedup = table.at(chosen.curve, chosen.max_units)
    return chosen.scale_load(load_frac, units, speedup)


def workload_3(
    *,
    units: int,
    seed: int,
    jobs: int,
    load: float,
    sizes: str,
    widths: str,
    unit_s: float,
    clip: bool,
    published: bool,
) -> Workload:
    """Gavel's continuous-multiple trace: mostly short jobs, 1 to 8 GPUs, linear speed-up."""
    if published:
        apps = published_apps(_GAVEL_PUBLISHED, jobs=jobs, load_frac=load, units=units, seed=seed)
        return _published_workload(apps, "workload-3", unit_s, units, clip=clip)
    arrival_rng, size_rng, width_rng = streams(seed, 3)
    drawn = (
        EmpiricalCdf.of(GAVEL_SIZES).sample(size_rng, jobs) if sizes == "pcs" else _log_sizes(size_rng, jobs)
    )
    mix = Mix.parse(widths)
    width = mix.whole_numbers()[mix.sample(width_rng, jobs)]
    return _poisson_workload("workload-3", arrival_rng, drawn * unit_s, width, load, units, clip=clip)


def _log_sizes(rng: np.random.Generator, jobs: int) -> FloatArray:
    short, long = (rng.uniform(low, high, jobs) for low, high in GAVEL_LOG_SIZES)
    return 10.0 ** np.where(rng.random(jobs) < _GAVEL_SHORT, short, long)


def _poisson_workload(
    name: str,
    rng: np.random.Generator,
    work_s: FloatArray,
    width: NDArray[np.int64],
    load_frac: float,
    units: int,
    *,
    clip: bool,
) -> Workload:
    gaps = arrivals.poisson(rng, len(work_s), mean_gap_s(work_s, load_frac, units))
    return _workload(name, np.cumsum(gaps), work_s, width, units, clip=clip)


def _published_workload(apps: PublishedApps, name: str, unit_s: float, units: int, *, clip: bool) -> Workload:
    return _workload(name, apps.arrival * unit_s, apps.work * unit_s, apps.width, units, clip=clip)


def _workload(
    name: str,
    submit_s: FloatArray,
    work_s: FloatArray,
    width: NDArray[np.int64],
    units: int,
    *,
    clip: bool,
) -> Workload:
    max_units = np.minimum(width, units) if clip else width
    return Workload.from_columns(
        submit_s=submit_s, work_s=work_s, min_units=1, max_units=max_units, name=name, machine_units=units
    )


_LOAD = Parameter(
    "load", "float", 0.8, "mean work over (mean gap x units), speed-up being linear", minimum=0, above=True
)
_CLIP = Parameter("clip", "bool", True, "cut the width of a job that is wider than the machine to it")
_PUBLISHED = Parameter(
    "published",
    "bool",
    False,
    f"draw as the published simulator does (its seed: {DEFAULT_SEED}), cutting draws to whole numbers",
)
_MOST_JOBS = 10_000_000

WORKLOAD_1 = Generator(
    name="workload-1",
    description="Hyper-parameter searches of many trials, days of work, linear speed-up (from Themis).",
    source="PCS, section 5.1, Workload-1",
    parameters=(
        Parameter("cdf", "path", None, "the table of PCS's distributions: kind, workload, value, cdf"),
        Parameter("table", "text", "themis1", "which workload of that table"),
        Parameter("jobs", "int", 2000, "number of jobs", minimum=1, maximum=_MOST_JOBS),
        _LOAD,
        _CLIP,
        _PUBLISHED,
    ),
    function=workload_1,
)
WORKLOAD_2 = Generator(
    name="workload-2",
    description="Jobs of a Philly trace with sub-linear speed-up, at their own load or another.",
    source="PCS, section 5.1, Workload-2",
    parameters=(
        Parameter("trace", "path", None, "a trace of a Philly virtual cluster, as PCS ships them"),
        Parameter("jobs", "int", 0, "how many jobs of it; 0: all", minimum=0, maximum=_MOST_JOBS),
        Parameter("pick", "choice", "first", "which jobs", choices=("first", "sample")),
        Parameter("load", "float", 0.0, "offered load to stretch the gaps to; 0: the trace's own", minimum=0),
        Parameter("curves", "path", "", "measured speed-up curves, for the load at full width"),
    ),
    function=workload_2,
)
WORKLOAD_3 = Generator(
    name="workload-3",
    description="Mostly short jobs on 1 to 8 GPUs, linear speed-up (Gavel's continuous-multiple trace).",
    source="PCS, section 5.1, Workload-3; Gavel, section 7.1",
    parameters=(
        Parameter("jobs", "int", 3000, "number of jobs", minimum=1, maximum=_MOST_JOBS),
        _LOAD,
        Parameter(
            "sizes",
            "choice",
            "pcs",
            "pcs: uniform in 30-1000 (80%) and 1000-10000 minutes; gavel: the same ranges, log-uniform",
            choices=("pcs", "gavel"),
            used_with=("published", ("false",)),
        ),
        Parameter(
            "widths", "text", GAVEL_WIDTHS, "GPUs and their weights", used_with=("published", ("false",))
        ),
        Parameter(
            "unit_s",
            "float",
            60.0,
            "seconds in a unit of size; PCS takes Gavel's minutes for its own unit: 1",
            minimum=0,
            above=True,
        ),
        _CLIP,
        _PUBLISHED,
    ),
    function=workload_3,
)
