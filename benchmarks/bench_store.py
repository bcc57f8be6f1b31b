"""Accepted jobs are on the disk when a commit returns, at little more than the price of the disk's own write.

Submissions (an event, a job's row and a quote each) are committed in batches of several sizes, beside the same bytes
put into one table by a plain sqlite3 loop of INSERT and commit, on the same disk in the same run, in turns. Then the
event log is read back as recovery reads it, beside sqlite3 reading the same rows and parsing the same JSON.
`--database URL` measures a PostgreSQL (an empty database) instead of SQLite.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measuring import Table, introduce

from betimes.service.scheduling.events import Event
from betimes.service.store import Batch, Row, Store, default_url

SIZES = (1, 10, 100, 1000)
SPEC = {
    "command": ["python", "train.py", "--epochs", "90", "--model", "resnet50"],
    "workdir": "/data/project/experiment",
    "env": {"SEED": "1", "OMP_NUM_THREADS": "4", "DATASET": "imagenet"},
    "cpu": 4.0,
    "memory_gib": 16.0,
    "gpu": 1.0,
    "grace_s": 30.0,
    "estimate_s": 5400.0,
}


def submission(first: int, count: int) -> Batch:
    """Jobs accepted at once."""
    numbers = range(first, first + count)
    return Batch(
        events=[Event(n, 1.7e9 + n, "submitted", "user:ada", n, None, {"spec": SPEC}) for n in numbers],
        jobs=[_job(n) for n in numbers],
        quotes=[
            {"quote_id": n, "job_id": n, "made_at": 1.7e9, "policy": "srsf", "start_at": 1.7e9, "finish_at": 1.8e9,
             "run_s": 5400.0, "basis": "estimate"}
            for n in numbers
        ],
    )  # fmt: skip


def _job(number: int) -> Row:
    return {
        "job_id": number,
        "name": "train",
        "user": "ada",
        "status": "queued",
        "qos": "best-effort",
        "min_units": 1,
        "max_units": 4,
        "submitted_at": 1.7e9 + number,
        "labels": {},
        "spec": SPEC,
    }


class Plain:
    """The least cost of a commit: one table, INSERT, commit; the bytes of a submission in one column."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT)")
        self.body = json.dumps([SPEC, _job(1)])

    def commit(self, count: int) -> None:
        """Insert rows and commit them."""
        self.connection.execute("BEGIN IMMEDIATE")
        for _ in range(count):
            self.connection.execute("INSERT INTO rows (body) VALUES (?)", (self.body,))
        self.connection.execute("COMMIT")


def timed(call: Callable[[], object]) -> float:
    """Wall-clock seconds of a call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def commits(store: Store, plain: Plain, quick: bool) -> None:
    """Commits and jobs a second by batch, in turns with the plain loop."""
    table = Table("jobs a commit", "commits/s", "jobs/s", "p99 ms", "plain/s", "ratio", "own ms", first=14)
    for size in SIZES:
        ours, theirs = [], []
        for _ in range(max((60 if quick else 400) // max(size // 100, 1), 20)):
            batch = submission(store.last_event_id() + 1, size)
            ours.append(timed(lambda batch=batch: store.commit(batch)))
            theirs.append(timed(lambda size=size: plain.commit(size)))
        mean, plain_mean = statistics.mean(ours), statistics.mean(theirs)
        p99 = statistics.quantiles(ours, n=100)[98] * 1e3
        own_ms = (statistics.median(ours) - statistics.median(theirs)) * 1e3
        table.line(str(size), 1 / mean, size / mean, p99, 1 / plain_mean, mean / plain_mean, own_ms)
    print(
        "ratio: seconds of a commit to seconds of the plain loop's; own ms: the difference of their medians\n"
    )


def reading(store: Store, path: Path | None, count: int) -> None:
    """Seconds to read the log."""
    missing = count - store.last_event_id()
    for first in range(store.last_event_id() + 1, store.last_event_id() + missing + 1, 5000):
        store.commit(Batch(events=[_small(n) for n in range(first, min(first + 5000, count + 1))]))
    ours = timed(lambda: sum(1 for _ in store.each_event()))
    table = Table("reading the log", "events", "s", "events/s", first=32)
    events = store.last_event_id()
    table.line("Store.each_event()", events, ours, events / ours)
    if path is not None:
        plain = timed(lambda: sum(1 for _ in _read(path)))
        table.line("sqlite3, rows and json.loads", events, plain, events / plain)
        print(f"ratio {ours / plain:.3g}\n")


def _small(number: int) -> Event:
    data = {"units": 2, "places": [["node-1", 2]], "reason": "starts at once"}
    return Event(number, 1.7e9 + number, "started", "policy", number % 1000, None, data)


def _read(path: Path) -> Iterator[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    for *row, data in connection.execute("SELECT * FROM events ORDER BY event_id"):
        yield *row, json.loads(data)
    connection.close()


def opening(url: str, folder: Path) -> None:
    """Seconds to import and to open what has been written."""
    store: list[Store] = []
    opened = timed(lambda: store.append(Store.open(url, folder)))
    store[0].close()
    command = [sys.executable, "-c", "import betimes.service.store.store"]
    timed(lambda: subprocess.run(command, check=True))
    imported = statistics.median(timed(lambda: subprocess.run(command, check=True)) for _ in range(5))
    print(f"opening it: {opened:.3g} s; a new process that imports the store and ends: {imported:.3g} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer commits and events: a look, not a measurement"
    )
    parser.add_argument("--database", help="the address of an empty PostgreSQL database")
    parser.add_argument("--events", type=int, help="events to read (default 1,000,000, with --quick 100,000)")
    parser.add_argument("--folder", type=Path, help="where to write: the disk to be measured (default: here)")
    given = parser.parse_args()
    introduce(__doc__)
    with tempfile.TemporaryDirectory(dir=given.folder or Path.cwd(), prefix=".bench-store-") as name:
        folder = Path(name)
        url = given.database or default_url(folder)
        store, plain = Store.open(url, folder), Plain(folder / "plain.db")
        commits(store, plain, given.quick)
        path = None if given.database else folder / "betimes.db"
        reading(store, path, given.events or (100_000 if given.quick else 1_000_000))
        store.close()
        plain.connection.close()
        opening(url, folder)


if __name__ == "__main__":
    main()
