"""`year`: the rigid jobs of a university cluster, with the published characteristics of a year of 14 million.

The trace of SoCC 2021 is not at hand; published are the distribution of run times, and the number of jobs
(spec/waiting.md A.11). Arrivals go up and down by day and week.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from betimes.workload.generators.parameters import Generator, Parameter
from betimes.workload.workload import Workload

JOBS = 14_000_000
YEAR_S = 365 * 86_400.0
DRAWN_AT_ONCE = JOBS // 12
"""A month: each has its share of the arrivals."""

CHUNK = 1 << 15
"""Jobs of a chunk: their columns stay in the processor's cache."""

RUN_S = ((0.62, 1.0, 180.0), (0.08, 180.0, 900.0), (0.25, 900.0, 3600.0), (0.05, 3600.0, 864_000.0))
"""Share, and from where to where log-uniform."""
WIDTHS = ((1, 0.5), (2, 0.2), (4, 0.15), (8, 0.1), (16, 0.05))
WIDEST = 16
DAY = 0.6
"""Amplitude of the rate of arrivals within a day."""
WEEKEND = 0.5
"""Factor of the rate of arrivals at weekends."""
USERS = 300


def year(*, units: int = WIDEST, seed: int = 0, jobs: int = JOBS) -> Workload:
    """A number of the jobs of a year; they take their share of a year, and no job more than `units` cores."""
    months = list(_months(units, seed, jobs))
    columns: dict[str, Any] = {name: np.concatenate([month[name] for month in months]) for name in months[0]}
    return Workload.from_columns(**columns, name=f"generated-{jobs}")


def year_in_chunks(
    *, units: int = WIDEST, seed: int = 0, jobs: int = JOBS, chunk: int = CHUNK
) -> Iterator[Workload]:
    """The same jobs in workloads of at most `chunk` one after another."""
    for month in _months(units, seed, jobs):
        for begin in range(0, len(month["job_id"]), chunk):
            columns = {name: values[begin : begin + chunk] for name, values in month.items()}
            yield Workload.from_columns(**columns, name=f"generated-{jobs}")


def _months(units: int, seed: int, jobs: int) -> Iterator[dict[str, Any]]:
    """The columns of the jobs of one month after another."""
    rng = np.random.default_rng(seed)
    share, low, high = (np.array(column) for column in zip(*RUN_S, strict=True))
    minutes = np.arange(0.0, YEAR_S * jobs / JOBS, 60.0)
    rate = (1.0 + DAY * np.sin(2 * np.pi * minutes / 86_400.0)) * np.where(
        minutes // 86_400 % 7 < 5, 1.0, WEEKEND
    )
    integral = np.cumsum(rate)
    for begin in range(0, jobs, DRAWN_AT_ONCE):
        count = min(DRAWN_AT_ONCE, jobs - begin)
        part = rng.choice(len(share), count, p=share)
        run_s = low[part] * (high[part] / low[part]) ** rng.random(count)
        drawn = rng.choice([width for width, _ in WIDTHS], count, p=[share for _, share in WIDTHS])
        cores = np.minimum(drawn, units)
        # Arrivals are drawn evenly over the integral of the rate, and taken back to time.
        drawn = (begin + count * np.sort(rng.random(count))) / jobs
        yield {
            "job_id": np.arange(begin, begin + count),
            "submit_s": np.interp(drawn * integral[-1], integral, minutes),
            "work_s": run_s * cores,
            "min_units": cores,
            "max_units": cores,
            "cpu": np.ones(count),
            "memory_gib": np.full(count, 4.0),
            "user": rng.zipf(1.5, count) % USERS,
        }


GENERATOR = Generator(
    name="year",
    description="Rigid jobs of one to sixteen cores: the published characteristics of a year of a university cluster.",
    source="SoCC 2021, waiting policies",
    parameters=(
        Parameter("jobs", "int", JOBS, "number of jobs, of 14 million a year", minimum=1, maximum=JOBS),
    ),
    function=year,
    in_chunks=year_in_chunks,
    details=(
        "62 % of the jobs are shorter than three minutes, 70 % than 15, 95 % than an hour; the longest take ten days. "
        "A core goes with 4 GiB. With `--stream` the whole year fits in 2 GiB of memory."
    ),
)
