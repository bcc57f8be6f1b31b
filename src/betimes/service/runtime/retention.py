"""Housekeeping of the database: finished jobs go after a while, old events to files; last uses of tokens are noted."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from betimes import __version__
from betimes.errors import StoreError
from betimes.service.access.auth import Tokens
from betimes.service.runtime.clock import Clock, VirtualClock
from betimes.service.scheduling.ledger import Ledger
from betimes.service.store.batch import Batch, Snapshot
from betimes.service.store.store import Store
from betimes.service.uploads.kept import Uploads


def keep_snapshot(store: Store, upto: int, default_run_s: float) -> None:
    """Write a snapshot of the state as of event `upto`. Raises StoreError; may run in any thread."""
    before = store.latest_snapshot()
    body, after = (before.body, before.event_id) if before is not None else (None, 0)
    events = (event for event in store.each_event(after) if event.event_id <= upto)
    ledger = Ledger.recovered(body, events, default_run_s)
    snapshot = Snapshot(ledger.next_event - 1, ledger.last_at, __version__, ledger.to_bytes())
    store.commit(Batch(snapshot=snapshot))


LONGEST_PAUSE_S = 3600.0  # between two rounds
USES_S = 60.0  # likewise, of the last uses of tokens

log = logging.getLogger(__name__)


async def keep_up(
    store: Store,
    runs: Path,
    finished_s: float | None,
    events_s: float | None,
    clock: Clock | VirtualClock,
    default_run_s: float,
) -> None:
    """Tidy in rounds, beside everything else. A store that cannot be written is tried again in the next one.

    finished_s: how long jobs that are over are kept, with their runs, quotes and output; events_s: how long events are
    kept in the database; null: for ever.
    """
    spans = [span for span in (finished_s, events_s) if span is not None]
    if not spans:
        return
    pause_s = min(LONGEST_PAUSE_S, min(spans) / 10)
    while True:
        try:
            await asyncio.to_thread(tidy, store, runs, finished_s, events_s, clock.now_s(), default_run_s)
        except StoreError as error:
            log.warning("what is old stays in the database for now: %s", error)
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


def tidy(
    store: Store,
    runs: Path,
    finished_s: float | None,
    events_s: float | None,
    now_at: float,
    default_run_s: float,
) -> None:
    """One round; `runs` has a folder a job. Raises StoreError; may run in any thread."""
    if finished_s is not None and store.retain(now_at - finished_s):
        _drop_output(store, runs)
    if events_s is not None:
        upto = store.last_before(now_at - events_s)
        if upto > store.archived_upto:
            newest = store.latest_snapshot()
            if newest is None or newest.event_id < upto:
                keep_snapshot(store, upto, default_run_s)
            store.archive(upto)


def _drop_output(store: Store, runs: Path) -> None:
    """Remove output of jobs that the store no longer has: a job has a row before it has a folder."""
    for folder in runs.iterdir() if runs.is_dir() else ():
        if folder.name.isdecimal() and store.job(int(folder.name)) is None:
            try:
                shutil.rmtree(folder)
            except OSError as error:  # others can be removed nevertheless
                log.warning("what job %s has printed cannot be removed: %s", folder.name, error)
