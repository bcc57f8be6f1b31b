"""The cost of an event grows slowly with the number of active jobs: every policy with 10 to 10,000 of them.

10,000 jobs come in batches; those of a batch are submitted within a second and leave one by one before the next
batch, so that half of its jobs are active on average. 64 units, up to 8 a job, fractional grants as published, and
whole units. Beside the cost of an event is its growth from a tenth of the active jobs: 10 is linear, 1 is none.
Promises are made at a sample of the arrivals, fewer where more jobs are active.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from measuring import POLICIES, Table, arguments, introduce, simulated

import betimes
from betimes.workload import Workload

UNITS = 64
JOBS = 10_000
PROMISED_JOBS = 100_000  # active jobs that the promises of a run are about, all together


def batches(active: int, jobs: int) -> Workload:
    rng = np.random.default_rng(active)
    work_s = 60.0 + rng.exponential(3600.0, jobs)
    batch = np.arange(jobs) // active
    gap_s = 2.0 * max(work_s[batch == one].sum() for one in range(int(batch[-1]) + 1))
    submit_s = batch * gap_s + rng.uniform(0.0, 1.0, jobs)
    return Workload.from_columns(
        submit_s=submit_s,
        work_s=work_s,
        min_units=1,
        max_units=2 ** rng.integers(0, 4, jobs),
        name=f"{jobs} jobs, {active} at once",
    )


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    jobs = 1000 if given.quick else JOBS
    workloads = {active: batches(active, jobs) for active in (10, 100, 1000, 10_000) if active <= jobs}
    table = Table("policy", "active", "events", "us/event", "growth", "us/promise", first=16)
    for policy in POLICIES:
        for fractional in (True, False):
            before = None
            for active, workload in workloads.items():
                plain = partial(betimes.simulate, workload, policy, units=UNITS, fractional=fractional)
                promises = min(jobs, PROMISED_JOBS * jobs // JOBS // active)
                promise = partial(plain, predict=True, predict_sample=promises)
                alone, promised = simulated(plain, given.repeats), simulated(promise, given.repeats)
                cost_us = 1e6 * alone.loop_s / alone.events
                table.line(
                    policy + ("" if fractional else ", whole"),
                    active,
                    alone.events,
                    cost_us,
                    cost_us / before if before else None,
                    1e6 * max(0.0, promised.loop_s - alone.loop_s) / promises,
                )
                before = cost_us


if __name__ == "__main__":
    main()
