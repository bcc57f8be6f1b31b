"""Backup of a service's log to one file, also while the service runs, and its restoration.

The file is a compressed tar: `betimes.db` as of one instant, `archive/` with the events that had left it by then,
`uploads/` with the directories that unfinished jobs were sent with, and `config.toml`. Tokens are in it as hashes only.
Output, checkpoints and what else the folders of runs hold are not in it.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from betimes.errors import Conflict, InputError, StoreError
from betimes.files import sync, whole_file
from betimes.service.access.address import LOCK_FILE
from betimes.service.store.belonging import HOME, LAST_EVENT, LOG, Home, LastEvent
from betimes.service.store.databases.db_errors import Faults
from betimes.service.store.databases.ownership import FileLock
from betimes.service.store.databases.schema import OVER
from betimes.service.store.databases.sqlite import copy_database
from betimes.service.store.databases.upgrades import check_version
from betimes.service.store.event_file import archives
from betimes.service.store.reading import ARCHIVED_UPTO, UPLOAD
from betimes.service.uploads.kept import archive_path

_DATABASE, _CONFIG = "betimes.db", "config.toml"  # in the file
_MEMBER = re.compile(r"betimes\.db|config\.toml|archive/events-\d+-\d+\.jsonl\.gz|uploads/[0-9a-f]{64}\.zip")
_COMPRESSION = 1  # a tenth of the size for a seventh of the time of the best


@dataclass(frozen=True)
class Content:
    """A copy of a database: its log, the place it belongs to, and how much is in it."""

    log_id: str
    home: Home
    last_event: int
    jobs: int
    archived_upto: int
    uploads: frozenset[str]  # that its unfinished jobs need


@dataclass(frozen=True)
class Backup:
    """A backup that was made; `missing`: uploads that unfinished jobs need and that were not there."""

    content: Content
    bytes: int
    missing: list[Path]


@dataclass(frozen=True)
class Restored:
    """The outcome; `is_elsewhere`: restored to another state directory; `aside`: the former log's place, if any."""

    content: Content
    is_elsewhere: bool
    aside: Path | None


def back_up(database: Path, state: Path, target: Path) -> Backup:
    """Write a backup of the service with this SQLite database and state directory; an older file is replaced.

    A service that runs there goes on, and its commits wait for nothing. Raises InputError for a database or a folder
    that is not there; StoreError for a database that is damaged or not the one used last, and where there is no room.
    """
    if not database.is_file():
        raise InputError(f"{database}: there is no such database; name the state directory (--service DIR)")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InputError(f"{target}: name a file in a folder that is there")
    with (
        Faults(str(database), state).translated(),
        TemporaryDirectory(prefix=".betimes-backup-", dir=target.absolute().parent) as draft,
    ):
        copy = Path(draft) / _DATABASE
        copy_database(database, copy)
        content = _content(copy, str(database))
        if _used_last(state) not in (None, content.log_id):
            raise StoreError(
                f"{database}: is not the database that was used in {state} last, and nothing was backed up; "
                "name that one as `betimes up` does (--database URL)"
            )
        # After the database: each of these files is complete before the database counts on it, and stays.
        events = [path for (_, last), path in archives(state).items() if last <= content.archived_upto]
        uploads = [archive_path(state, sha256) for sha256 in sorted(content.uploads)]
        config = [path for path in (state / _CONFIG,) if path.is_file()]
        with (
            whole_file(target, 0o600) as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as packed,
        ):
            packed.add(copy, _DATABASE)
            for path in (*config, *events, *(path for path in uploads if path.is_file())):
                packed.add(path, str(path.relative_to(state)))
    return Backup(content, target.stat().st_size, [path for path in uploads if not path.is_file()])


def restore(source: Path, database: Path, state: Path, *, force: bool = False) -> Restored:
    """Put the log of a backup into a state directory, whose SQLite database is `database`; all of it, or nothing.

    force: a log that is there is put aside in the state directory; runs and checkpoints stay where they are. Raises
    InputError for a file that is damaged or no backup, Conflict where a log is there; StoreInUse where a service runs;
    StoreTooNew and StoreError for a backup of a version that this one cannot read.
    """
    if not source.is_file():
        raise InputError(f"{source}: there is no such file")
    with Faults(str(state), state).translated(), _owned(state, database):
        former = [database, *(Path(f"{database}{end}") for end in ("-wal", "-shm")), state / "archive"]
        former = [path for path in former if path.exists()]
        if former and not force:
            raise Conflict(
                f"{state} holds a log; restore into an empty directory (--service DIR), or with --force, which keeps "
                "that log in a folder beside"
            )
        with TemporaryDirectory(prefix=".restore-", dir=state) as draft:
            unpacked = Path(draft)
            content = _unpack(source, unpacked)
            aside = state / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S}" if former else None
            if aside is not None:
                aside.mkdir(mode=0o700)
                for path in former:
                    path.rename(aside / path.name)
            # Interrupted here, a service does not start: `last-event` names a log that is not there.
            for folder in ("archive", "uploads"):
                for path in (unpacked / folder).glob("*"):
                    (state / folder).mkdir(mode=0o700, exist_ok=True)
                    path.replace(state / folder / path.name)
            if (unpacked / _CONFIG).exists() and not (state / _CONFIG).exists():
                (unpacked / _CONFIG).replace(state / _CONFIG)
            (unpacked / _DATABASE).replace(database)
            sync(database.parent)
        return Restored(content, not Home.of(state).is_same(content.home), aside)


@contextmanager
def _owned(state: Path, database: Path) -> Iterator[None]:
    """Keep services from both; a state directory that is not there is made, and removed again on an error."""
    is_new = not state.exists()
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with ExitStack() as stack:
            at = database.resolve()
            for path, what in ((state / LOCK_FILE, state), (at.with_name(f"{at.name}.lock"), database)):
                stack.callback(FileLock(path, str(what), state).release)
            yield
    except BaseException:
        if is_new:
            shutil.rmtree(state, ignore_errors=True)
        raise


def _used_last(state: Path) -> str | None:
    """The log that a state directory used last; None: none is known."""
    if not (state / LAST_EVENT).exists():
        return None
    with closing(LastEvent(state)) as noted:
        return noted.log_id


def _unpack(source: Path, folder: Path) -> Content:
    """Unpack a backup and check that all of it is there; for the errors see `restore`."""
    try:
        with tarfile.open(source, "r:gz") as packed:
            for member in packed:
                if not (member.isfile() and _MEMBER.fullmatch(member.name)):
                    raise InputError(f"{source}: is no backup of Betimes ({member.name!r} is in it)")
                path, file = folder / member.name, packed.extractfile(member)
                assert file is not None
                with file, whole_file(_made(path), 0o600) as out:
                    shutil.copyfileobj(file, out)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(
            f"{source}: is damaged, or no backup of Betimes ({error}); nothing was changed"
        ) from None
    if not (folder / _DATABASE).exists():
        raise InputError(f"{source}: is no backup of Betimes (betimes.db is missing); nothing was changed")
    try:
        content = _content(folder / _DATABASE, str(source))
    except sqlite3.Error as error:
        raise InputError(f"{source}: is damaged ({error}); nothing was changed") from None
    last = 0
    for first, upto in archives(folder):
        last = upto if first == last + 1 else last
    if last != content.archived_upto:
        raise InputError(f"{source}: is damaged (events after {last} are missing); nothing was changed")
    return content


def _made(path: Path) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return path


def _content(database: Path, name: str) -> Content:
    """Contents of a copy of a database. Raises StoreError for another version's or program's; sqlite3.Error."""
    with closing(sqlite3.connect(database)) as connection:

        def ask(sql: str) -> list[tuple[Any, ...]]:
            return connection.execute(sql).fetchall()

        if not ask("SELECT 1 FROM sqlite_master WHERE name = 'betimes_version'"):
            raise StoreError(f"{name}: holds no tables of Betimes")
        check_version(ask("SELECT version_num FROM betimes_version")[0][0], name)
        if (found := ask("PRAGMA quick_check(1)")) != [("ok",)]:
            raise sqlite3.DatabaseError(found[0][0])
        meta: dict[str, str] = dict(ask("SELECT name, value FROM meta"))
        over = ", ".join(f"'{status}'" for status in OVER)
        specs = ask(f'SELECT spec FROM jobs WHERE status NOT IN ({over}) AND spec LIKE \'%"upload":"%\'')
        (events,) = ask("SELECT coalesce(max(event_id), 0) FROM events")[0]
        (jobs,) = ask("SELECT count(*) FROM jobs")[0]
        archived_upto = int(meta.get(ARCHIVED_UPTO, 0))
        uploads = frozenset(sha256 for (spec,) in specs for sha256 in UPLOAD.findall(spec))
        return Content(
            meta[LOG],
            Home(**json.loads(meta[HOME])),
            max(events, archived_upto),
            jobs,
            archived_upto,
            uploads,
        )
