"""Half a million jobs on 84 nodes take a second or two: jobs a second on nodes, for every policy.

Four parts: FitGpp's mixture on 84 nodes, its load of 2.0 calibrated under FIFO first (a closed loop that runs all
jobs once); two logs of supercomputers on one pool of processors, with the users' own estimates; and two honest
ratios on the same input with the same starts and finishes, which is checked. The object model of the tests on a
small mixture does all that the engine does, and is written to be obvious. A heap of the processors' free times in
pure Python can do nothing but single-processor jobs, first come first served, and is ahead there: the ratio is what
it costs to be able to do the rest.

All figures are CPU time. "loop" is the event loop; "whole" adds setting columns up and collecting the result;
"calibrated" adds the calibration too, as if it had been made for this run alone.
"""

from __future__ import annotations

import heapq
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from measuring import ROOT, Table, arguments, introduce, traces_at
from measuring_nodes import LOAD, built, calibrated, mixture, nodes_of_fitgpp, on_nodes, warm_up

from betimes.cluster import Cluster
from betimes.twin.nodes.tasks import tasks_of
from betimes.workload import Workload, read_trace

sys.path.insert(0, str(ROOT))
from tests.reference.nodes import Job, Node, Policy, run
from tests.twin.nodes.driving import SEED, draw, specification

NODES = 84
JOBS, QUICK_JOBS = 1 << 19, 1 << 14
MIXTURE_POLICIES = (
    "fifo", "skip-over", "easy", "sjf", "ljf", "widest", "slowdown", "wfp3", "unicef", "fitgpp", "lrtp",
    "lrtp:trim=false", "rand", "rand:trim=false", "youngest", "lowest-priority",
)  # fmt: skip
PLANNING = "conservative"  # plans for everyone who waits at every event
PLANNED_JOBS = 1 << 9

KTH = "swf/KTH-SP2-1996-2.swf.gz"
CURIE = "swf/CEA-Curie-2011-2.1-cln.swf.gz"
KTH_POLICIES = (
    "fifo", "skip-over", "easy", "easy:order=sjf", "conservative", "sjf", "ljf", "widest", "slowdown", "wfp3",
    "unicef",
)  # fmt: skip
CURIE_POLICIES = ("fifo", "easy", "easy:order=sjf")

SMALL_NODES, SMALL_JOBS, QUICK_SMALL_JOBS = 4, 300, 60
SMALL_POLICIES = (
    Policy(),
    Policy(backfilling="skip-over"),
    Policy(backfilling="easy"),
    Policy(backfilling="conservative"),
    Policy(order="sjf"),
    Policy(order="slowdown"),
    *(Policy(preemption=how, draw=draw) for how in ("fitgpp", "lrtp", "rand", "youngest", "lowest-priority")),
)
CORES, HEAP_JOBS = 64, 1 << 17


def on_the_mixture(jobs: int, repeats: int) -> None:
    cluster = nodes_of_fitgpp(NODES)
    started = time.process_time()
    drawn = mixture(jobs)
    drawn_s = time.process_time() - started
    workload, calibration_s = calibrated(drawn, cluster, repeats)
    print(f"1. FitGpp's mixture, {jobs:,} jobs on {NODES} nodes at a load of {LOAD:g} under FIFO")
    print(f"   drawn in {drawn_s:.2f} s, load calibrated in {calibration_s:.2f} s")
    table = Table("policy", "jobs", "events", "us/event", "loop: jobs/s", "loop s", "whole s", "calibrated s")
    for policy in (*MIXTURE_POLICIES, PLANNING):
        head = workload[: min(jobs, PLANNED_JOBS)] if policy == PLANNING else workload
        loop_s, around_s, events = on_nodes(
            built(head, policy, cluster), 1 if policy == PLANNING else repeats
        )
        whole_s = loop_s + around_s
        table.line(
            policy,
            len(head),
            events,
            1e6 * loop_s / events,
            len(head) / loop_s,
            loop_s,
            whole_s,
            None if policy == PLANNING else whole_s + calibration_s,
        )
    print()


def on_a_log(file: Path, policies: tuple[str, ...], repeats: int) -> None:
    started = time.process_time()
    workload = read_trace(file)
    read_s = time.process_time() - started
    assert workload.machine_units is not None  # both logs say
    cluster = Cluster.pool(workload.machine_units)
    print(
        f"2. {workload.name}: {len(workload):,} jobs on {workload.machine_units:,} processors, "
        f"users' estimates; read in {read_s:.2f} s"
    )
    table = Table("policy", "events", "us/event", "loop: jobs/s", "loop s", "whole s")
    for policy in policies:
        loop_s, around_s, events = on_nodes(built(workload, policy, cluster, "estimate"), repeats)
        table.line(policy, events, 1e6 * loop_s / events, len(workload) / loop_s, loop_s, loop_s + around_s)
    print()


def against_the_object_model(count: int, repeats: int) -> None:
    cluster = nodes_of_fitgpp(SMALL_NODES)
    # Whole seconds: both compute with them exactly, so that a tie is a tie.
    workload = calibrated(mixture(count, resolution_s=1.0), cluster, 1)[0]
    tasks = tasks_of(workload, cluster)
    columns = (workload.submit_s, workload.work_s, workload.qos, workload.grace_s, tasks.count, tasks.demand)
    jobs = [
        Job(submit, work, tuple(demand), tasks=count, qos=qos, grace=grace)
        for submit, work, qos, grace, count, demand in zip(*(c.tolist() for c in columns), strict=True)
    ]
    nodes = [Node(tuple(capacity)) for capacity in cluster.capacity.tolist()]
    print(f"3. {count} jobs of the mixture on {SMALL_NODES} nodes, against the object model")
    table = Table("policy", "object model s", "whole ms", "ratio", "loop ms", "ratio")
    for policy in SMALL_POLICIES:
        chosen = specification(policy)
        build = built(workload, str(chosen), cluster, seed=SEED)
        started = time.process_time()
        slow = run(jobs, nodes, policy)
        slow_s = time.process_time() - started
        ours = build()
        ours.run()
        finish_s = np.array([job.finish for job in slow.jobs], dtype=float)
        np.testing.assert_allclose(ours.result().jobs.finish_s, finish_s, rtol=1e-9)
        loop_s, around_s, _ = on_nodes(build, 20 * repeats)
        whole_s = loop_s + around_s
        table.line(
            policy.preemption if policy.preemption != "none" else f"{policy.order}, {policy.backfilling}",
            slow_s,
            1e3 * whole_s,
            slow_s / whole_s,
            1e3 * loop_s,
            slow_s / loop_s,
        )
    print()


def against_a_heap(jobs: int, repeats: int) -> None:
    rng = np.random.default_rng(1)
    run_s = rng.exponential(600.0, jobs)
    submit_s = np.cumsum(rng.exponential(600.0 / CORES / 0.9, jobs))
    workload = Workload.from_columns(submit_s=submit_s, work_s=run_s, max_units=1, name="single-core jobs")
    print(f"4. {jobs:,} single-core jobs on {CORES} cores, FIFO, load 0.9, against a heap of free times")
    build = built(workload, "fifo", Cluster.pool(CORES))
    ours = build()
    ours.run()
    arrivals = list(zip(submit_s.tolist(), run_s.tolist(), strict=True))
    np.testing.assert_array_equal(ours.result().jobs.start_s, starts_from_a_heap(arrivals, CORES))
    heap: list[float] = []
    for _ in range(repeats):
        started = time.process_time()
        starts_from_a_heap(arrivals, CORES)
        heap.append(time.process_time() - started)
    heap_s = statistics.median(heap)
    loop_s, around_s, _ = on_nodes(build, repeats)
    table = Table("", "ms", "jobs/s", "ratio to the heap")
    table.line("heap, pure Python", 1e3 * heap_s, jobs / heap_s, 1.0)
    table.line("Betimes, loop", 1e3 * loop_s, jobs / loop_s, heap_s / loop_s)
    table.line(
        "Betimes, whole", 1e3 * (loop_s + around_s), jobs / (loop_s + around_s), heap_s / (loop_s + around_s)
    )


def starts_from_a_heap(arrivals: list[tuple[float, float]], cores: int) -> list[float]:
    """The start of each job, in order of submission, on whichever core is free first."""
    free_at = [0.0] * cores
    starts: list[float] = []
    for submit_s, run_s in arrivals:
        start_s = max(submit_s, free_at[0])
        heapq.heapreplace(free_at, start_s + run_s)
        starts.append(start_s)
    return starts


def main() -> None:
    given = arguments(__doc__, jobs=(JOBS, QUICK_JOBS))
    introduce(__doc__)
    warm_up()
    on_the_mixture(given.jobs, given.repeats)
    for log, policies in ((KTH, KTH_POLICIES), (CURIE, CURIE_POLICIES)):
        folder = traces_at(given.data, log)
        if folder is not None:
            on_a_log(folder / log, policies, given.repeats)
    against_the_object_model(QUICK_SMALL_JOBS if given.quick else SMALL_JOBS, given.repeats)
    against_a_heap(min(given.jobs, HEAP_JOBS), given.repeats)


if __name__ == "__main__":
    main()
