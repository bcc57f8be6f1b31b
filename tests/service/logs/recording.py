"""Event logs of a small cluster on which everything happens that may: for `tests/service/logs` to replay.

python -m tests.service.logs.regenerate
"""

from __future__ import annotations

import random

from betimes.service.scheduling.job_states import Status
from tests.service.reliability.cluster import Cluster, machine, spec

POLICIES = {
    "fifo": "fifo",
    "srsf": "srsf",
    "las": "las",
    "max-min": "max-min",
    "wfq": "wfq:thresholds=20+100,weights=3/5+3/10+1/10,zeta_min=0.5,delta=0.1",
    "nodes-fifo": "nodes:fifo",
    "fitgpp": "fitgpp",
    "easy": "easy",
    "conservative": "conservative",
}
"""The logs, by name, and the policy of each."""
RESTART_S = 2.0
JOBS = 40
SEED = 11


def record(policy: str) -> Cluster:
    """Submissions, cancellations, holds, retries, arrays, drained and lost nodes; it ends in the middle of it all."""
    draw, cluster = random.Random(SEED), Cluster(policy, nodes=3, restart_s=RESTART_S)
    for number in range(JOBS):
        jobs = list(cluster.ledger.jobs)
        cluster.submit(
            spec(
                draw.choice((3.0, 10.0, 25.0, 60.0)) + draw.random(),
                draw.choice((0, 0, 0, 1)),
                min_units=1,
                max_units=draw.choice((1, 1, 2, 4)),
                qos=draw.choice(("trial", "best-effort", "best-effort")),
                grace_s=draw.choice((0.5, 3.0)),
                retries=draw.choice((0, 1)),
                backoff_s=2.0,
                estimate_s=draw.choice((None, 5.0, 20.0, 50.0)),
                after=[f"{draw.choice(jobs)}:any"] if jobs and draw.random() < 0.1 else [],
                array="1-3%2" if number % 10 == 4 else None,
            ),
            user=draw.choice(("ann", "bob")),
        )
        cluster.go_on(draw.uniform(0.5, 12.0))
        if number % 5 == 3:
            _meddle(cluster, draw)
    return cluster


def _meddle(cluster: Cluster, draw: random.Random) -> None:
    """A user or a node does something."""
    jobs, what = list(cluster.ledger.jobs), draw.randrange(5)
    held = [number for number, job in cluster.ledger.jobs.items() if job.status is Status.HELD]
    if held:
        cluster.ask("jobs.release", held[0], "ann")
    elif what == 0 and jobs:
        cluster.ask("jobs.cancel", draw.choice(jobs), "bob")
    elif what == 1 and jobs:
        cluster.ask("jobs.hold", draw.choice(jobs), "ann")
    elif what == 2:
        drained = [name for name, node in cluster.ledger.nodes.items() if node.status != "up"]
        cluster.ask(
            "nodes.set_status", drained[0] if drained else "n-1", "up" if drained else "draining", "user:ann"
        )
    elif what == 3:
        cluster.ask("nodes.set_status", "n-2", "lost", "timer")
    else:
        cluster.ask("nodes.add", machine(f"x-{len(cluster.log)}", 1.0), "user:ann")
    cluster.turn()
    cluster.go_on(0.25)
