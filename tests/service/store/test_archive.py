"""Events move to files and lose nothing, wherever they are interrupted; finished jobs go when they are old."""

from __future__ import annotations

import gc
import gzip
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from betimes.errors import StoreArchived, StoreDamaged, StoreRefused
from betimes.service.scheduling.events import Event
from betimes.service.store import Batch, Snapshot, Store, read_archive
from betimes.service.store.event_file import archives
from tests.service.store.conftest import Opening
from tests.service.store.rows import event, events, job, quote, run, submission


def log(upto: int, snapshot: int) -> Batch:
    return Batch(
        events=[event(number, x=number / 3) for number in range(1, upto + 1)],
        snapshot=Snapshot(snapshot, 0.5, "0", b"s"),
    )


def everything(store: Store, folder: Path) -> list[Event]:
    """The files that count, then the table."""
    upto = store.archived_upto
    kept = [one for (_, last), path in archives(folder).items() if last <= upto for one in read_archive(path)]
    return [*kept, *store.events(upto, limit=10_000)]


@pytest.fixture(params=["disk", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Path]]:
    folder = tmp_path / "any"
    opened = (
        Store.in_memory(folder)
        if request.param == "memory"
        else Store.open(f"sqlite:///{folder}/x.db", folder)
    )
    yield opened, folder
    opened.close()


def test_archived_events_are_in_the_file_and_the_others_in_the_table(store: Store, folder: Path) -> None:
    written = log(20, 12)
    store.commit(written)
    path = store.archive(10)
    assert path == folder / "archive" / "events-1-10.jsonl.gz"
    assert list(read_archive(path)) == written.events[:10]
    assert store.events(10) == written.events[10:]
    assert store.archived_upto == 10
    assert store.archive(12).name == "events-11-12.jsonl.gz"
    assert everything(store, folder) == written.events
    assert store.archive(4) == path
    store.commit(events(21, 21))


def test_asking_for_archived_events_says_where_they_are(any_store: tuple[Store, Path]) -> None:
    store, _ = any_store
    store.commit(
        Batch(events=[event(n, job=n % 3) for n in range(1, 11)], snapshot=Snapshot(8, 0.0, "0", b""))
    )
    store.archive(6)
    for after in (0, 5):
        with pytest.raises(StoreArchived, match="events up to 6 are archived in") as caught:
            store.events(after)
        assert caught.value.upto == 6
    with pytest.raises(StoreArchived):
        store.events(kinds=["submitted"])
    assert [one.event_id for one in store.events(6)] == [7, 8, 9, 10]
    assert [one.event_id for one in store.events(job=1)] == [7, 10]  # of one job, those that are kept
    assert store.events(10) == []


def test_only_what_a_sound_snapshot_includes_is_archived(any_store: tuple[Store, Path]) -> None:
    store, folder = any_store
    store.commit(events(1, 5))
    with pytest.raises(StoreRefused, match="newest snapshot ends at event 0"):
        store.archive(1)
    store.commit(Batch(snapshot=Snapshot(3, 0.0, "0", b"")))
    with pytest.raises(StoreRefused, match="newest snapshot ends at event 3"):
        store.archive(4)
    assert store.archive(3) == folder / "archive" / "events-1-3.jsonl.gz"


def test_the_last_number_survives_when_all_events_are_archived(opened: Opening) -> None:
    store = opened()
    store.commit(log(5, 5))
    store.archive(5)
    store = opened()
    assert store.last_event_id() == 5
    assert store.events(5) == []
    store.commit(events(6, 6))


class Interrupted(BaseException):
    """The program ends here."""


@contextmanager
def interrupting(at: int) -> Iterator[list[int]]:
    """Raise `Interrupted` at the `at`-th line that the archive's modules run."""
    lines = [0]

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith(
            ("archiving.py", "event_file.py", "removing.py", "database.py")
        ):
            return None
        if kind == "line":
            lines[0] += 1
            if lines[0] == at:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


# An interruption just where a file would be closed leaves that to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupted_anywhere_it_can_be_run_again_and_loses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sqlite_connections: list[sqlite3.Connection],
    step: int,
) -> None:
    """At every line (or every `step`-th), with the service ended there and started again, and the same or a later
    event asked for, in turn.
    """
    monkeypatch.setattr("betimes.service.store.archiving._BATCH", 2)
    monkeypatch.setattr("betimes.service.store.archiving._PAGE", 3)
    written, fresh, folder = log(10, 8), tmp_path / "fresh", tmp_path / "state"
    store = Store.open(f"sqlite:///{folder}/betimes.db", folder)
    store.commit(written)
    store.close()
    shutil.copytree(folder, fresh)
    for at in range(1, 10_000, step):
        later = (8, 6)[at % 2]
        for left in folder.iterdir():  # the folder itself stays: another one would be a copy
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.copytree(fresh, folder, dirs_exist_ok=True)
        url = f"sqlite:///{folder}/betimes.db"
        store = Store.open(url, folder)
        finished = False
        try:
            with interrupting(at):
                store.archive(6)
                finished = True
        except Interrupted:
            pass
        store.close()
        for (
            connection
        ) in sqlite_connections.copy():  # in use when it was interrupted; a process that ends has none
            connection.close()
        store = Store.open(url, folder)
        assert everything(store, folder) == written.events, f"interrupted at line {at}"
        store.archive(later)
        assert everything(store, folder) == written.events, f"run again after line {at}"
        covered = [number for first, last in archives(folder) for number in range(first, last + 1)]
        assert covered == list(range(1, later + 1))
        assert list((folder / "archive").glob(".*")) == []
        store.commit(events(11, 11))
        store.close()
        if finished:
            assert at > 60
            gc.collect()  # here, where its warnings are ignored, not in a later test
            return
    raise AssertionError("it never came to an end")


ARCHIVE = """
import sys
from betimes.service.store import Store
store = Store.open(sys.argv[1], sys.argv[2])
print("open", flush=True)
for upto in range(500, 20_001, 500):
    store.archive(upto)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_loses_nothing(url: str, folder: Path) -> None:
    written = log(20_000, 20_000)
    store = Store.open(url, folder)
    store.commit(written)
    store.close()
    for after_s in (0.0, 0.02, 0.05, 0.09, 0.14, 0.2):
        with subprocess.Popen(
            [sys.executable, "-c", ARCHIVE, url, str(folder)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
        store = Store.open(url, folder)
        upto = store.archived_upto
        kept = [
            one for (_, last), path in archives(folder).items() if last <= upto for one in read_archive(path)
        ]
        assert [*kept, *store.each_event(upto)] == written.events
        store.close()


@pytest.mark.parametrize("harm", ["cut", "garbled", "reordered", "shortened"])
def test_a_damaged_file_says_so(store: Store, harm: str) -> None:
    store.commit(log(50, 50))
    path = store.archive(50)
    packed = path.read_bytes()
    lines = gzip.decompress(packed).splitlines(keepends=True)
    path.write_bytes(
        {
            "cut": packed[: len(packed) // 2],
            "garbled": packed[:200] + b"\xff" * 20 + packed[220:],
            "reordered": gzip.compress(b"".join([lines[1], lines[0], *lines[2:]])),
            "shortened": gzip.compress(b"".join(lines[:-1])),
        }[harm]
    )
    with pytest.raises(StoreDamaged, match=path.name):
        list(read_archive(path))


def test_old_jobs_go_with_all_that_is_theirs(store: Store) -> None:
    for number in range(1, 8):
        over = {"status": "finished" if number % 2 else "cancelled", "finished_at": number * 10.0}
        state = over if number < 7 else {"status": "running"}
        store.commit(
            Batch(
                events=[Event(number, number * 10.0, "x", "y", number)],
                jobs=[job(number, labels={"a": "b"}, **state)],
                runs=[run(number)],
                quotes=[quote(number, number)],
                answers=[("ada", str(number), number)],
            )
        )
    assert store.retain(45.0, batch=2) == 4
    assert [row["job_id"] for row in store.live_jobs()] == [7]
    there = [number for number in range(1, 8) if store.job(number)]
    assert there == [5, 6, 7]
    assert [number for number in range(1, 8) if store.runs(number)] == there
    assert [number for number in range(1, 8) if store.quotes(number)] == there
    assert [number for number in range(1, 8) if store.answer("ada", str(number))] == there
    assert len(store.events()) == 7  # the log is archived, not cut
    assert store.retain(45.0) == 0


def test_commits_go_on_while_old_rows_are_removed(store: Store) -> None:
    store.commit(Batch(jobs=[job(n, status="finished", finished_at=1.0) for n in range(1, 2001)]))
    removed: list[int] = []
    thread = threading.Thread(target=lambda: removed.append(store.retain(2.0, batch=20)))
    thread.start()
    for number in range(1, 11):
        batch = submission(number)
        batch.jobs, batch.quotes = [job(10_000 + number)], []
        store.commit(batch)
    thread.join()
    assert removed == [2000]
    assert len(store.live_jobs()) == 10
