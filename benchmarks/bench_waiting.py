"""Waiting policies simulate hundreds of thousands of jobs a second: jobs a second for each, and how that grows.

Jobs are like those of a cluster for research (spec/waiting.md A.11: six in ten are shorter than three minutes, most
work is in jobs of more than an hour), on 150 machines of 64 cores, with machines of eight sizes on offer. Four parts:
every policy; learned and simulated waits; growth with the number of machines at the same load, and with the load, that
is with the length of the queue; and, for jobs of one core, the heap of free times in pure Python, which can do
nothing else and is the oracle of the tests.

"loop" is the event loop, CPU time; "whole" adds setting the columns up and collecting the result with its bill. Memory
is the growth of the process's peak over the run, the trace included.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from measuring import ROOT, Table, arguments, introduce
from measuring_nodes import built, on_nodes

from betimes.cluster import Cluster, NodeGroup, read_cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.waits import fit, observe
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.wait_model import KINDS
from betimes.workload import Workload

sys.path.insert(0, str(ROOT))
from tests.reference.waiting import Job, Rules, free_times

MACHINES, CORES, GIB = 150, 64.0, 256.0
JOBS, QUICK_JOBS = 1 << 20, 1 << 14
QUICK_WAITS = 1 << 16  # fewer do not have to wait
POLICIES = (
    "njw", "ajw", "ajw-t:b=24h", "ljw:t=15m", "sww:b=24h", "compound:t=15m,b=24h",
    "compound:t=15m,b=24h,lengths=speculate,waits=none", "compound:t=15m,b=24h,order=sjf",
    "compound:t=15m,b=24h,backfill=strict",
)  # fmt: skip
COMPOUND = "compound:t=15m,b=24h"
LOAD = 1.2  # above 1, so that some have to be rented for
YEAR = 14_000_000


def research(
    jobs: int, load_frac: float, machines: int = MACHINES, seed: int = 1, wide: bool = True
) -> Workload:
    """Jobs of A.11 that arrive as a Poisson process at this load of the machines' cores."""
    rng = np.random.default_rng(seed)
    part = rng.choice(4, jobs, p=(0.62, 0.08, 0.25, 0.05))
    low, high = np.array([1.0, 180.0, 900.0, 3600.0])[part], np.array([180.0, 900.0, 3600.0, 864_000.0])[part]
    run_s = low * (high / low) ** rng.random(jobs)
    cores = (
        rng.choice([1, 2, 4, 8, 16], jobs, p=(0.5, 0.2, 0.15, 0.1, 0.05)) if wide else np.ones(jobs, np.int64)
    )
    gap_s = float(np.mean(run_s * cores)) / (load_frac * machines * CORES)
    return Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(gap_s, jobs)),
        work_s=run_s * cores,
        min_units=cores,
        max_units=cores,
        cpu=np.ones(jobs),
        memory_gib=np.full(jobs, 4.0),
    )


def owned(machines: int, cores: float = CORES) -> Cluster:
    """Machines that are reserved for three years, and the instance types of EC2's m5 on offer."""
    group = NodeGroup("own", machines, 0.0, cores, 4.0 * cores, 0.048 * cores, 0.6)
    return Cluster("research", (group,), offers=read_cluster("m5").offers)


def every_policy(jobs: int, repeats: int) -> None:
    workload, cluster = research(jobs, LOAD), owned(MACHINES)
    print(f"1. {jobs:,} jobs on {MACHINES} machines of {CORES:g} cores at a load of {LOAD:g}")
    table = Table("policy", "events", "loop: jobs/s", "loop s", "whole s", "rented", "14 M jobs: whole s")
    for policy in POLICIES:
        run = built(workload, policy, cluster)
        loop_s, around_s, events = on_nodes(run, repeats)
        done = run()
        done.run()
        whole_s = loop_s + around_s
        rented = float(np.mean(done.result().jobs.rented))
        table.line(
            policy,
            f"{events:,}",
            f"{jobs / loop_s:,.0f}",
            f"{loop_s:.2f}",
            f"{whole_s:.2f}",
            f"{rented:.1%}",
            f"{whole_s * YEAR / jobs:.0f}",
        )


def learned_waits(jobs: int, repeats: int) -> None:
    """Learned and simulated waits against the oracle: how many times slower."""
    machines = 15
    cluster, workload = owned(machines), research(jobs, LOAD, machines)
    print(f"\n2. {COMPOUND}, {jobs:,} jobs on {machines} machines: waits that are learned, or played forward")
    table = Table("waits", "nodes of trees", "loop: jobs/s", "times the oracle's time")
    oracle_s = on_nodes(built(workload, COMPOUND, cluster), repeats).loop_s
    table.line("oracle", "", f"{jobs / oracle_s:,.0f}", "1.0")
    seen = observe(research(jobs, LOAD, machines, seed=2), parse_nodes_policy(COMPOUND), cluster)
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            model = fit(kind, seen)
            model.save(Path(folder) / f"{kind}.npz")
            policy = f"{COMPOUND},waits=learned,model={folder}/{kind}.npz"
            loop_s = on_nodes(built(workload, policy, cluster), repeats).loop_s
            size = len(model.predictor.trees)
            table.line(kind, f"{size:,}", f"{jobs / loop_s:,.0f}", f"{loop_s / oracle_s:.1f}")
    few = workload.head(jobs // 8)
    short_s = on_nodes(built(few, COMPOUND, cluster), repeats).loop_s
    taken = list[float]()
    for _ in range(repeats):
        result = simulate_nodes(few, f"{COMPOUND},waits=simulated", cluster=cluster)
        taken.append(result.timing.wall_s)
    loop_s = statistics.median(taken)
    table.line(f"simulated, {len(few):,} jobs", "", f"{len(few) / loop_s:,.0f}", f"{loop_s / short_s:.1f}")


def growth(jobs: int, repeats: int) -> None:
    print(f"\n3. Growth: {COMPOUND}, {jobs:,} jobs")
    table = Table("machines", "load", "us a job")
    for machines, load in ((15, LOAD), (150, LOAD), (1500, LOAD), (150, 0.5), (150, 0.95), (150, 4.0)):
        loop_s = on_nodes(built(research(jobs, load, machines), COMPOUND, owned(machines)), repeats).loop_s
        table.line(f"{machines}", f"{load:g}", f"{loop_s / jobs * 1e6:.2f}")


def against_a_heap(jobs: int, repeats: int) -> None:
    machines = 1000
    cluster = owned(machines, 1.0)
    workload = research(jobs, LOAD / CORES, machines, wide=False)
    rows = [Job(*row) for row in zip(workload.submit_s.tolist(), workload.work_s.tolist(), strict=True)]
    print(
        f"\n4. {jobs:,} jobs of one core on {machines} machines of one: against a heap of free times in Python"
    )
    table = Table("policy", "loop: jobs/s", "heap: jobs/s", "same")
    for policy in ("njw", "ajw-t", "sww", "compound"):
        rules, took, came = Rules(policy), list[float](), free_times(rows, machines, Rules(policy))
        for _ in range(repeats):
            started = time.process_time()
            came = free_times(rows, machines, rules)
            took.append(time.process_time() - started)
        run = built(workload, policy, cluster)
        loop_s = on_nodes(run, repeats).loop_s
        done = run()
        done.run()
        starts = [one.start for one in came]
        same = done.result().jobs.start_s.tolist() == starts
        table.line(
            policy, f"{jobs / loop_s:,.0f}", f"{jobs / statistics.median(took):,.0f}", "yes" if same else "NO"
        )
        assert same, policy


def memory(jobs: int) -> None:
    """The peak of the process, which only grows: called first."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = built(research(jobs, LOAD), COMPOUND, owned(MACHINES))()
    done.run()
    done.result()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(
        f"0. Memory of {jobs:,} jobs under {COMPOUND}: {grown / 2**20:,.0f} MiB, {grown / jobs:,.0f} bytes a job; "
        f"14 M jobs: {grown / jobs * YEAR / 2**30:.1f} GiB\n"
    )


def main() -> None:
    asked = arguments(__doc__)
    introduce(__doc__)
    jobs, repeats = (QUICK_JOBS, 1) if asked.quick else (JOBS, 3)
    warm = built(research(2000, LOAD), COMPOUND, owned(MACHINES))()
    warm.run()
    warm.result()
    memory(jobs)
    every_policy(jobs, repeats)
    learned_waits(max(jobs // 8, QUICK_WAITS), repeats)
    growth(jobs // 4, repeats)
    against_a_heap(jobs // 4, repeats)


if __name__ == "__main__":
    main()
