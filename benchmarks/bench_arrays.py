"""While a large array of somebody is taken, others' requests wait about a second at most.

Somebody's array, set of trials (`--as-one`) or list of jobs is submitted to a service on virtual nodes that are full.
Meanwhile another client submits a job, asks for it and cancels it, again and again: the waits for these answers, beside
those of the idle service. The service's other work, such as its forecasts, goes on as usual.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from bench_service import job, service
from measuring import Table, arguments, introduce

from betimes.client import Client

ELEMENTS, LISTED = 20_000, 10_000  # a list has no more
IDLE = 30  # rounds of requests of an idle service
FULL = 512  # jobs of one core take all nodes


def main() -> None:
    """One service for each kind of submission."""
    given = arguments(__doc__, jobs=(ELEMENTS, 1000))
    introduce(__doc__)
    print("Wall-clock time: the machine should be idle.\n")
    table = Table("submission", "jobs", "taken, s", "wait idle, ms", "meanwhile, ms", "longest, ms", "x idle")
    listed, one = min(given.jobs, LISTED), job(0)
    array = one.model_copy(update={"array": f"1-{given.jobs}"})
    trials = one.model_copy(update={"array": f"1-{listed}", "as_one": True})
    kinds: tuple[tuple[str, int, Callable[[Client], object]], ...] = (
        ("array", given.jobs, lambda client: client.submit(array)),
        ("set of trials", listed, lambda client: client.submit(trials)),
        ("list", listed, lambda client: client.submit([one] * listed)),
    )
    for name, count, submit in kinds:
        with service("fifo") as (client, state, _):
            client.submit([one] * FULL)
            idle = [wait for _ in range(IDLE) for wait in _round(client)]
            taken_s, waits = _meanwhile(client, state, submit)
            usual_s, longest_s = statistics.median(idle), max(waits)
            shown = (1000.0 * each for each in (usual_s, statistics.median(waits), longest_s))
            table.line(name, count, taken_s, *shown, longest_s / usual_s)


def _meanwhile(client: Client, state: Path, submit: Callable[[Client], object]) -> tuple[float, list[float]]:
    """Seconds until a submission is answered, and another client's waits until then."""
    began_s, waits = time.perf_counter(), list[float]()
    with Client(state=state) as somebody, ThreadPoolExecutor(1) as aside:
        taken = aside.submit(submit, somebody)
        while not taken.done():
            waits += _round(client)
        taken.result()
    return time.perf_counter() - began_s, waits


def _round(client: Client) -> list[float]:
    """The waits for the answers to a submission, to a look at the job, and to its cancellation."""
    at_s = [time.perf_counter()]
    number = client.submit(job(1)).job_id
    at_s.append(time.perf_counter())
    client.job(number)
    at_s.append(time.perf_counter())
    client.cancel(number)
    at_s.append(time.perf_counter())
    return [after_s - before_s for before_s, after_s in pairwise(at_s)]


if __name__ == "__main__":
    main()
