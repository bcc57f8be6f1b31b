"""A decision takes milliseconds with ten thousand jobs queued, and elastic jobs are resized no more than it pays.

Two parts, both of the scheduler alone, without HTTP and disk. First: jobs come and end, one at a time, while ten
thousand wait; a decision is everything from the input to events and effects, and who runs is what the policy says.
Then: a trace of elastic jobs under the policies that resize them, at a restart of half a minute, with and without the
gate (`--resize-interval`, `--resize-gain`): resizes a job, and the share of the time held that restarts cost.
"""

from __future__ import annotations

import argparse
import statistics
import time

from measuring import Table, introduce

from betimes import simulate
from betimes.service.engines.named_policies import compile_policy
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended, RunId
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec
from betimes.twin.generate import generate

WFQ = "wfq:thresholds=100+1000,weights=14/20+5/20+1/20,zeta_min=0.5,delta=0.1"
POLICIES = ("fifo", "srsf", "max-min", WFQ, "fitgpp", "easy", "afs", "themis")
ELASTIC = ("max-min", WFQ, "afs")
NODES, CORES = 8, 64
RESTART_S, INTERVAL_S = 30.0, 600.0


def job(number: int) -> JobSpec:
    """A job of one to four cores and an hour or so."""
    return JobSpec(
        command=["x"],
        workdir="/",
        name=f"job-{number % 50}",
        max_units=1 + number % 4,
        estimate_s=3600.0 + number % 977,
        qos="trial" if number % 5 == 0 else "best-effort",
    )


def crowded(policy: str, queued: int) -> Scheduler:
    """A scheduler whose nodes are full, with so many jobs that wait."""
    scheduler = Scheduler(Ledger(), lambda _: None, Settings())
    scheduler.begin(0.0)
    for number in range(NODES):
        scheduler.nodes.add(Machine(f"n-{number}", "virtual", "rack", float(CORES), 512.0, 0.0), "operator")
    scheduler.open(policy, 0.0)
    scheduler.turn()
    scheduler.take()
    number = 0
    while sum(not one.units for one in scheduler.ledger.jobs.values()) < queued:
        for _ in range(200):
            scheduler.admission.submit(job(number), "ann")
            number += 1
        scheduler.turn()
        scheduler.take()
    return scheduler


def decisions(policy: str, queued: int, count: int) -> tuple[float, float]:
    """p50 and p99 of a decision, ms: jobs come and end in turn."""
    scheduler = crowded(policy, queued)
    took: list[float] = []
    for step in range(count):
        began = time.perf_counter()
        scheduler.begin(1.0 + step)
        if step % 2:
            scheduler.admission.submit(job(step), "ann")
        else:
            running = next(one for one in scheduler.ledger.jobs.values() if one.run and one.run.launched)
            run = RunId(running.job_id, running.run.number) if running.run else RunId(0, 0)
            scheduler.reports.ended(Ended(run, 1.0 + step, 0, why="exited"))
        scheduler.turn()
        scheduler.take()
        took.append(1000.0 * (time.perf_counter() - began))
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a look in seconds; not a measurement")
    chosen = parser.parse_args()
    queues, count = ((100, 1000), 50) if chosen.quick else ((100, 1000, 10_000), 400)
    introduce(__doc__)
    print("Wall-clock time: the machine should be idle.\n")
    table = Table("a decision, ms", *(f"{which} of {size:,}" for size in queues for which in ("p50", "p99")))
    for policy in POLICIES:
        compile_policy(policy)
        found = [figure for size in queues for figure in decisions(policy, size, count)]
        table.line(policy.partition(":")[0], *found)
    print()
    workload = generate(f"demo:jobs={500 if chosen.quick else 5000}", units=64, seed=1)
    table = Table(
        "restart 30 s", "resizes/job", "share of time", "mean jct, s", "gated: resizes", "share", "mean jct"
    )
    for policy in ELASTIC:
        figures: list[float] = []
        for gate in ({}, {"resize_interval_s": INTERVAL_S, "resize_gain": True}):
            jobs = simulate(workload, policy=policy, units=64, restart_s=RESTART_S, **gate).jobs
            held_s = float((jobs.finish_s - jobs.start_s).sum())
            figures += [float(jobs.resizes.mean()), float(jobs.restart_s.sum()) / held_s]
            figures.append(float((jobs.finish_s - jobs.submit_s).mean()))
        table.line(policy.partition(":")[0], *figures)


if __name__ == "__main__":
    main()
