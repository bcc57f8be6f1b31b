"""The identity of a database's log, its state directory, and the last event noted there.

A database may have been copied with its state directory, exchanged, emptied, restored from a backup, or have lost its
newest transactions. It cannot show that by itself: files beside it can.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from sqlalchemy import inspect

from betimes.errors import StoreError
from betimes.service.executors.run_folder import set_aside
from betimes.service.executors.supervision.processes import boot_id
from betimes.service.store.databases.database import Database
from betimes.service.store.databases.schema import version
from betimes.service.store.event_file import archives
from betimes.service.store.reading import Reader

LOG, HOME = "store.log", "store.home"  # in `meta`
COPIED = "copied"  # likewise: not empty as long as the jobs of a copy have not been held
LAST_EVENT = "last-event"
_MOST_NAMED = 5  # jobs that a message names

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Home:
    """A state directory, distinguishable from its copies."""

    directory: str
    device: int
    inode: int
    host: str
    boot: str

    @classmethod
    def of(cls, folder: Path) -> Home:
        """The present identity of a state directory: its path, device, inode, host and boot."""
        real = folder.resolve()
        found = real.stat()
        return cls(str(real), found.st_dev, found.st_ino, socket.gethostname(), boot_id())

    def is_same(self, was: Home) -> bool:
        """Whether it is still the same, after a restart of the machine or under another name on its disk."""
        same_boot = self.boot == was.boot
        return (
            self.inode == was.inode
            and (same_boot or self.host == was.host)
            and (self.directory == was.directory or (same_boot and self.device == was.device))
        )


class LastEvent:
    """The file that names the log of a state directory and its newest event, which the log may lose.

    It is written in place after every commit, and not forced to the disk: after a power failure it may be behind.
    """

    def __init__(self, folder: Path) -> None:
        descriptor = os.open(folder / LAST_EVENT, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        words = self._file.read(256).split()
        is_whole = len(words) == 2 and words[1].isdigit()
        self.log_id = words[0].decode("ascii", "replace") if is_whole else None
        self.event_id = int(words[1]) if is_whole else 0

    def write(self, log_id: str, event_id: int) -> None:
        """Note the newest event. OSError where that is not possible."""
        os.pwrite(self._file.fileno(), b"%s %020d\n" % (log_id.encode("ascii"), event_id), 0)

    def close(self) -> None:
        """Forget the file."""
        self._file.close()


def find_log(
    database: Database, folder: Path, noted: LastEvent, as_copy: bool, accepts_loss: bool
) -> dict[str, str]:
    """The entries that `meta` is to have about the log of a database, LOG included; before its tables are touched.

    as_copy: the log is a copy, and becomes another log. accepts_loss: runs, checkpoints and archives unknown to the log
    are set aside. Raises StoreError for a copy or a loss that was not agreed to, and for as_copy without one.
    """
    log_id, was, last_event, last_job = _read(database)
    here = Home.of(folder)
    original = None if was is None or here.is_same(was) else was
    if as_copy and original is None:
        raise StoreError(
            f"{database.name}: is not a copy of another state directory; start without --as-copy"
        )
    if original is not None and not as_copy:
        raise StoreError(
            f"{database.name}: was made in {original.directory} on {original.host}; {folder} is a copy of that, or was "
            "moved here. Start the service there; or here with `betimes up --as-copy`: jobs that run there are left "
            "alone, and all unfinished jobs are held"
        )
    runs = [run for job in _numbered(folder / "runs", last_job) for run in _numbered(job)]
    checkpoints = _numbered(folder / "checkpoints", last_job)
    unknown = {int(path.name) for path in (*checkpoints, *(run.parent for run in runs))}
    lacks = _lacks(noted, log_id, last_event, unknown)
    if lacks and not accepts_loss:
        raise StoreError(
            f"{database.name}: {lacks}. Nothing was started. Keep a copy of {folder} and put back what is missing "
            "(betimes.db-wal is a part of betimes.db), or go on without it: `betimes up --accept-loss`"
        )
    if lacks:
        archived_upto = Reader(database).archived_upto if log_id is not None else 0
        later = [path for (_, last), path in archives(folder).items() if last > archived_upto]
        for run in runs:
            set_aside(str(run))
        for path in (*checkpoints, *later):
            path.rename(f"{path}.of-{(noted.log_id or 'another')[:8]}-{time.time_ns()}")
        aside = len(runs) + len(checkpoints) + len(later)
        _log.warning("%s: %s; %d folders and archives are set aside, as *.of-*", database.name, lacks, aside)
    found = {HOME: json.dumps(asdict(here)), LOG: log_id or uuid4().hex}
    return found if original is None else found | {LOG: uuid4().hex, COPIED: "yes"}


def _read(database: Database) -> tuple[str | None, Home | None, int, int]:
    """Log, state directory, last event and last job of a database as found."""
    with database.reading() as connection:
        is_new = version.name not in inspect(connection).get_table_names()
    if is_new:
        return None, None, 0, 0
    reader = Reader(database)
    home = reader.meta(HOME)
    was = None if home is None else Home(**json.loads(home))
    return reader.meta(LOG), was, reader.last_event_id(), reader.last_job_id()


def _numbered(folder: Path, after: int = 0) -> list[Path]:
    """Entries with a number above `after`, by number."""
    found = [path for path in folder.iterdir() if path.name.isdecimal()] if folder.is_dir() else []
    return sorted((path for path in found if int(path.name) > after), key=lambda path: int(path.name))


def _lacks(noted: LastEvent, log_id: str | None, last_event: int, unknown: set[int]) -> str:
    """A text about the parts of the state directory that the log lacks; empty: none."""
    parts: list[str] = []
    if noted.event_id and noted.log_id != log_id:
        parts.append(f"this is not the database that was used here last, which had {noted.event_id} events")
    elif noted.event_id > last_event:
        parts.append(
            f"the last events are missing: it ends at event {last_event}, and event {noted.event_id} was written"
        )
    if unknown:
        jobs = sorted(unknown)
        more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
        named = ", ".join(map(str, jobs[:_MOST_NAMED])) + more
        parts.append(f"jobs have run here that it does not know ({named})")
    return ", and ".join(parts)
