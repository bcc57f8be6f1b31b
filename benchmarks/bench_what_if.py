"""A what-if question that the compiled engine plays out costs a small part of its rehearsal.

In one process, on virtual nodes whose jobs only take time: processor time of a question whose answer is played out by
a copy of the engine (one more job; a job that waits is cancelled; another policy), compared with a quote of the same
state, and with the rehearsal, which plays the whole scheduler turn by turn and remains for what the engine does not
know: the same questions, with a job that waits for another beside. That is measured with the smaller queue only, as it
takes half a minute with the larger one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from measuring import Table, introduce

from betimes.cluster import Cluster, NodeGroup
from betimes.service.spec.job_spec import JobSpec
from betimes.testing import InMemoryService

POLICIES = {"fifo": "srsf", "easy": "sjf"}  # and another one to ask about
CLUSTER = Cluster("rack", (NodeGroup("rack", 8, 0, 64, 512),))


def job(number: int, **fields: Any) -> JobSpec:
    """A job like others: jobs of one command would be expected to take as long as those that finish."""
    return JobSpec(
        command=["x", str(number)], workdir="/", max_units=1 + number % 4, min_units=1,
        estimate_s=3600.0 + number % 977, **fields,
    )  # fmt: skip


def took(ask: Callable[[], object], repeats: int) -> float:
    """Median processor time of an answer, ms."""
    ask()
    found = list[float]()
    for _ in range(repeats):
        began = time.process_time()
        ask()
        found.append(1000.0 * (time.process_time() - began))
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a look in seconds; not a measurement")
    parser.add_argument("--repeats", type=int, default=5, help="answers behind every median")
    chosen = parser.parse_args()
    introduce(__doc__)
    sizes = (200, 1000) if chosen.quick else (1000, 10_000)
    table = Table("active jobs, question", "ms", "of quote", "rehearsed", "times", first=32)
    for policy, other in POLICIES.items():
        for size in sizes:
            with InMemoryService(CLUSTER, policy=policy) as service:
                measured(table, service, size, other, chosen.repeats, rehearses=size == sizes[0])


def measured(
    table: Table, service: InMemoryService, size: int, other: str, repeats: int, *, rehearses: bool
) -> None:
    """The lines of a policy with so many active jobs; other: the policy to ask about."""
    policy = service.policy().policy
    for number in range(size):
        service.submit(job(number))
    quote = took(lambda: service.quote(job(size)), repeats)
    table.line(f"{policy}, {size:,}: quote", quote, 1.0, None, None)
    asked: dict[str, Callable[[], object]] = {
        "submit": lambda: service.what_if(submit=[job(size)]),
        "cancel": lambda: service.what_if(cancel=[size]),
        "policy": lambda: service.what_if(policy=other),
    }
    compiled = {name: took(ask, repeats) for name, ask in asked.items()}
    rehearsed: dict[str, float] = {}
    if rehearses:
        service.submit(job(size, after=["1"]))
        rehearsed = {name: took(ask, 1) for name, ask in asked.items()}
    for name, used in compiled.items():
        slow = rehearsed.get(name)
        table.line(f"  {name}", used, used / quote, slow, None if slow is None else slow / used)


if __name__ == "__main__":
    main()
