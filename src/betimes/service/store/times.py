"""From instants to events."""

from __future__ import annotations

from bisect import bisect_left

from betimes.service.store.storage import Storage


def last_before(store: Storage, at: float) -> int:
    """The last event before an instant; ids have no gaps, and events are in the order of time."""
    kept = range(store.archived_upto, store.last_event_id())
    return kept.start + bisect_left(kept, at, key=lambda before: store.events(before, 1)[0].at_s)
