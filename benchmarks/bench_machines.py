"""Machines that come and go: events a second with few and with thousands of them, next to owned nodes that stay.

Jobs of one core that take 20 minutes in the mean arrive as a Poisson process at a rate that keeps so many machines of
four cores busy. "rented" is `odb`, which rents at its ticks what the queue lacks and gives back what idles as its
paid hour ends; "owned" are as many nodes that stay, under `fifo`: the same arrivals, starts and finishes, without
machines to look after. The last column is the ratio of the two, per event of the loop; leases are machines that came
and went. With one machine most of what happens are its ticks. "loop" is CPU time of the event loop.
"""

from __future__ import annotations

import numpy as np
from measuring import Table, arguments, introduce
from measuring_nodes import built, on_nodes

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.workload import Workload

CORES, GIB, RUN_S = 4.0, 16.0, 1200.0
MACHINES = (1, 150, 4000)
JOBS, QUICK_JOBS = 1 << 18, 1 << 13


def arrivals(jobs: int, machines: int, seed: int = 1) -> Workload:
    """Jobs whose load comes and goes over hours between nothing and all of the machines."""
    rng = np.random.default_rng(seed)
    gap_s = RUN_S / (machines * CORES) / 0.7
    phase = rng.random(jobs) * 0.8
    at = np.cumsum(rng.exponential(gap_s, jobs) * (1.0 + np.sin(2 * np.pi * phase)))
    return Workload.from_columns(
        submit_s=at,
        work_s=rng.exponential(RUN_S, jobs) + 1.0,
        cpu=np.ones(jobs),
        memory_gib=np.full(jobs, 1.0),
    )


def rented(machines: int) -> Cluster:
    offer = Offer(
        type="c4",
        cpu=CORES,
        gpu=0.0,
        memory_gib=GIB,
        usd_per_h=0.2,
        boot_s=120.0,
        bill_step_s=3600.0,
        capacity=machines,
    )
    return Cluster("rented", (), offers=(offer,))


def owned(machines: int) -> Cluster:
    return Cluster("owned", (NodeGroup("own", machines, 0.0, CORES, GIB),))


def main() -> None:
    asked = arguments(__doc__)
    introduce(__doc__)
    jobs, repeats = (QUICK_JOBS, 1) if asked.quick else (JOBS, 3)
    table = Table(
        "machines", "leases", "rented: events/s", "jobs/s", "owned: events/s", "jobs/s", "us an event, ratio"
    )
    for machines in MACHINES:
        workload = arrivals(jobs, machines)
        going = built(workload, "odb", rented(machines))
        loop_s, _, events = on_nodes(going, repeats)
        done = going()
        done.run()
        leases = done.result().leases
        assert leases is not None
        stay_s, _, stay_events = on_nodes(built(workload, "fifo", owned(machines)), repeats)
        table.line(
            f"{machines:,}",
            f"{len(leases.job):,}",
            f"{events / loop_s:,.0f}",
            f"{jobs / loop_s:,.0f}",
            f"{stay_events / stay_s:,.0f}",
            f"{jobs / stay_s:,.0f}",
            f"{(loop_s / events) / (stay_s / stay_events):.2f}",
        )


if __name__ == "__main__":
    main()
