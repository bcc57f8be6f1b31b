"""Overloaded clusters are predicted too: whole Philly traces, a promise at every arrival, seconds to a minute.

b436b2 (9,031 jobs) and 6c71a0 (14,783) ask for more than 64 units can do, so that thousands of jobs wait; 11cb48
is long (19,048). AFS and Themis are promised at a sample of the arrivals. A play-out that processed every job's
finish would take as many events as there are active jobs: the column "finishes ahead" adds them up over all
promises, and the last one is what a promise costs for each of them.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from measuring import CURVES, Table, arguments, introduce, traces_at

import betimes
from betimes.outcome import Result
from betimes.workload import read_trace
from betimes.workload.speedup import SpeedupTable

TRACES = ("b436b2", "6c71a0", "11cb48")
POLICIES = ("fifo", "srsf", "max-min", "wfq", "afs", "themis")
SAMPLED = ("afs", "themis")


def active_at_arrivals(result: Result) -> np.ndarray:
    """The number of jobs that are there when each job arrives, itself included."""
    jobs = result.jobs
    gone = np.searchsorted(np.sort(jobs.finish_s), jobs.submit_s, side="right")
    return np.arange(1, len(jobs) + 1) - gone


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    folder = traces_at(given.data, CURVES, *(f"gpu/philly_pcs/trace_{trace}.csv.gz" for trace in TRACES))
    if folder is None:
        return
    curves = SpeedupTable.read_csv(folder / CURVES)
    sample = 200 if given.quick else 5000
    for trace in TRACES:
        workload = read_trace(folder / f"gpu/philly_pcs/trace_{trace}.csv.gz")
        print(f"{trace}: {len(workload):,} jobs on 64 units")
        table = Table(
            "policy",
            "promises",
            "most active",
            "s, none promised",
            "s",
            "us/promise",
            "finishes ahead",
            "ns each",
        )
        for policy in POLICIES:
            for fractional in (True, False):
                plain = partial(
                    betimes.simulate, workload, policy, units=64, fractional=fractional, curves=curves
                )
                wanted = sample if given.quick or policy in SAMPLED else len(workload)
                promise = partial(plain, predict=True, predict_sample=wanted)
                plain()
                alone_s = _cpu_s(plain)[0]
                promised_s, result = _cpu_s(promise)
                active = active_at_arrivals(result)
                promised = ~np.isnan(result.jobs.predicted_finish_s)
                ahead, extra_s = int(active[promised].sum()), max(0.0, promised_s - alone_s)
                table.line(
                    policy + ("" if fractional else ", whole units"),
                    int(promised.sum()),
                    int(active.max()),
                    alone_s,
                    promised_s,
                    1e6 * extra_s / int(promised.sum()),
                    ahead,
                    1e9 * extra_s / ahead,
                )
        print()


def _cpu_s(run: partial[Result]) -> tuple[float, Result]:
    """One run: these take long enough not to need a median."""
    started = time.process_time()
    result = run()
    return time.process_time() - started, result


if __name__ == "__main__":
    main()
