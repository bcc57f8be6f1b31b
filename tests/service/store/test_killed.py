"""A service killed while it writes: every commit that returned is there, and no part of one that did not."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from betimes.service.store import Store

WRITE = """
import sys
from betimes.service.store import Batch, Store
from tests.service.store.rows import event, job, quote
store = Store.open(sys.argv[1], sys.argv[2])
print("open", store.last_event_id(), flush=True)
size = 1
while True:
    first = store.last_event_id() + 1
    numbers = range(first, first + size)
    store.commit(Batch(
        events=[event(n, job=n, size=size) for n in numbers],
        jobs=[job(n, attempt=size, labels={"first": str(first)}) for n in numbers],
        quotes=[quote(n, n) for n in numbers],
        meta={"last": str(first + size - 1)},
    ))
    print(first + size - 1, flush=True)
    size = size % 40 + 1
"""


def test_what_was_answered_is_there_and_nothing_is_half_written(url: str, folder: Path) -> None:
    moments = random.Random(4)
    last = 0
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE, url, str(folder)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert (
                process.stdout.readline() == f"open {last}\n"
            )  # what the checks below found is what it starts from
            time.sleep(moments.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            told = [int(line) for line in process.stdout if line.endswith("\n")]
        store = Store.open(url, folder)
        last = store.last_event_id()
        assert last >= max(told, default=0)
        numbers = list(range(1, last + 1))
        found = list(store.each_event())
        assert [event.event_id for event in found] == numbers
        rows = store.live_jobs()
        assert [row["job_id"] for row in rows] == numbers
        assert [row["attempt"] for row in rows] == [event.data["size"] for event in found]
        assert store.meta("last") == (str(last) if last else None)
        if last:
            at = last - found[-1].data["size"]
            assert len(store.quotes(last)) == 1
            assert rows[at]["labels"] == rows[-1]["labels"] == {"first": str(at + 1)}
        store.close()
