"""Snapshots of the state, folded from the log beside the service: what a recovery will read is read once before."""

from __future__ import annotations

from betimes import __version__
from betimes.service.scheduling.ledger import Ledger
from betimes.service.store.batch import Batch, Snapshot
from betimes.service.store.store import Store


def keep_snapshot(store: Store, upto: int, default_run_s: float) -> None:
    """Write a snapshot of the state as of event `upto`. Raises StoreError; may run in any thread."""
    before = store.latest_snapshot()
    body, after = (before.body, before.event_id) if before is not None else (None, 0)
    events = (event for event in store.each_event(after) if event.event_id <= upto)
    ledger = Ledger.recovered(body, events, default_run_s)
    snapshot = Snapshot(ledger.next_event - 1, ledger.last_at, __version__, ledger.to_bytes())
    store.commit(Batch(snapshot=snapshot))
