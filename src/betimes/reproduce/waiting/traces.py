"""The jobs of the experiments on waiting, and the machines that they are run on.

Published is a year of 14 million jobs that is not at hand. `month` and `year` are generated with its characteristics
(spec/waiting.md A.11): the distribution of run times at the published points, and arrivals by day and week. The others
are real. There are 1.03 owned cores for each that is busy in the mean; the paper has 150 machines for its 14 million
jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from betimes.cluster import Cluster
    from betimes.workload import Workload

FILES = {
    "cea-curie": "swf/CEA-Curie-2011-2.1-cln.swf.gz",
    "ricc": "swf/RICC-2010-2.swf.gz",
    "lcg": "swf/LCG-2005-1.swf.gz",
    "ctc": "swf/CTC-SP2-1996-derived.swf.gz",
}
YEAR_JOBS = 14_000_000
GENERATED = {"month": YEAR_JOBS // 12, "year": YEAR_JOBS}
TRACES = (*GENERATED, *FILES)
DEFAULT = "month"

OWNED_OF_BUSY = 1.03
CORES, GIB, USD_PER_CORE_H, DISCOUNT = 64.0, 256.0, 0.048, 0.6
TRAIN_FRAC = 0.7

CHUNK = 1 << 19  # jobs of a generated trace that are in memory at once, where it is streamed
YEAR_S = 365 * 86_400.0
RUN_S = ((0.62, 1.0, 180.0), (0.08, 180.0, 900.0), (0.25, 900.0, 3600.0), (0.05, 3600.0, 864_000.0))
"""Share, and from where to where log-uniform."""
WIDTHS = ((1, 0.5), (2, 0.2), (4, 0.15), (8, 0.1), (16, 0.05))
DAY, WEEKEND = (
    0.6,
    0.5,
)  # how far the rate of arrivals goes up and down in a day, and what is left of it at weekends
USERS = 300


@dataclass(frozen=True)
class Case:
    """A trace in two parts, to learn from and to try on, and the number of machines of the baseline."""

    name: str
    earlier: Workload
    later: Workload
    machines: int


def case(name: str, data: Path | None) -> Case:
    """One of `TRACES`; the parts are of the first 70 % of the jobs and of the others, or generated each."""
    import numpy as np

    from betimes.workload import read_trace

    if name in GENERATED:
        earlier, workload = (generated(GENERATED[name], seed) for seed in (1, 2))
        return Case(name, earlier, workload, _machines(workload))
    assert data is not None
    workload = read_trace(data / FILES[name], on_bad_rows="skip")
    cut = int(TRAIN_FRAC * len(workload))
    return Case(name, workload.head(cut), workload[np.arange(cut, len(workload))], _machines(workload))


def _machines(workload: Workload) -> int:
    """The machines of the baseline for a workload."""
    span_s = float(workload.submit_s[-1] - workload.submit_s[0])
    return max(1, round(OWNED_OF_BUSY * float(workload.work_s.sum()) / span_s / CORES))


def owned(machines: int) -> Cluster:
    """So many m5.16xlarge reserved for three years, and EC2's m5 on demand."""
    from betimes.cluster import Cluster, NodeGroup, read_cluster

    group = NodeGroup("own", machines, 0.0, CORES, GIB, CORES * USD_PER_CORE_H, DISCOUNT)
    return Cluster("waiting", (group,), offers=read_cluster("m5").offers)


def generated(jobs: int, seed: int = 1) -> Workload:
    """So many of the 14 million jobs of a year; the share of a year is that of the jobs."""
    (whole,) = generated_in_chunks(jobs, seed, chunk=jobs)
    return whole


def generated_in_chunks(jobs: int, seed: int = 1, chunk: int = CHUNK) -> Iterator[Workload]:
    """The same in workloads of `chunk` jobs one after another: each has its share of the arrivals."""
    import numpy as np

    from betimes.workload import Workload

    rng = np.random.default_rng(seed)
    share, low, high = (np.array(column) for column in zip(*RUN_S, strict=True))
    minutes = np.arange(0.0, YEAR_S * jobs / YEAR_JOBS, 60.0)
    rate = (1.0 + DAY * np.sin(2 * np.pi * minutes / 86_400.0)) * np.where(
        minutes // 86_400 % 7 < 5, 1.0, WEEKEND
    )
    integral = np.cumsum(rate)
    for begin in range(0, jobs, chunk):
        count = min(chunk, jobs - begin)
        part = rng.choice(len(share), count, p=share)
        run_s = low[part] * (high[part] / low[part]) ** rng.random(count)
        cores = rng.choice([width for width, _ in WIDTHS], count, p=[share for _, share in WIDTHS])
        # Arrivals are drawn evenly over the integral of the rate, and taken back to time.
        drawn = (begin + count * np.sort(rng.random(count))) / jobs
        yield Workload.from_columns(
            job_id=np.arange(begin, begin + count),
            submit_s=np.interp(drawn * integral[-1], integral, minutes),
            work_s=run_s * cores,
            min_units=cores,
            max_units=cores,
            cpu=np.ones(count),
            memory_gib=np.full(count, 4.0),
            user=rng.zipf(1.5, count) % USERS,
            name=f"generated-{jobs}",
        )
