"""A log that is another one, a copy, or not whole is named; nothing is done with it until an operator agrees."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from betimes.errors import StoreError
from betimes.service.store import Store, default_url
from betimes.service.store.belonging import Home
from tests.service.store.rows import submission

KILLED = """
import os, sys
from betimes.service.store import Store
from tests.service.store.rows import submission
store = Store.open(sys.argv[1], sys.argv[2])
for number in range(1, 7):
    store.commit(submission(number))
os._exit(0)
"""


def filled(url: str, folder: Path, *jobs: int) -> str:
    """Commit these jobs; the log's identity."""
    store = Store.open(url, folder)
    for job in jobs:
        store.commit(submission(job))
    store.close()
    return store.log_id


def opened(
    folder: Path, url: str | None = None, *, as_copy: bool = False, accepts_loss: bool = False
) -> Store:
    """Open a store and close it again."""
    store = Store.open(url or default_url(folder), folder, as_copy=as_copy, accepts_loss=accepts_loss)
    store.close()
    return store


def test_a_log_that_was_put_back_lacks_what_came_after(folder: Path, tmp_path: Path) -> None:
    log = filled(default_url(folder), folder, 1, 2)
    shutil.copy(folder / "betimes.db", tmp_path / "backup")
    filled(default_url(folder), folder, 3, 4, 5)
    shutil.copy(tmp_path / "backup", folder / "betimes.db")
    for _ in range(2):  # to be refused changes nothing
        with pytest.raises(
            StoreError,
            match=r"the last events are missing: it ends at event 2, and event 5 was written. Nothing was started",
        ):
            opened(folder)
    assert opened(folder, accepts_loss=True).log_id == log
    assert opened(folder).last_event_id() == 2


def test_another_database_is_another_log(url: str, folder: Path) -> None:
    first = f"sqlite:///{folder}/first.db"
    log = filled(first, folder, 1, 2, 3)
    with pytest.raises(StoreError, match="not the database that was used here last, which had 3 events"):
        opened(folder, url)
    assert opened(folder, url, accepts_loss=True).log_id != log
    filled(url, folder, 1)
    with pytest.raises(StoreError, match="not the database"):
        opened(folder, first)


@pytest.mark.parametrize("lost", ["all", "a part"])
def test_a_write_ahead_log_that_is_lost_is_missed(folder: Path, lost: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, default_url(folder), str(folder)], check=True)
    wal = folder / "betimes.db-wal"
    if lost == "all":
        wal.unlink()
    else:
        damaged = bytearray(wal.read_bytes())
        damaged[-5000:-4900] = bytes(255 - byte for byte in damaged[-5000:-4900])
        wal.write_bytes(damaged)
    with pytest.raises(
        StoreError, match=r"not the database .* 6 events" if lost == "all" else "event 6 was written"
    ):
        opened(folder)


def test_jobs_that_have_run_and_are_not_in_the_log_are_named_and_set_aside(folder: Path) -> None:
    filled(default_url(folder), folder, 1)
    for left in ("runs/1/1", "runs/7/1", "checkpoints/1", "checkpoints/9", "archive"):
        (folder / left).mkdir(parents=True)
    (folder / "archive" / "events-2-40.jsonl.gz").touch()
    with pytest.raises(StoreError, match=r"jobs have run here that it does not know \(7, 9\)"):
        opened(folder)
    opened(folder, accepts_loss=True)
    aside = {path.relative_to(folder) for kind in ("*", "*/*") for path in folder.glob(f"{kind}/*.of-*")}
    assert {str(path).partition(".of-")[0] for path in aside} == {
        "runs/7/1",
        "checkpoints/9",
        "archive/events-2-40.jsonl.gz",
    }
    assert (folder / "runs" / "1" / "1").is_dir()
    assert (folder / "checkpoints" / "1").is_dir()
    opened(folder)  # there is nothing to agree to any more


def test_a_copy_of_a_state_directory_becomes_a_log_of_its_own(folder: Path, tmp_path: Path) -> None:
    log, copy, moved = filled(default_url(folder), folder, 1), tmp_path / "copy", tmp_path / "moved"
    shutil.copytree(folder, copy)
    with pytest.raises(StoreError, match=rf"was made in {folder} on .* --as-copy"):
        opened(copy)
    own = opened(copy, as_copy=True)
    assert own.log_id != log
    assert opened(copy).log_id == own.log_id
    folder.rename(moved)
    assert opened(moved).log_id == log
    with pytest.raises(StoreError, match="is not a copy"):
        opened(moved, as_copy=True)


def test_a_database_on_a_server_belongs_to_one_state_directory(
    postgres_url: str, folder: Path, tmp_path: Path
) -> None:
    filled(postgres_url, folder, 1)
    with pytest.raises(StoreError, match=rf"was made in {folder}"):
        opened(tmp_path / "another", postgres_url)


def test_a_state_directory_is_the_same_after_a_restart_and_under_another_name() -> None:
    was = Home("/state", 1, 2, "here", "boot 1")
    assert Home("/state", 3, 2, "here", "boot 2").is_same(was)  # the machine was restarted
    assert Home("/moved", 1, 2, "here", "boot 1").is_same(was)
    assert Home("/state", 1, 2, "container", "boot 1").is_same(was)
    assert not Home("/state", 1, 2, "there", "boot 2").is_same(
        was
    )  # a shared disk, seen from another machine
    assert not Home("/state", 1, 3, "here", "boot 1").is_same(was)
    assert not Home("/snapshot", 9, 2, "here", "boot 1").is_same(was)
