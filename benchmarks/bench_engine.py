"""A promise at every arrival costs microseconds: jobs a second and microseconds an event for every policy.

Three parts: a generated workload (2,000 elastic jobs on 64 units, load 0.9); two Philly traces as the PCS study
runs them, next to the CPU seconds of its published implementation on a machine like ours (context, not measured
here); and, as the honest ratio, the object model of the tests, timed in this run on a small workload that it can
manage. The object model computes the same schedule and the same promises, which is checked; it plays every
promise out to the end of all jobs, as the published implementation does.

"loop" is the event loop with its promises (wall clock), "call" the whole of `betimes.simulate` (CPU): for small
workloads its fixed cost is most of it.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from measuring import CURVES, POLICIES, ROOT, Table, arguments, introduce, simulated, traces_at

import betimes
from betimes.workload import Workload, read_trace
from betimes.workload.speedup import SpeedupTable

sys.path.insert(0, str(ROOT))
from tests.reference import Job, run

# CPU seconds with a promise at every arrival, published implementation.
PUBLISHED_S = {
    "2869ce": {"fifo": 10.3, "srsf": 3.0, "max-min": 3.2, "afs": 30.5, "themis": 187.0},
    "0e4a51": {"srsf": 449.0},
}
SMALL_JOBS, SMALL_UNITS = 60, 8
SMALL_POLICIES = ("fifo", "srsf", "srtf", "las:quantum=600", "themis:lease=600", "afs", "max-min",
                  "wfq:thresholds=4000,weights=3/4+1/4,zeta_min=0.5,delta=0.1")  # fmt: skip


def generated(quick: bool, repeats: int) -> None:
    workload = betimes.generate(f"demo:jobs={500 if quick else 2000}", units=64, seed=1)
    print(f"1. {workload.name} on 64 units, whole units and fractions")
    table = Table("policy", "events", "us/event", "jobs/s", "promised: us/event", "jobs/s", "us/promise")
    for policy in POLICIES:
        for fractional in (False, True):
            run = partial(betimes.simulate, workload, policy, units=64, fractional=fractional)
            alone, promised = simulated(run, repeats), simulated(partial(run, predict=True), repeats)
            jobs = len(workload)
            table.line(
                policy + (", fractional" if fractional else ""),
                alone.events,
                1e6 * alone.loop_s / alone.events,
                jobs / alone.loop_s,
                1e6 * promised.loop_s / alone.events,
                jobs / promised.loop_s,
                1e6 * max(0.0, promised.loop_s - alone.loop_s) / jobs,
            )
    print()


def traces(folder: Path, quick: bool, repeats: int) -> None:
    curves = SpeedupTable.read_csv(folder / CURVES)
    for trace, published in PUBLISHED_S.items():
        workload = read_trace(folder / f"gpu/philly_pcs/trace_{trace}.csv.gz")
        print(
            f"2. Philly trace {trace}: {len(workload):,} jobs on 64 units, fractional, a promise at every arrival"
        )
        table = Table(
            "policy", "loop ms", "jobs/s", "call ms", "no promise, ms", "published s", "of loop", "of call"
        )
        for policy in POLICIES:
            run = partial(betimes.simulate, workload, policy, units=64, fractional=True, curves=curves)
            alone = simulated(run, repeats)
            promised = simulated(partial(run, predict=True), 1 if quick else repeats)
            theirs = published.get(policy)
            table.line(
                policy,
                1e3 * promised.loop_s,
                len(workload) / promised.loop_s,
                1e3 * promised.call_s,
                1e3 * alone.loop_s,
                theirs,
                theirs and theirs / promised.loop_s,
                theirs and theirs / promised.call_s,
            )
        print()


def against_the_object_model(repeats: int) -> None:
    rng = np.random.default_rng(1)
    submit_s = np.cumsum(rng.exponential(400.0, SMALL_JOBS))
    work_s = rng.lognormal(8.0, 1.0, SMALL_JOBS)
    width = rng.integers(1, 5, SMALL_JOBS)
    workload = Workload.from_columns(
        submit_s=submit_s, work_s=work_s, min_units=1, max_units=width, name=f"{SMALL_JOBS} jobs"
    )
    jobs = [
        Job(float(at), float(work), int(widest))
        for at, work, widest in zip(submit_s, work_s, width, strict=True)
    ]
    print(
        f"3. {SMALL_JOBS} jobs on {SMALL_UNITS} units, a promise at every arrival, against the object model"
    )
    table = Table("policy", "object model s", "call ms", "ratio", "loop ms", "ratio")
    for policy in SMALL_POLICIES:
        promise = partial(
            betimes.simulate, workload, policy, units=SMALL_UNITS, fractional=True, predict=True
        )
        ours = promise()
        started = time.process_time()
        slow = run(jobs, SMALL_UNITS, policy, fractional=True, predict=True)
        slow_s = time.process_time() - started
        np.testing.assert_allclose(ours.jobs.finish_s, slow.finish, rtol=1e-9)
        np.testing.assert_allclose(ours.jobs.predicted_finish_s, slow.predicted, rtol=1e-9)
        call_s, loop_s, _ = simulated(promise, 10 * repeats)
        table.line(
            policy.partition(":")[0], slow_s, 1e3 * call_s, slow_s / call_s, 1e3 * loop_s, slow_s / loop_s
        )
    print()


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    generated(given.quick, given.repeats)
    folder = traces_at(given.data, CURVES, *(f"gpu/philly_pcs/trace_{trace}.csv.gz" for trace in PUBLISHED_S))
    if folder is not None:
        traces(folder, given.quick, given.repeats)
    against_the_object_model(given.repeats)


if __name__ == "__main__":
    main()
