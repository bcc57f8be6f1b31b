"""All 60 policies of the portfolio are simulated on a queue of 1,000 jobs and 256 machines in a tenth of a second.

Two parts: CPU milliseconds of one selection against the length of the queue; and some weeks of a log of a
supercomputer, its jobs of at most 64 processors: the utility of the whole run under each of the 60 policies by itself,
and under the portfolio with budgets of 5, 10, 20 and all 60. The 60 are what it has to be measured by: a rank of r says
that r - 1 of them did better, the gain is over the best of them, known only in hindsight.
"""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
from measuring import Table, arguments, introduce, traces_at

from betimes.cluster import Cluster, Offer
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.foresight.portfolio.lookahead import Groups, Lookahead
from betimes.foresight.portfolio.utility import Utility
from betimes.outcome import Result, job_metric
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.workload import Workload, read_trace

TRACE = "swf/KTH-SP2-1996-2.swf.gz"
WIDEST = 64
FIRST, JOBS, QUICK_JOBS = 8_000, 4_000, 300
VMS = Cluster(
    "vms",
    (),
    offers=(
        Offer(
            type="vm",
            cpu=1.0,
            memory_gib=0.0,
            usd_per_h=1.0,
            boot_s=120.0,
            bill_step_s=3600.0,
            min_bill_s=3600.0,
            bill_from="request",
            capacity=256,
        ),
    ),
)


def queue(jobs: int) -> Workload:
    """Jobs that are all submitted at 0: lognormal run times, six tenths of them of up to 16 processors."""
    rng = np.random.default_rng(1)
    units = np.where(rng.random(jobs) < 0.6, 2 ** rng.integers(0, 5, jobs), 1)
    return Workload.from_columns(
        submit_s=np.zeros(jobs),
        work_s=units * rng.lognormal(np.log(600.0), 1.2, jobs),
        min_units=units,
        max_units=units,
        cpu=np.ones(jobs),
    )


def selection_ms(jobs: int, repeats: int) -> tuple[float, float]:
    """CPU milliseconds of the snapshot, and of simulating all 60 policies, on a queue without any machine yet."""
    chosen = parse_nodes_policy("portfolio")
    run = NodesSimulation(queue(jobs), chosen, SimulationOptions(cluster=VMS))
    members = chosen.policy.in_turn(chosen.values)
    groups = Groups(
        members,
        [member.policy.rules(member.values) for member in members],
        [member.policy.params(member.values) for member in members],
    ).of(range(len(members)))
    taken: list[tuple[float, float]] = []

    class Measured(Exception):
        pass

    def measure() -> None:
        lookahead = Lookahead(run)
        for _ in range(repeats + 1):  # the first is not counted
            begun = time.process_time()
            lookahead.look()
            seen = time.process_time()
            lookahead.play_all(groups)
            taken.append((seen - begun, time.process_time() - seen))
        raise Measured

    run.select = measure
    run.state.cluster[0].select_s = 0.0
    with suppress(Measured):
        run.run()
    return statistics.median(one for one, _ in taken[1:]) * 1e3, statistics.median(
        all_of for _, all_of in taken[1:]
    ) * 1e3


def utility(result: Result) -> float:
    """Of the whole run, with the true run times."""
    assert result.leases is not None
    jobs = result.jobs
    run_s = np.maximum(jobs.run_alone_s, 10.0)
    slowdown = float(np.mean((job_metric(result, "wait_s") + run_s) / run_s))
    return Utility().of(float(jobs.work_s.sum()), float(result.leases.cost_usd.sum()) * 3600.0, slowdown)


def weeks(path: object, jobs: int) -> Workload:
    """A stretch of the log."""
    workload = read_trace(str(path))
    narrow = workload[np.flatnonzero(workload.max_units <= WIDEST)][np.arange(FIRST, FIRST + jobs)]
    return replace(narrow, submit_s=narrow.submit_s - narrow.submit_s[0])


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    table = Table("jobs that wait", "snapshot ms", "all 60 ms", "policies a second")
    for jobs in (10, 100, 1000):
        snapshot, sixty = selection_ms(jobs, given.repeats)
        table.line(f"{jobs:,}", snapshot, sixty, 60e3 / sixty)
    print()
    folder = traces_at(given.data, TRACE)
    if folder is None:
        return
    workload = weeks(folder / TRACE, QUICK_JOBS if given.quick else JOBS)
    days = float(workload.submit_s[-1]) / 86_400
    print(f"{workload.name}: {len(workload):,} jobs of at most {WIDEST} processors in {days:.0f} days")
    for sizes in ("true", "estimate"):
        one_by_one = {}
        for name in CANDIDATES:
            provisioning, order, placement = name.split("/")
            policy = f"{provisioning}:order={order},placement={placement}"
            one_by_one[name] = utility(simulate_nodes(workload, policy, cluster=VMS, sizes=sizes))
        print()
        table = Table(f"sizes: {sizes}", "utility", "gain %", "rank of 61", "simulations", "CPU s", first=44)
        best = max(one_by_one.values())
        for provisioning in dict.fromkeys(name.partition("/")[0] for name in CANDIDATES):
            name, value = max(
                ((n, v) for n, v in one_by_one.items() if n.startswith(provisioning)), key=lambda nv: nv[1]
            )
            table.line(f"best of {provisioning}: {name}", value, 100 * (value / best - 1), None, None, None)
        table.line("median of the 60", statistics.median(one_by_one.values()), None, None, None, None)
        table.line("worst of the 60", min(one_by_one.values()), None, None, None, None)
        for policy in (
            "portfolio:period=8",
            "portfolio:period=1",
            *(f"portfolio:period=8,budget={budget}" for budget in (5, 10, 20)),
        ):
            begun = time.process_time()
            result = simulate_nodes(workload, policy, cluster=VMS, sizes=sizes)
            value = utility(result)
            assert result.selections is not None
            table.line(
                policy,
                value,
                100 * (value / best - 1),
                1 + sum(other > value for other in one_by_one.values()),
                len(result.selections),
                time.process_time() - begun,
            )


if __name__ == "__main__":
    main()
