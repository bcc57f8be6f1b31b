"""The service takes submissions and answers quotes quickly, with every accepted job on the disk.

A service runs in a process of its own, with durability on, on virtual nodes whose jobs only take time (starting
processes is `bench_start.py`'s). Submissions go over HTTP: one client, single and in batches of 100, and eight clients
at once; beside them, in the same run, the disk's own price: a plain sqlite3 INSERT and commit for each job. Quotes with
their intervals are asked for at several numbers of active jobs, under several policies: how long a client waits, and
the processor time of the service, most of which the play-out takes; at most 100 quotes, or 30 s of them. Then jobs
of a trace are replayed as fast as it goes, and the service's memory is read as they are done: those that are over
should cost it none. Then the memory of jobs that wait, each on its own and as elements of an array, beside the text of
their specification; the processor time of a list, a quote and a submission with a tenth of them and with all; and that
of a submission with 100 nodes, and with ten and a hundred times as many. At last submitting, listing and cancelling are
compared, in the service's processor time: an empty store and its operator, 100,000 finished jobs, and 20 users with
tokens besides.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from measuring import Table, introduce

from betimes import __version__
from betimes.client import Client
from betimes.errors import Unavailable
from betimes.service.scheduling.fold import recovered
from betimes.service.spec.job_spec import JobSpec
from betimes.service.store import Batch, Store, default_url
from betimes.service.store.batch import Snapshot

POLICIES = (
    "fifo",
    "srsf",
    "max-min",
    "wfq:thresholds=100+1000,weights=14/20+5/20+1/20,zeta_min=0.5,delta=0.1",
    "fitgpp",
    "easy",
    "afs",
    "themis",
    "portfolio",
    "eva",
)
ROUNDS = ("portfolio", "eva")  # which rent machines and plan in rounds: measured up to 1,000 active jobs
NODES = """[[nodes]]
type = "rack"
count = 8
cpu = 64
memory_gib = 512
"""
OFFERS = """
[[offers]]
type = "c64"
cpu = 64
memory_gib = 512
usd_per_h = 3.2
boot_s = 120
"""
QUOTES_S = 30.0
USERS = 20
ALL_NODES = 512  # jobs of one core or more take all nodes
KNOWN = 30  # jobs that have finished as promised, so that there are intervals


@contextmanager
def service(policy: str, nodes: str = NODES) -> Iterator[tuple[Client, Path, int]]:
    """A service on virtual nodes, fresh, its state directory, and the number of its process."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        cluster, state = Path(folder, "cluster.toml"), Path(folder, "state")
        cluster.write_text(nodes + (OFFERS if policy in ROUNDS else ""))
        with up(state, "--cluster", str(cluster), "--policy", policy) as (client, pid):
            yield client, state, pid


@contextmanager
def up(state: Path, *options: str) -> Iterator[tuple[Client, int]]:
    """`betimes up`, and the number of its process."""
    command = [sys.executable, "-m", "betimes.cli.main", "up", "--json", "--service", str(state), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        with Client(state=state) as client:
            _await_policy(client)
            yield client, process.pid
    finally:
        process.terminate()
        process.wait()


def _await_policy(client: Client) -> None:
    """Until the policy in force is compiled: nothing is promised before, and submissions cost less."""
    while True:
        try:
            client.quote(JobSpec(command=["true"], workdir="/"))  # which exists, where jobs are real
        except Unavailable:
            time.sleep(0.5)
        else:
            return


def job(number: int) -> JobSpec:
    """A job that takes long enough to be there until the end."""
    work_s = 3600.0 + number % 977
    return JobSpec(
        command=["x"], workdir="/", name=f"job-{number % 50}", max_units=1 + number % 4, estimate_s=work_s,
        env={"VIRTUAL_WORK_S": str(10 * work_s)},
    )  # fmt: skip


def submits(client: Client, state: Path, count: int) -> dict[str, float]:
    """Jobs a second: single, by eight clients, in batches. Each is promised an end among all those before it."""
    began = time.perf_counter()
    for number in range(count):
        client.submit(job(number))
    single = count / (time.perf_counter() - began)

    def some() -> None:
        with Client(state=state) as own:
            for number in range(count // 4):
                own.submit(job(number))

    threads = [threading.Thread(target=some) for _ in range(8)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eight = 8 * (count // 4) / (time.perf_counter() - began)
    began = time.perf_counter()
    for first in range(0, 10 * count, 100):
        client.submit([job(first + k) for k in range(100)])
    batches = 10 * count / (time.perf_counter() - began)
    return {"one client": single, "eight clients": eight, "batches of 100": batches}


def plain(count: int) -> float:
    """Commits a second of a plain sqlite3 loop on the same disk."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        connection = sqlite3.connect(Path(folder, "plain.db"), isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, body TEXT)")
        body = job(0).model_dump_json()
        began = time.perf_counter()
        for _ in range(count):
            connection.execute("INSERT INTO jobs (body) VALUES (?)", (body,))
        took = time.perf_counter() - began
        connection.close()
        return count / took


def quotes(client: Client, pid: int, active: int, count: int) -> tuple[float, float, float]:
    """p50 and p99 of a quote, ms, and the service's processor time for one, ms, with so many jobs active."""
    there = client.health().jobs_active
    for first in range(there, active, 500):
        client.submit([job(first + k) for k in range(min(500, active - first))])
    client.quote(job(0))
    took, process = list[float](), psutil.Process(pid)
    before, until = process.cpu_times(), time.perf_counter() + QUOTES_S
    while len(took) < 2 or (len(took) < count and time.perf_counter() < until):
        began = time.perf_counter()
        quote = client.quote(job(97 * len(took)))  # of all lengths
        took.append(1000.0 * (time.perf_counter() - began))
        assert quote.finish_low_at is not None, "a quote has no interval"
    after = process.cpu_times()
    used_s = after.user + after.system - before.user - before.system
    return statistics.median(took), statistics.quantiles(took, n=100)[98], 1000.0 * used_s / len(took)


def keep_promises(client: Client) -> None:
    """Let as many jobs finish as an interval needs."""
    short: dict[str, Any] = {
        "command": ["x"],
        "workdir": "/",
        "estimate_s": 0.1,
        "env": {"VIRTUAL_WORK_S": "0.1"},
    }
    specs = [JobSpec(name=f"job-{number}", **short) for number in range(KNOWN)]
    for job_id in [client.submit(spec).job_id for spec in specs]:
        client.wait(job_id)


def memory(jobs: int) -> None:
    """A line whenever another quarter of a replay is done."""
    table = Table("a replay of elastic jobs", "jobs over", "jobs live", "MiB", "jobs/s", first=32)
    replay = ("--replay", f"demo:jobs={jobs}", "--units", "64", "--speed", "max", "--promises", "0")
    with (
        tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder,
        up(Path(folder), "--policy", "srsf", *replay) as (client, pid),
    ):
        began, seen = time.perf_counter(), 0
        while seen < jobs:
            time.sleep(0.2)
            live = client.health().jobs_active
            page = client.jobs(limit=1)
            over = (page.items[0].job_id if page.items else 0) - live
            if over >= min(jobs, seen + jobs // 4):
                status = Path(f"/proc/{pid}/status").read_text()
                resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
                rate = over / (time.perf_counter() - began)
                table.line("srsf", over, live, int(resident.split()[1]) / 1024, rate)
                seen = over


def queue(jobs: int, count: int) -> None:
    """What jobs that wait cost, kB each, and what a tenth and all of them make requests cost."""
    used = Table("memory of a queue", "jobs", "MB idle", "kB one more", "of its text", first=32)
    table = Table("processor time beside it, ms", "jobs", "list of 50", "quote", "submission", first=32)
    alone, last = job(0), list[float]()
    for what in ("each on its own", "elements of an array"):
        with service("fifo") as (client, _, pid):
            process = psutil.Process(pid)
            idle = _private_bytes(process)
            client.submit([job(number) for number in range(ALL_NODES)])
            there, before = 0, _private_bytes(process)
            for size in (jobs // 10, jobs):
                more = size - (client.health().jobs_active - ALL_NODES)
                if what == "each on its own":
                    for first in range(0, more, 500):
                        client.submit([job(first + k) for k in range(min(500, more - first))])
                else:
                    client.submit(alone.model_copy(update={"array": f"1-{more}"}))
                now = _private_bytes(process)
                each, there, before = (now - before) / (size - there), size, now
                used.line(what, size, idle / 1e6, each / 1e3, each / len(alone.model_dump_json()))
                asked: tuple[Callable[[int], object], ...] = (
                    lambda _: client.jobs(limit=50),
                    lambda number: client.quote(job(97 * number)),
                    lambda number: client.submit(job(97 * number)),
                )
                costs = [_cost_ms(process, ask, count) for ask in asked]
                table.line(what, size, *costs)
                last = last if size != jobs // 10 else costs
            table.line("  times", None, *(now / then for now, then in zip(costs, last, strict=True)))


def wide(most: int, count: int) -> None:
    """The service's processor time for a job, alone and in a list, with 100 nodes and with up to so many."""
    table = Table("processor time a job, ms", "alone", "times", "in a list", "times", first=32)
    first: tuple[float, float] | None = None
    size = 100
    while size <= most:
        with service("fifo", NODES.replace("count = 8", f"count = {size}")) as (client, _, pid):
            process = psutil.Process(pid)
            alone = _cost_ms(process, lambda number: client.submit(job(number)), count)
            listed = _cost_ms(process, lambda _: client.submit([job(k) for k in range(100)]), 2) / 100
        first = first or (alone, listed)
        table.line(f"{size:,} nodes", alone, alone / first[0], listed, listed / first[1])
        size *= 10


def _private_bytes(process: psutil.Process) -> float:
    """The memory that a process has for itself, without the files that it has mapped, once it is at rest."""
    time.sleep(2.0)
    memory = process.memory_info()
    return float(memory.rss - memory.shared)


def _cost_ms(process: psutil.Process, ask: Callable[[int], object], count: int) -> float:
    """Processor time of the service for an answer, ms."""
    ask(0)
    before = process.cpu_times()
    for number in range(count):
        ask(number)
    after = process.cpu_times()
    return 1000.0 * (after.user + after.system - before.user - before.system) / count


def filled(state: Path, jobs: int) -> None:
    """Let a store of a stopped service have so many finished jobs."""
    store = Store.open(default_url(state), state)
    ledger = recovered(None, store.each_event())
    spec = job(0).model_dump(mode="json", exclude_defaults=True)
    row = {
        "name": "old", "status": "finished", "qos": "best-effort", "units": 1, "min_units": 1, "max_units": 1,
        "submitted_at": ledger.last_at, "finished_at": ledger.last_at, "attempt": 1, "labels": {}, "spec": spec,
    }  # fmt: skip
    for first in range(1, jobs + 1, 5000):
        numbers = range(first, min(first + 5000, jobs + 1))
        store.commit(Batch(jobs=[{**row, "job_id": n, "user": f"user{n % USERS}"} for n in numbers]))
    ledger.next_job = jobs + 1
    last = store.last_event_id()
    store.commit(Batch(snapshot=Snapshot(last, ledger.last_at, __version__, ledger.to_bytes())))
    store.close()


def shared(jobs: int, count: int) -> None:
    """The service's processor time for a submission, a list of 100 and a cancellation, and how it grows."""
    table = Table("the service's processor time, ms", "submit", "list", "cancel", "in all", "times", first=40)
    alone = 0.0
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        state, cluster = Path(folder, "state"), Path(folder, "cluster.toml")
        cluster.write_text(NODES)
        options = ("--cluster", str(cluster), "--policy", "fifo")
        for what in ("operator, empty store", f"operator, {jobs:,} finished jobs", f"{USERS} users besides"):
            with up(state, *options) as (client, pid):
                tokens = (
                    [users_token(client, number) for number in range(USERS)] if "users" in what else [None]
                )
                used = steps([Client(state=state, token=token) for token in tokens], pid, count)
            alone = alone or sum(used)
            table.line(what, *used, sum(used), sum(used) / alone)
            if "empty" in what:
                filled(state, jobs)


def users_token(client: Client, number: int) -> str:
    """The token of a new user."""
    client.add_user(f"user{number}", weight=1.0 + number)
    return client.make_token(f"user{number}", "bench").token


def steps(clients: list[Client], pid: int, count: int) -> list[float]:
    """Processor time of the service for each kind of request, ms; clients take turns."""
    turns, numbers, process = (
        [clients[n % len(clients)] for n in range(count)],
        list[int](),
        psutil.Process(pid),
    )

    def submit(client: Client, n: int) -> None:
        numbers.append(client.submit(job(n)).job_id)

    def listed(client: Client, n: int) -> None:
        client.jobs(limit=100, status=("finished", "queued")[n % 2 :])

    def cancel(client: Client, n: int) -> None:
        client.cancel(numbers[n])

    found = list[float]()
    for step in (submit, listed, cancel):
        before = process.cpu_times()
        for n, client in enumerate(turns):
            step(client, n)
        after = process.cpu_times()
        found.append(1000.0 * (after.user + after.system - before.user - before.system) / count)
    for client in clients:
        client.close()
    return found


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a look in seconds; not a measurement")
    chosen = parser.parse_args()
    count, sizes, asked = (40, (100,), 20) if chosen.quick else (400, (100, 1000, 10_000), 100)
    introduce(__doc__)
    print("Wall-clock time: the machine should be idle.\n")
    table = Table("submissions", "jobs/s", "of the disk's", first=32)
    with service("fifo") as (client, state, _):
        disk = plain(count)
        for name, rate in submits(client, state, count).items():
            table.line(name, rate, rate / disk)
        table.line("plain sqlite3, one commit a job", disk, 1.0)
    print()
    figures = [f"{which} of {size:,}" for size in sizes for which in ("p50", "p99", "processor")]
    table = Table("quotes, ms", *figures)
    for policy in POLICIES[:2] if chosen.quick else POLICIES:
        with service(policy) as (client, _, pid):
            keep_promises(client)
            some = [size for size in sizes if policy not in ROUNDS or size <= 1000]
            found = [figure for size in some for figure in quotes(client, pid, size, asked)]
            missing = [None] * (len(figures) - len(found))
            table.line(policy.partition(":")[0], *found, *missing)
    print()
    memory(2000 if chosen.quick else 100_000)
    print()
    queue(2000 if chosen.quick else 30_000, 20)
    print()
    wide(1000 if chosen.quick else 10_000, 40)
    print()
    shared(2000 if chosen.quick else 100_000, count)


if __name__ == "__main__":
    main()
