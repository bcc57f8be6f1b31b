"""Growth of the cost of a job from logs of ten thousand to a million, and of an event with queues and nodes.

First come logs: every policy on ever more jobs for research (`bench_waiting.research`) at a load of 0.9, and all of
RICC (447,794 jobs, up to 92,000 of them waiting) under four. The aim is 1.3 times as long a job at most. What would
take longer than LONGEST_S is left out. Some policies grow with what waits or runs at once, however long the log,
since that is what they are: dynamic orders (wfp3, unicef, slowdown) and policies that rent at ticks look at all that
wait in every pass; conservative lets all that wait try to move up whenever a job ends early; on a pool shares
(themis, max-min, afs) look at all active jobs at every event; planners (eva and its rivals) are Python, and plan for
all that is there.

Then four parts about nodes: FitGpp's mixture with ever more jobs on 84 nodes; the same number of its jobs on ever
more nodes, at the same load, so that more run and more wait at once; and a queue that stays as long as it is, 1,000
to 100,000 jobs, in orders that are fixed once a job is submitted. There all jobs run equally long on equal shares of
84 nodes, and one is submitted whenever one ends: what happens when is the same under every policy and with every
queue, who starts is not. The last part is FitGpp's mixture again, at ever higher loads, so that ever more of its jobs
wait.

The aim is a fifth more an event with 100,000 waiting than with 1,000. Where nothing but the queue is at work fifo has
1.0, widest 1.05 and sjf 1.1. What is added is for memory, some 0.01 us an event: who starts next, and where a
newcomer belongs, can be anywhere in it. Neighbours who use the processor's last cache make it more; all lengths take
turns, so that they meet each.

EASY backfilling grows most with the nodes: at every end it works out anew the reservation of the first that waits, on
a copy of all nodes. The head of the workload has to do for it, on 1,000 nodes at most.

CPU time of the event loop an event; the ratio is to the first line of the same policy.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_waiting import owned, research
from measuring import Table, arguments, introduce, traces_at
from measuring_nodes import built, calibrated, mixture, nodes_of_fitgpp, on_nodes, warm_up

from betimes import read_trace, simulate
from betimes.cluster import Cluster
from betimes.errors import PolicyError
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.policies import NODES_POLICIES
from betimes.policies import POLICIES as POOL_POLICIES
from betimes.twin.nodes.closed_loop import keep_loaded
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.workload import Workload

LENGTHS = (10_000, 100_000, 1_000_000)
LOG_LOAD, LOG_MACHINES = 0.9, 15
LONGEST_S = 600.0  # CPU seconds of a simulation
RICC, RICC_CORES = "swf/RICC-2010-2.swf.gz", 8192
RICC_POLICIES = ("fifo", "skip-over", "easy", "conservative")
RICC_JOBS = (10_000, 100_000, 447_794)
NODES = 84
JOBS, QUICK_JOBS = 1 << 19, 1 << 15
FEWEST_JOBS = 1 << 13
POLICIES = ("fifo", "sjf", "easy", "fitgpp")
NODE_COUNTS = (10, 84, 1000, 5000)
EASY_JOBS, EASY_NODES = 1 << 15, 1000  # with ever more nodes
QUEUES = (1000, 10_000, 100_000)
QUEUE_POLICIES = ("fifo", "sjf", "widest")
LOADS = (4.5, 32.0, 280.0)  # some 1,000, 8,000 and 70,000 of the mixture wait then under fifo
JOBS_A_LOAD = 260  # of the mixture make up a load of 1 on NODES
RUN_S = 600.0
AT_ONCE = 4 * NODES  # running jobs: four on a node of eight GPUs, two each


def with_length(most: int) -> None:
    """Every policy on ever longer logs of the same jobs."""
    print(f"by length of the log, {LOG_MACHINES} machines at a load of {LOG_LOAD:g}")
    logs = [research(jobs, LOG_LOAD, LOG_MACHINES) for jobs in LENGTHS if jobs <= most]
    cluster = owned(LOG_MACHINES)
    for policy in NODES_POLICIES:
        grow(policy, logs, lambda jobs, policy=policy: simulate_nodes(jobs, policy, cluster=cluster))
    for policy in POOL_POLICIES:
        grow(f"pool:{policy}", logs, lambda jobs, policy=policy: simulate(jobs, policy, units=cluster.units))


def on_ricc(folder: Path, most: int) -> None:
    print(f"\nRICC on {RICC_CORES:,} cores")
    whole, cluster = read_trace(folder / RICC), Cluster.pool(RICC_CORES)
    logs = [whole.head(jobs) for jobs in RICC_JOBS if jobs <= most]
    for policy in RICC_POLICIES:
        grow(policy, logs, lambda jobs, policy=policy: simulate_nodes(jobs, policy, cluster=cluster))


def grow(label: str, logs: list[Workload], run: Callable[[Workload], object]) -> None:
    """A line of CPU microseconds a job for each length, and the growth from the first to the last that was run."""
    try:
        run(logs[0].head(200))  # compiled, or loaded
    except PolicyError as error:
        print(f"{label:<24}(left out: {error})", flush=True)
        return
    cells, costs = list[str](), list[float]()
    for log in logs:
        if costs and costs[-1] * len(log) > LONGEST_S:
            cells.append(f"({costs[-1] * len(log):,.0f} s or more)")
            break
        started = time.process_time()
        run(log)
        costs.append((time.process_time() - started) / len(log))
        cells.append(f"{len(log):,}: {1e6 * costs[-1]:.3g} us")
    print(
        f"{label:<24}" + "  ".join(f"{cell:<20}" for cell in cells) + f"  x {costs[-1] / costs[0]:.2f}",
        flush=True,
    )


def with_jobs(most: int, repeats: int) -> None:
    cluster = nodes_of_fitgpp(NODES)
    print(f"1. by number of jobs, {NODES} nodes")
    table = Table("policy", "jobs", "events", "us/event", "ratio")
    counts = [count for count in (FEWEST_JOBS << 2 * step for step in range(10)) if count <= most]
    workloads = [calibrated(mixture(count), cluster, 1)[0] for count in counts]
    for policy in POLICIES:
        first: float | None = None
        for workload in workloads:
            loop_s, _, events = on_nodes(built(workload, policy, cluster), repeats)
            cost_us = 1e6 * loop_s / events
            first = first or cost_us
            table.line(policy, len(workload), events, cost_us, cost_us / first)
    print()


def with_nodes(jobs: int, repeats: int) -> None:
    print("2. by number of nodes")
    table = Table("policy", "nodes", "jobs", "most running", "most waiting", "events", "us/event", "ratio")
    drawn = mixture(jobs)
    sizes = [(count, calibrated(drawn, nodes_of_fitgpp(count), 1)[0]) for count in NODE_COUNTS]
    for policy in POLICIES:
        first: float | None = None
        for count, workload in sizes:
            if policy == "easy" and count > EASY_NODES:
                continue
            head = workload[:EASY_JOBS] if policy == "easy" else workload
            build = built(head, policy, nodes_of_fitgpp(count))
            running, waiting = most_at_once(build())
            loop_s, _, events = on_nodes(build, 1 if policy == "easy" else repeats)
            cost_us = 1e6 * loop_s / events
            first = first or cost_us
            table.line(policy, count, len(head), running, waiting, events, cost_us, cost_us / first)
    print()


def most_at_once(run: NodesSimulation) -> tuple[int, int]:
    """The most jobs that hold resources, and the most that wait for them, at any submission."""
    run.run()
    jobs = run.result().jobs
    arrived = np.arange(1, len(jobs) + 1)
    gone = np.searchsorted(np.sort(jobs.finish_s), jobs.submit_s, side="right")
    started = np.searchsorted(np.sort(jobs.start_s), jobs.submit_s, side="right")
    return int((started - gone).max()), int((arrived - started).max())


def standing_queue(waiting: int, arrivals: int) -> Workload:
    """AT_ONCE jobs that start and end one after another, `waiting` behind them, and then a job whenever one ends.

    Estimates and memory, which the orders rank by, are drawn; the run time and what fits do not depend on them. The
    ranks of newcomers move on as those that wait start, so that a newcomer's place is anywhere in the queue, however
    long that is (the "hold" model of priority queues).
    """
    rng = np.random.default_rng(1)
    jobs = AT_ONCE + waiting + arrivals
    run_s = np.full(jobs, RUN_S)
    run_s[:AT_ONCE] = RUN_S * np.arange(1, AT_ONCE + 1) / AT_ONCE
    submit_s = np.zeros(jobs)
    submit_s[AT_ONCE : AT_ONCE + waiting] = 0.25
    submit_s[AT_ONCE + waiting :] = RUN_S * (np.arange(arrivals) + 1.5) / AT_ONCE
    rank = np.zeros(jobs)
    rank[AT_ONCE : AT_ONCE + waiting] = 1.0 - np.sqrt(rng.random(waiting))
    rank[AT_ONCE + waiting :] = rng.random(arrivals) + np.arange(1, arrivals + 1) / (2 * waiting)
    rank /= 1.0 + arrivals / (2 * min(QUEUES))
    return Workload.from_columns(
        submit_s=submit_s,
        work_s=run_s,
        max_units=1,
        gpu=2.0,
        cpu=4.0,
        memory_gib=48.0 - 40.0 * rank,
        estimate_s=RUN_S * (2.0 + 1000.0 * rank),
        name=f"{waiting} jobs waiting",
    )


class Stretch:
    """A step of a simulation that times the submissions of a stretch of rows, and all that happens meanwhile."""

    def __init__(self, run: NodesSimulation, first: int, last: int) -> None:
        self.run, self.marks = run, [first, last]
        self.looks: list[tuple[float, int, int]] = []  # CPU seconds, events, jobs waiting

    def __call__(self, stop: int) -> int:
        """As `Driver.step`, but for a look at the clock where the stretch begins and ends."""
        mark = self.marks[len(self.looks)] if len(self.looks) < len(self.marks) else stop
        status = self.run.driver.step(max(int(self.run.row[0]), min(stop, mark)))
        # Jobs of one instant are submitted together, so that it may be a few rows later.
        if len(self.looks) < len(self.marks) and self.run.row[0] >= mark:
            pool, cluster = self.run.state.pool[0], self.run.state.cluster[0]
            self.looks.append((time.process_time(), int(pool.events), int(cluster.waiting)))
        return status


class Cost(NamedTuple):
    """The time of an event of a stretch, us, and the jobs that wait where the stretch begins and ends."""

    event_us: float
    events: int
    waiting: tuple[int, int]


class Task(NamedTuple):
    """A simulation, and the rows of which a stretch is timed."""

    build: Callable[[], NodesSimulation]
    first: int
    last: int


def cost_of(task: Task) -> Cost:
    run = task.build()
    stretch = Stretch(run, task.first, task.last)
    run.run(stretch)
    (since, events_before, before), (until, events_after, after) = stretch.looks
    events = events_after - events_before
    return Cost(1e6 * (until - since) / events, events, (before, after))


def compared(tasks: list[Task], repeats: int) -> list[tuple[Cost, float]]:
    """Of each the median cost, and the median of its ratio to the first; they take turns, for machines have moods."""
    rounds = [[cost_of(task) for task in tasks] for _ in range(repeats)]
    ratios = [[cost.event_us / costs[0].event_us for cost in costs] for costs in rounds]
    return [
        (each[0]._replace(event_us=statistics.median(cost.event_us for cost in each)), statistics.median(of))
        for each, of in zip(zip(*rounds, strict=True), zip(*ratios, strict=True), strict=True)
    ]


def with_waiting(arrivals: int, repeats: int) -> None:
    cluster = nodes_of_fitgpp(NODES)
    print(f"3. by length of the queue, {NODES} nodes, {AT_ONCE} jobs running, {arrivals:,} submissions")
    table = Table("policy", "waiting", "events", "us/event", "ratio")
    workloads = [(waiting, standing_queue(waiting, arrivals)) for waiting in QUEUES]
    for policy in QUEUE_POLICIES:
        tasks = [
            Task(built(workload, policy, cluster, "estimate"), AT_ONCE + waiting + AT_ONCE, len(workload) - 1)
            for waiting, workload in workloads
        ]
        for waiting, (cost, ratio) in zip(QUEUES, compared(tasks, repeats), strict=True):
            if max(abs(seen - waiting) for seen in cost.waiting) > 2:
                raise RuntimeError(f"{policy}: {cost.waiting} jobs waited instead of {waiting}")
            table.line(policy, waiting, cost.events, cost.event_us, ratio)
    print()


def with_load(jobs: int, repeats: int) -> None:
    cluster = nodes_of_fitgpp(NODES)
    print(f"4. by load of the mixture, {NODES} nodes")
    table = Table("policy", "load", "waiting", "events", "us/event", "ratio")
    workloads: list[Workload] = []
    for load in LOADS:
        drawn = mixture(int(JOBS_A_LOAD * load) + 3 * jobs)
        workloads.append(keep_loaded(drawn, cluster, load))
    for policy in QUEUE_POLICIES:
        tasks = [
            Task(built(workload, policy, cluster), len(workload) - 2 * jobs, len(workload) - jobs)
            for workload in workloads
        ]
        for load, (cost, ratio) in zip(LOADS, compared(tasks, repeats), strict=True):
            table.line(policy, load, cost.waiting[1], cost.events, cost.event_us, ratio)


def main() -> None:
    given = arguments(__doc__, jobs=(JOBS, QUICK_JOBS))
    introduce(__doc__)
    with_length(LENGTHS[0] if given.quick else LENGTHS[-1])
    if (folder := traces_at(given.data, RICC)) is not None:
        on_ricc(folder, RICC_JOBS[0] if given.quick else RICC_JOBS[-1])
    warm_up()
    with_jobs(given.jobs, given.repeats)
    with_nodes(given.jobs // 4, given.repeats)
    with_waiting(given.jobs // 4, given.repeats)
    with_load(given.jobs // 16, given.repeats)


if __name__ == "__main__":
    main()
