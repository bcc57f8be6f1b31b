"""The portfolio against the best of its 60 members on whole logs, where it has a past to learn from.

Each of the 60 runs by itself on each log, and what counts is the utility of the whole run: the gain over the best of
them, known only in hindsight, and the rank (1: none did better). All of LCG would need six times the machines, so that
every 16th and every 8th of its jobs stand for it, and its first 5,000 and 10,000, at whose end all machines are busy.
About an hour and a half of CPU time, most of it for SDSC-SP2.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from betimes_papers.portfolio.runs import LOGS, alone, figures_of, machines, stretch
from measuring import Table, arguments, introduce, traces_at

from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.policies.nodes.portfolio import CANDIDATES
from betimes.workload import Workload

SEEDS = (0, 1)
# Log, one job of so many, so many of the first jobs.
CASES: tuple[tuple[str, int, int | None], ...] = (
    ("kth-sp2", 1, None),
    ("das2-fs1", 1, None),
    ("lcg", 16, None),
    ("lcg", 8, None),
    ("lcg", 1, 5_000),
    ("lcg", 1, 10_000),
    ("sdsc-sp2", 1, None),
)


def utility(workload: Workload, policy: str, seed: int = 0) -> float:
    """Of the whole run."""
    return figures_of(simulate_nodes(workload, policy, cluster=machines(), sizes="true", seed=seed))[
        "utility"
    ]


def main() -> None:
    given = arguments(__doc__)
    introduce(__doc__)
    for name, every, first in CASES[:1] if given.quick else CASES:
        log = LOGS[name]
        folder = traces_at(given.data, log.file)
        if folder is None:
            continue
        jobs = stretch(log, folder, None)
        jobs = jobs[np.arange(0, 200 if given.quick else first or len(jobs), every)]
        workload = replace(jobs, submit_s=jobs.submit_s - jobs.submit_s[0])
        by_itself = {each: utility(workload, alone(each)) for each in CANDIDATES}
        best = max(by_itself, key=lambda each: by_itself[each])
        print(f"{name}, {len(workload):,} jobs, one of {every}; best {best}")
        table = Table("", "utility", "gain %", "rank of 61", "CPU s", first=44)
        table.line("best member", by_itself[best], None, None, None)
        for seed in SEEDS:
            begun_s = time.process_time()
            value = utility(workload, "portfolio", seed)
            rank = 1 + sum(other > value for other in by_itself.values())
            gain = 100 * (value / by_itself[best] - 1)
            table.line(f"portfolio, seed {seed}", value, gain, rank, time.process_time() - begun_s)
        print()


if __name__ == "__main__":
    main()
