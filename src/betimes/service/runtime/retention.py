"""Housekeeping: finished jobs and their folders go after a while, old events to files; uses of tokens are noted."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from betimes import __version__
from betimes.errors import StoreError
from betimes.resizing import UNITS
from betimes.service.access.auth import Tokens
from betimes.service.executors.supervision import files
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.scheduling.fold import recovered
from betimes.service.store.batch import Batch, Snapshot
from betimes.service.store.store import Store
from betimes.service.uploads.kept import Uploads
from betimes.units import S_PER_DAY, Keep

LONGEST_PAUSE_S = 3600.0  # between two rounds
USES_S = 60.0  # likewise, of the last uses of tokens
FIRST_PAUSE_S = 60.0  # a start has other things to do
RUNS_KEPT, EVENTS_KEPT = Keep(365 * S_PER_DAY), Keep(90 * S_PER_DAY)
EMPTY_KEPT_S = 7 * S_PER_DAY  # a backup as old finds runs that have ended since by their folders
_ENOUGH = 1.1  # times what is kept: then the rest goes
_OF_SUPERVISOR = {files.LAUNCH, files.SHIM, files.EXIT, files.LOCK, files.RESERVED, files.INPUT}
_EMPTY = {files.LOG, files.ERRORS}  # of a run that has printed nothing

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retention:
    """The times for which things are kept; None: for ever.

    finished_s: jobs that are over, with their rows and all else. runs: their folders, with their output. events: in the
    database, before they go to files.
    """

    finished_s: float | None = None
    runs: Keep = RUNS_KEPT
    events: Keep = EVENTS_KEPT


def keep_snapshot(store: Store, upto: int, default_run_s: float) -> None:
    """Write a snapshot of the state as of event `upto`. Raises StoreError; may run in any thread."""
    before = store.latest_snapshot()
    body, after = (before.body, before.event_id) if before is not None else (None, 0)
    events = (event for event in store.each_event(after) if event.event_id <= upto)
    ledger = recovered(body, events, default_run_s)
    snapshot = Snapshot(ledger.next_event - 1, ledger.last_at, __version__, ledger.to_bytes())
    store.commit(Batch(snapshot=snapshot))


async def keep_up(
    store: Store,
    state: Path,
    retention: Retention,
    clock: Clock | VirtualClock,
    default_run_s: float,
) -> None:
    """Tidy in rounds, beside everything else. A store that cannot be written is tried again in the next one."""
    spans = (retention.finished_s, retention.runs.age_s, retention.events.age_s)
    pause_s = min([LONGEST_PAUSE_S, *(span / 10 for span in spans if span is not None)])
    await asyncio.sleep(min(FIRST_PAUSE_S, pause_s))
    try:
        await asyncio.to_thread(store.check_log)  # a start has read the events since the last snapshot only
    except StoreError as error:
        log.error("%s", error)
    while True:
        try:
            await asyncio.to_thread(tidy, store, state, retention, clock.now_s(), default_run_s)
        except (StoreError, OSError) as error:
            log.warning("what is old stays for now: %s", error)
        await asyncio.sleep(pause_s)


async def keep_uploads(store: Store, uploads: Uploads) -> None:
    """Tidy in rounds: uploaded directories go once no job in the store names them."""
    while True:
        try:
            await asyncio.to_thread(tidy_uploads, store, uploads)
        except (StoreError, OSError) as error:
            log.warning("uploads that no job needs stay for now: %s", error)
        await asyncio.sleep(LONGEST_PAUSE_S)


async def keep_uses(tokens: Tokens) -> None:
    """Store in rounds when tokens of users were used last."""
    while True:
        await asyncio.sleep(USES_S)
        try:
            await tokens.note_uses()
        except StoreError as error:
            log.warning("when tokens were used last is not stored for now: %s", error)


def tidy_uploads(store: Store, uploads: Uploads) -> None:
    """One round. Raises StoreError, OSError; may run in any thread."""
    if old := uploads.old():
        uploads.remove(set(old) - store.uploads())


def tidy(store: Store, state: Path, retention: Retention, now_at: float, default_run_s: float) -> None:
    """One round. Raises StoreError, OSError; may run in any thread."""
    forgotten = 0 if retention.finished_s is None else store.retain(now_at - retention.finished_s)
    _tidy_runs(store, state, retention.runs, now_at, forgets=forgotten > 0)
    upto = _events_beyond(store, retention.events, now_at)
    if upto > store.archived_upto:
        newest = store.latest_snapshot()
        if newest is None or newest.event_id < upto:
            keep_snapshot(store, upto, default_run_s)
        store.archive(upto)


def _events_beyond(store: Store, keep: Keep, now_at: float) -> int:
    """The last event that is to go to a file; a tenth of what is kept goes at once, so that files are few."""
    upto, first = 0, store.archived_upto + 1
    if keep.age_s is not None and store.last_before(now_at - _ENOUGH * keep.age_s) >= first:
        upto = store.last_before(now_at - keep.age_s)
    if keep.bytes is not None and store.last_beyond(round(_ENOUGH * keep.bytes)) >= first:
        upto = max(upto, store.last_beyond(keep.bytes))
    return upto


def _tidy_runs(store: Store, state: Path, keep: Keep, now_at: float, *, forgets: bool) -> None:
    """Remove folders of jobs that are over: too old ones, those with nothing in them, the oldest beyond an amount.

    forgets: also those of jobs that the store does not know.
    """
    runs = state / "runs"
    folders = {
        int(path.name): path for path in (runs.iterdir() if runs.is_dir() else ()) if path.name.isdecimal()
    }
    known = store.finished(list(folders))
    for job, path in sorted(folders.items()):
        if job not in known:
            gone = forgets  # a job has a row before it has a folder
        else:
            finished_at = known[job]
            gone = finished_at is not None and (
                (keep.age_s is not None and finished_at < now_at - keep.age_s)
                or (finished_at < now_at - EMPTY_KEPT_S and _is_empty(path))
            )
        if gone and _is_removed(path):
            del folders[job]
            with suppress(OSError):  # it holds something, or is not there
                (state / "checkpoints" / str(job)).rmdir()
    if keep.bytes is None:
        return
    sizes = {job: _size_bytes(path) for job, path in folders.items()}
    over = sorted((at, job) for job, at in known.items() if at is not None and job in folders)
    left = sum(sizes.values())
    for _, job in over:
        if left <= keep.bytes:
            break
        if _is_removed(folders[job]):
            left -= sizes[job]


def _is_empty(folder: Path) -> bool:
    """Whether none of a job's runs has left anything but the files of service and supervisor, its end among them."""
    for run in folder.iterdir():
        for path in run.iterdir() if run.is_dir() else (run,):
            if path.name == files.JOB_FOLDER:
                if any(each.name != UNITS for each in path.iterdir()):
                    return False
            elif path.name not in _OF_SUPERVISOR and (path.name not in _EMPTY or path.stat().st_size):
                return False
        if not (run / files.EXIT).exists():
            return False
    return True


def _size_bytes(folder: Path) -> int:
    """The room that a folder takes on the disk, as far as it is still there."""
    total, waiting = 0, [str(folder)]
    while waiting:  # as deep as jobs make folders: a function that calls itself would not get there
        with suppress(OSError), os.scandir(waiting.pop()) as found:
            for each in found:
                with suppress(FileNotFoundError):
                    total += each.stat(follow_symlinks=False).st_blocks * 512
                    if each.is_dir(follow_symlinks=False):
                        waiting.append(each.path)
    return total


def _is_removed(folder: Path) -> bool:
    try:
        try:
            shutil.rmtree(folder)
        except RecursionError:
            subprocess.run(["rm", "-rf", "--", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:  # others can be removed nevertheless
        log.warning("what job %s has printed cannot be removed: %s", folder.name, error)
        return False
    return True
