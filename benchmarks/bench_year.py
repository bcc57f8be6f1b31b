"""A year of 14 million jobs on 150 machines, streamed: time, memory and figures of the waiting policies.

The year is generated with the published characteristics (`workload.generators.year`), a month at a time.
One run under `compound` with oracles, first come, first served: CPU seconds of everything (columns, loop, bills,
figures), of it those of the generator; seconds by the clock, of them those of the event loop; and the peak of the
process. `--quick` takes a month.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

from betimes_papers.waiting.traces import owned
from measuring import arguments, introduce

from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.streaming import StreamedSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload
from betimes.workload.generators.year import JOBS, year, year_in_chunks

MACHINES = 150
POLICY = "compound:t=15m,b=24h"


class Timed:
    """An iterator of workloads, and the CPU seconds that they take to make."""

    def __init__(self, chunks: Iterator[Workload]) -> None:
        self.chunks, self.taken_s = chunks, 0.0

    def __iter__(self) -> Iterator[Workload]:
        return self

    def __next__(self) -> Workload:
        started = time.process_time()
        try:
            return next(self.chunks)
        finally:
            self.taken_s += time.process_time() - started


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    asked = arguments(__doc__)
    introduce(__doc__)
    jobs = JOBS // 12 if asked.quick else JOBS
    chosen, cluster = parse_nodes_policy(POLICY), owned(MACHINES)
    warm = StreamedSimulation([year(jobs=2000)], chosen, SimulationOptions(cluster=cluster))
    warm.run()
    warm.result().summary()
    print(f"{jobs:,} jobs, {MACHINES} machines, {POLICY}; the process before: {peak_mib():,.0f} MiB")
    started, cpu = time.perf_counter(), time.process_time()
    chunks = Timed(year_in_chunks(seed=1, jobs=jobs))
    run = StreamedSimulation(chunks, chosen, SimulationOptions(cluster=cluster))
    run.run()
    result = run.result()
    figures = result.summary()
    whole_s, wall_s = time.process_time() - cpu, time.perf_counter() - started
    print(
        f"CPU {whole_s:.1f} s, of which the generator {chunks.taken_s:.1f} s; by the clock {wall_s:.1f} s, "
        f"of which the loop {result.wall_s:.1f} s; peak {peak_mib():,.0f} MiB"
    )
    print(
        f"mean wait {figures['wait_mean_h']:.3f} h, {figures['rented_frac']:.1%} rented, on demand "
        f"{figures['on_demand_of_fixed_frac']:.1%} of the fixed cost, in all ${figures['cost_usd']:,.0f}"
    )


if __name__ == "__main__":
    main()
