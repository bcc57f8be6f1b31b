"""A backup made while the log grows holds one instant of it, and is restored whole or not at all."""

from __future__ import annotations

import sqlite3
import tarfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from betimes.errors import BetimesError, InputError, StoreError, StoreInUse, StoreTooNew
from betimes.service.access.auth import Tokens
from betimes.service.store import Snapshot, Store, default_url
from betimes.service.store.backup import back_up, restore
from betimes.service.store.event_file import archives, read_archive
from tests.service.store.rows import Batch, event, job, submission

UPLOADS = {status: name * 64 for status, name in (("queued", "a"), ("finished", "b"), ("held", "c"))}


def opened(folder: Path, *, accepts_loss: bool = False, as_copy: bool = False) -> Store:
    return Store.open(default_url(folder), folder, accepts_loss=accepts_loss, as_copy=as_copy)


def saved(folder: Path, target: Path) -> Path:
    back_up(folder / "betimes.db", folder, target)
    return target


def tree(folder: Path) -> dict[str, bytes]:
    """All files but the locks, which name their last holder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("lock", "betimes.db.lock")
    }


def test_a_backup_under_load_is_one_instant_and_nobody_waits(folder: Path, tmp_path: Path) -> None:
    store, stop, written = opened(folder), threading.Event(), [0]
    store.commit(Batch(events=[event(1, text="x" * 4_000_000)]))  # so that there is something to copy

    def submits() -> None:
        while not stop.is_set():
            store.commit(submission(written[0] + 2))
            written[0] += 1

    thread = threading.Thread(target=submits)
    thread.start()
    try:
        while written[0] < 20:
            stop.wait(0.01)
        before = written[0]
        made = back_up(folder / "betimes.db", folder, tmp_path / "backup")
        after = written[0]
    finally:
        stop.set()
        thread.join()
        store.close()
    assert before <= made.content.jobs <= after + 1
    assert made.content.last_event == made.content.jobs + 1
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0
    assert {path.name for path in tmp_path.iterdir()} == {"state", "backup"}, "no draft is left"

    done = restore(tmp_path / "backup", folder / "betimes.db", folder, force=True)
    assert not done.is_elsewhere
    with pytest.raises(StoreError, match="the last events are missing"):
        opened(folder)
    store = opened(folder, accepts_loss=True)
    assert store.last_event_id() == made.content.last_event
    assert [row["job_id"] for row in store.live_jobs()] == [*range(2, made.content.jobs + 2)]
    store.close()
    assert done.aside is not None
    with closing(sqlite3.connect(done.aside / "betimes.db")) as former:
        assert former.execute("SELECT max(job_id) FROM jobs").fetchone() == (written[0] + 1,)


def test_what_a_log_needs_is_in_it(folder: Path, tmp_path: Path) -> None:
    store = opened(folder)
    token = Tokens(store).new("ann")
    for number, (status, sha256) in enumerate(UPLOADS.items(), 1):
        store.commit(
            Batch(
                events=[event(number, job=number)],
                jobs=[job(number, status=status, spec={"command": ["x"], "upload": sha256})],
            )
        )
    store.commit(Batch(snapshot=Snapshot(3, 1.0, "1", b"state")))
    store.archive(2)
    (folder / "uploads").mkdir()
    (folder / "uploads" / f"{UPLOADS['queued']}.zip").write_bytes(b"zip")
    (folder / "uploads" / f"{UPLOADS['finished']}.zip").write_bytes(b"zip")
    (folder / "archive" / "events-3-9.jsonl.gz").write_bytes(b"of an archive that was interrupted")
    (folder / "config.toml").write_text('usual = "10m"\n')
    (folder / "token").write_text("secret")
    made = back_up(folder / "betimes.db", folder, tmp_path / "backup")
    store.close()
    assert made.missing == [folder / "uploads" / f"{UPLOADS['held']}.zip"]

    other = tmp_path / "other"
    assert restore(tmp_path / "backup", other / "betimes.db", other).is_elsewhere
    assert set(tree(other)) == {
        "betimes.db",
        "config.toml",
        "archive/events-1-2.jsonl.gz",
        f"uploads/{UPLOADS['queued']}.zip",
    }
    with pytest.raises(StoreError, match=r"was made in .* --as-copy"):
        opened(other)
    store = opened(other, as_copy=True)
    known = Tokens(store).caller(token)
    assert known is not None
    assert known.user == "ann"
    assert [each.event_id for path in archives(other).values() for each in read_archive(path)] == [1, 2]
    assert [each.event_id for each in store.each_event(2)] == [3]
    store.close()


def test_a_restore_that_is_refused_changes_nothing(folder: Path, tmp_path: Path) -> None:
    store = opened(folder)
    store.commit(submission(1))
    backup = saved(folder, tmp_path / "backup")
    here = tree(folder)
    with pytest.raises(StoreInUse, match="in use by the service with pid"):
        restore(backup, folder / "betimes.db", folder, force=True)
    store.close()
    here = tree(folder)

    whole = backup.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    others: list[tuple[bytes, type[BetimesError], str]] = [
        (whole[:-100], InputError, "is damaged"),
        (bytes(damaged), InputError, "is damaged"),
        (b"no archive", InputError, "no backup of Betimes"),
        (_packed(tmp_path, {"betimes.db": b"no database at all" * 100}), InputError, "is damaged"),
        (
            _packed(tmp_path, {"../escaped": b""}),
            InputError,
            r"no backup of Betimes \('../escaped' is in it\)",
        ),
        (_packed(tmp_path, {"config.toml": b""}), InputError, "betimes.db is missing"),
        (_of_version(tmp_path, backup, "9999"), StoreTooNew, "newer version of Betimes .*9999"),
        (_of_version(tmp_path, backup, "0002"), StoreError, "unreleased version of Betimes"),
    ]
    for content, error, message in others:
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(error, match=message):
            restore(tmp_path / "bad", folder / "betimes.db", folder, force=True)
        with pytest.raises(error, match=message):
            restore(tmp_path / "bad", tmp_path / "new" / "betimes.db", tmp_path / "new")
        assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="holds a log"):
        restore(backup, folder / "betimes.db", folder)
    with pytest.raises(InputError, match="no such file"):
        restore(tmp_path / "missing", folder / "betimes.db", folder, force=True)
    assert tree(folder) == here


def test_another_database_than_the_one_used_last_is_not_taken_for_it(folder: Path, tmp_path: Path) -> None:
    opened(folder).close()
    Store.open(f"sqlite:///{folder}/second.db", folder, accepts_loss=True).close()
    with pytest.raises(StoreError, match="is not the database that was used"):
        saved(folder, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    back_up(folder / "second.db", folder, tmp_path / "backup")
    with pytest.raises(InputError, match="no such database"):
        back_up(folder / "third.db", folder, tmp_path / "backup")
    with pytest.raises(InputError, match="folder that is there"):
        back_up(folder / "second.db", folder, tmp_path / "no" / "backup")


def _packed(folder: Path, members: dict[str, bytes]) -> bytes:
    with tarfile.open(folder / "packed", "w:gz") as packed:
        for name, content in members.items():
            (folder / "member").write_bytes(content)
            packed.add(folder / "member", name)
    return (folder / "packed").read_bytes()


def _of_version(folder: Path, backup: Path, version: str) -> bytes:
    with tarfile.open(backup) as packed:
        file = packed.extractfile("betimes.db")
        assert file is not None
        (folder / "version").write_bytes(file.read())
    with closing(sqlite3.connect(folder / "version")) as connection, connection:
        connection.execute("UPDATE betimes_version SET version_num = ?", (version,))
    return _packed(folder, {"betimes.db": (folder / "version").read_bytes()})
