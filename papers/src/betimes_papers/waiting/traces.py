"""The jobs and machines of the experiments on waiting.

The paper's year of 14 million jobs is not available. `month` and `year` are generated with its characteristics
(`workload.generators.year`); the year is streamed. The others are real, each whole or, as `NAME-20k`, its first 20,000
jobs. The baseline's owned machines are as many as cost least on the tested jobs (`Case.cheapest`), as in section 2; the
paper finds 150 for its 14 million jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from betimes.cluster import Cluster
    from betimes.workload import Workload

FILES = {
    "cea-curie": "swf/CEA-Curie-2011-2.1-cln.swf.gz",
    "ricc": "swf/RICC-2010-2.swf.gz",
    "lcg": "swf/LCG-2005-1.swf.gz",
    "ctc": "swf/CTC-SP2-1996-derived.swf.gz",
    "openb": "gpu/alibaba_openb/openb_pod_list_default.csv.gz",
}
GENERATED = {"month": 14_000_000 // 12, "year": 14_000_000}
STREAMED = "year"
"""Only the month to learn from is in memory at once."""
STRETCH, STRETCH_JOBS = "-20k", 20_000
SHORT = tuple(name + STRETCH for name in FILES if name != "openb")  # which has 8,152 jobs
TRACES = (*GENERATED, *FILES, *SHORT)
DEFAULT = "ctc-20k"

BASELINE = "compound:t=15m,b=24h,length=core_time"
"""Section 2: jobs of up to 15 core minutes do not wait, others at most a day, and both are known beforehand."""
DISCOUNT = 0.6
CATALOGUES = {"openb": ("p3.16xlarge", "ec2-2023-vcpu")}
"""The type of the owned machines, and the on-demand catalogue; for the other traces:"""
M5 = ("m5.16xlarge", "m5")
TRAIN_FRAC = 0.7


@dataclass(frozen=True)
class Case:
    """A trace in two parts, for learning and for testing.

    in_chunks: yields the later part as successive workloads if it is too long for memory; `later` is then its first
    month.
    """

    name: str
    earlier: Workload
    later: Workload
    in_chunks: Callable[[], Iterator[Workload]] | None = None

    def owned(self, machines: int) -> Cluster:
        """A cluster of `machines` owned machines, and the machines on offer."""
        return owned(machines, *CATALOGUES.get(self.name, M5))

    def cheapest(self) -> int:
        """The number of owned machines at which they and the rented ones cost least for the later jobs."""
        from betimes.foresight.sizing import size_fleet

        return size_fleet(self.later, BASELINE, self.owned(_busy(self.later, self.owned(1)))).best.machines


def case(name: str, data: Path | None) -> Case:
    """One of `TRACES`; its parts are the first 70 % of the jobs and the rest, or are generated separately."""
    import numpy as np

    from betimes.workload import read_trace
    from betimes.workload.generators.year import year, year_in_chunks

    if name in GENERATED:
        earlier, later = (year(seed=seed, jobs=GENERATED["month"]) for seed in (1, 2))
        if name != STREAMED:
            return Case(name, earlier, later)
        return Case(name, earlier, later, partial(year_in_chunks, seed=2, jobs=GENERATED[name]))
    assert data is not None
    (file,) = files_of(name)
    workload = read_trace(data / file, on_bad_rows="skip")
    if name.endswith(STRETCH):
        workload = workload.head(STRETCH_JOBS)
    cut = int(TRAIN_FRAC * len(workload))
    return Case(name, workload.head(cut), workload[np.arange(cut, len(workload))])


def files_of(name: str) -> tuple[str, ...]:
    """The files of one of `TRACES` in the data folder; empty if it is generated."""
    return () if name in GENERATED else (FILES[name.removesuffix(STRETCH)],)


def _busy(workload: Workload, cluster: Cluster) -> int:
    """The machines that a workload keeps busy in the mean, 1 at least: by GPUs if they have any, else by cores."""
    import numpy as np

    span_s = float(workload.submit_s[-1] - workload.submit_s[0])
    amounts = [workload.gpu, workload.cpu, workload.memory_gib]
    scarce = 0 if cluster.groups[0].gpu > 0 else 1
    each = np.nan_to_num(amounts[scarce], nan=float(scarce))
    there = (cluster.groups[0].gpu, cluster.groups[0].cpu)[scarce]
    return max(1, round(float((workload.work_s * each).sum()) / span_s / there))


def owned(machines: int, kind: str = M5[0], catalogue: str = M5[1]) -> Cluster:
    """A cluster of machines of one type, reserved for three years, and all types of the catalogue on demand."""
    from betimes.cluster import Cluster, NodeGroup, read_cluster

    offers = read_cluster(catalogue).offers
    (offer,) = (offer for offer in offers if offer.type == kind)
    group = NodeGroup("own", machines, *offer.amounts, offer.usd_per_h, DISCOUNT)
    return Cluster("waiting", (group,), offers=offers)
