"""From a warm cache a service is ready in under 3 s after a kill; a log of a million events is read in half a minute.

Readiness is from the start of `betimes up` to its line on standard output, beside a Python that only imports what it
serves with. Recovery is of the whole log, and from a snapshot close to its end, beside sqlite3 reading the same rows
and parsing the same JSON without making anything of it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from measuring import Table, introduce

from betimes.service.machines.machine import Machine
from betimes.service.runtime.retention import keep_snapshot
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.fold import recovered
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import Node
from betimes.service.store import Batch, Store, default_url

AT_S = 1.7e9
LIVE = 1000  # jobs that are not over at the end of the log
SPEC = {"command": ["python", "train.py"], "workdir": "/data", "cpu": 1.0, "estimate_s": 600.0}
SERVES = "import uvicorn, fastapi, sqlalchemy, numba"


def life(job: int, first: int, over: bool) -> list[Event]:
    """A job's events, its number being also its instant."""
    account = {"since_s": float(job), "left_s": 600.0, "size_s": 600.0, "attained": 0.0, "stall_s": 0.0,
               "entered_s": float(job), "seq": job}  # fmt: skip
    quote = {"job_id": job, "made_at": AT_S + job, "finish_at": AT_S + job + 600.0, "run_s": 600.0,
             "basis": "estimate"}  # fmt: skip
    places = [["local", 1]]
    found = [
        ("submitted", {"spec": SPEC, "user": "ada", "believed_s": 600.0, "basis": "estimate"}),
        ("queued", {"account": account, "believed_s": 600.0, "basis": "estimate"}),
        ("quoted", {"quote": quote, "finish_at": quote["finish_at"]}),
    ]
    if over:
        found += [
            ("granted", {"units": 1, "places": places, "account": account}),
            ("launched", {"number": 1, "units": 1, "places": places}),
            ("started", {"number": 1, "adopted": False}),
            ("ended", {"number": 1, "outcome": "exited", "exit_code": 0}),
            ("finished", {"run_s": 590.0}),
        ]
    return [
        Event(first + at, AT_S + job, kind, "policy", job, None, data)
        for at, (kind, data) in enumerate(found)
    ]


def log_of(events: int) -> Iterator[list[Event]]:
    """About so many events, job by job."""
    machine = Machine("local", "local", "local", 64.0, 256.0, 0.0)
    yield [
        Event(1, AT_S, "node-added", "operator", None, "local", Node(machine).to_json()),
        Event(2, AT_S, "opened", "operator", None, None, {"epoch_at": AT_S}),
        Event(3, AT_S, "policy-set", "operator", None, None, {"policy": "fifo", "accounts": {}}),
    ]
    last, job = 3, 1
    while last < events:
        found = life(job, last + 1, over=events - last > 3 * LIVE)
        last, job = last + len(found), job + 1
        yield found


def fill(store: Store, events: int) -> None:
    waiting: list[Event] = []
    for found in log_of(events):
        waiting += found
        if len(waiting) > 5000:
            store.commit(Batch(events=waiting))
            waiting = []
    store.commit(Batch(events=waiting))


def timed(work: object) -> float:
    began = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - began


def read_alone(path: Path) -> None:
    """The time to read the rows and parse them, and no more."""
    with closing(sqlite3.connect(path)) as connection:
        for row in connection.execute("SELECT * FROM events ORDER BY event_id"):
            json.loads(row[-1])


def recoveries(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(default_url(Path(folder)), folder)
        fill(store, events)
        alone_s = timed(lambda: read_alone(Path(folder) / "betimes.db"))
        whole: list[Ledger] = []
        whole_s = timed(lambda: whole.append(recovered(None, store.each_event(0))))
        keep_snapshot(store, max(3, store.last_event_id() - 20_000), 3600.0)
        some: list[Ledger] = []

        def from_snapshot() -> None:
            snapshot = store.latest_snapshot()
            assert snapshot is not None
            some.append(recovered(snapshot.body, store.each_event(snapshot.event_id)))

        some_s = timed(from_snapshot)
        assert whole[0].next_event == some[0].next_event
        assert whole[0].jobs == some[0].jobs
        table = Table("recovery", "seconds", "log events/s", first=40)
        for name, took_s in (
            ("sqlite3 reads and parses the rows", alone_s),
            ("the whole log", whole_s),
            ("a snapshot, and the last 20,000 events", some_s),
        ):
            table.line(name, took_s, events / took_s)
        print(f"{store.last_event_id():,} events, {len(whole[0].jobs):,} jobs not over")
        store.close()


def readiness(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ready_s = [up(Path(folder)) for _ in range(repeats + 1)][1:]  # the first one makes the database
    imports_s = [
        timed(lambda: subprocess.run([sys.executable, "-c", SERVES], check=True)) for _ in range(repeats)
    ]
    ready, imports = statistics.median(ready_s), statistics.median(imports_s)
    print(f"ready after a kill in {ready:.2f} s (most {max(ready_s):.2f} s), {ready / imports:.1f} times")
    print(f"what the imports of its libraries alone take, {imports:.2f} s")


def up(state: Path) -> float:
    """Seconds until a service is ready, which is killed then."""
    command = [sys.executable, "-m", "betimes.cli.main", "up", "--service", str(state), "--json"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        took_s = time.perf_counter() - began
        process.send_signal(signal.SIGKILL)
    return took_s


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer events and starts: a look")
    parser.add_argument("--events", type=int, help="of the log (default 1,000,000, with --quick 50,000)")
    given = parser.parse_args()
    introduce(__doc__)
    readiness(2 if given.quick else 7)
    recoveries(given.events or (50_000 if given.quick else 1_000_000))
