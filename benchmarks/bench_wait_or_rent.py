"""A portfolio of waiting policies costs no more than the best of its members on most stretches of three logs.

What counts is money with what an hour is worth for which a job waits: rented machines, and that times all hours. Each
member runs by itself on each stretch; the best of them is known only in hindsight. All go by the users' estimates.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from betimes_papers.portfolio.runs import LOGS, stretch
from measuring import Table, arguments, introduce, traces_at

from betimes import simulate
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.outcome import Result, metrics
from betimes.workload import Workload

JOBS = 2_000
WIDEST = 16
STRETCHES = (
    *(("kth-sp2", first, 60) for first in (0, 10_000, 20_000)),
    *(("sdsc-sp2", first, 100) for first in (0, 20_000, 40_000)),
    *(("das2-fs1", first, 16) for first in (12_000, 20_000, 30_000)),
)
"""Log, first job, and processors that are owned."""
WORTH_USD_PER_H = (0.05, 0.2)
VM = Offer(
    type="vm", cpu=16.0, memory_gib=0.0, usd_per_h=0.768, boot_s=120.0, min_bill_s=60.0, bill_step_s=1.0
)
MEMBERS = (
    *("ajw", "njw", "ajw-t/b=1h", "ajw-t/b=6h", "ljw/t=15m/lengths=estimate"),
    *("ajw/order=sjf", "ajw-t/b=2h/order=sjf", "ljw/t=15m/lengths=estimate/order=sjf"),
)


def cost_usd(result: Result, worth_usd_per_h: float) -> float:
    """The price of rented machines plus the worth of the hours for which jobs wait."""
    assert result.leases is not None
    assert result.jobs.finished.all()
    wait_h = float(metrics.wait(result.jobs.submit_s, result.jobs.start_s).sum()) / 3600.0
    return metrics.total(result.leases.cost_usd) + worth_usd_per_h * wait_h


def narrow(workload: Workload) -> Workload:
    """The jobs that one machine holds."""
    return workload[np.flatnonzero(workload.max_units <= WIDEST)]


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    for name, first, owned in STRETCHES[:1] if given.quick else STRETCHES:
        log = replace(LOGS[name], first=first)
        folder = traces_at(given.data, log.file)
        if folder is None:
            continue
        jobs = narrow(stretch(log, folder, 200 if given.quick else JOBS))
        cluster = Cluster("mixed", (NodeGroup("own", owned, 0.0, 1.0, 0.0),), offers=(VM,))
        for worth in WORTH_USD_PER_H[:1] if given.quick else WORTH_USD_PER_H:
            costs: dict[str, float] = {}
            for member in MEMBERS:
                policy = member.replace("/", ":", 1).replace("/", ",")
                costs[member] = cost_usd(simulate(jobs, policy, cluster=cluster, sizes="estimate"), worth)
            best = min(costs, key=lambda each: costs[each])
            print(f"{name} from job {first:,}: {len(jobs):,} jobs on {owned}; an hour is worth {worth} USD")
            table = Table("", "USD", "over best %", "rank of 9", "CPU s", first=44)
            table.line(f"best member: {best}", costs[best], None, None, None)
            table.line("median of the members", float(np.median(list(costs.values()))), None, None, None)
            for period in (3, 15):
                policy = f"portfolio:members={'+'.join(MEMBERS)},objective=cost:{worth},period={period}"
                begun_s = time.process_time()
                paid = cost_usd(simulate(jobs, policy, cluster=cluster, sizes="estimate"), worth)
                rank = 1 + sum(other < paid for other in costs.values())
                table.line(
                    f"portfolio, period={period}", paid, 100 * (paid / costs[best] - 1), rank,
                    time.process_time() - begun_s,
                )  # fmt: skip
            print()


if __name__ == "__main__":
    main()
