"""The fold of the log: events happen to the ledger, live and when recovering; nothing else changes it."""

from __future__ import annotations

from collections.abc import Iterable

from betimes.errors import StoreDamaged, StoreError
from betimes.service.scheduling import (
    arrays,
    job_events,
    node_events,
    policy_events,
    promise_events,
    run_events,
    sets,
    user_events,
    windows,
)
from betimes.service.scheduling.beliefs import USUAL_S
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job, Preemption
from betimes.service.scheduling.kind import Kind
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.run_events import count_paid_by_moved

KINDS: dict[str, Kind[Ledger]] = {
    **policy_events.KINDS,
    **user_events.KINDS,
    **node_events.KINDS,
    **windows.KINDS,
    **arrays.KINDS,
    **job_events.KINDS,
    **promise_events.KINDS,
    **run_events.KINDS,
    **sets.KINDS,
}
"""Every kind of event, by its name."""
_OF_NEW = ("submitted", "array-submitted")  # kinds of events about jobs that are not there yet
_RESTORE = "the log was changed by a disk, a hand or another version; restore the database from a backup"


def apply(ledger: Ledger, event: Event) -> Job | None:
    """Let an event have happened; returns its job, also when this was its last event."""
    if event.event_id != ledger.next_event:
        raise StoreError(
            f"the event log goes on with {event.event_id} where {ledger.next_event} should follow; "
            "restore the database from a copy"
        )
    ledger.next_event += 1
    ledger.charges = []
    ledger.last_at = max(ledger.last_at, event.at_s)
    ledger.promise_errors.passed(event.at_s)
    change = KINDS[event.kind].change
    job = ledger.jobs.get(event.job) if event.job is not None else None
    if event.job is not None and job is None and event.kind not in _OF_NEW:
        return None  # it was over within the turn; a promise may still have been on its way
    count_paid_by_moved(ledger, event, job)
    before = job.counted_units if job is not None else 0
    if change is not None:
        job = change(ledger, event, job) or job
    if ledger.shares.accounts and job is not None:
        ledger.shares.moved(job, before, event.at_s - ledger.epoch_at)
    if job is not None and "preemption" in event.data:
        job.preemption = Preemption(**event.data["preemption"])
    return job


def recovered(body: bytes | None, events: Iterable[Event], default_run_s: float = USUAL_S) -> Ledger:
    """The ledger of a snapshot, if there is one, and of the events that follow it."""
    ledger = Ledger(default_run_s) if body is None else Ledger.from_bytes(body, default_run_s)
    follow(ledger, events)
    return ledger


def follow(ledger: Ledger, events: Iterable[Event]) -> None:
    """Let events of a log have happened."""
    for event in events:
        job = _read(ledger, event)
        if job is not None and job.status.is_over:
            ledger.forget(job)


def _read(ledger: Ledger, event: Event) -> Job | None:
    """`apply` of an event that was kept: one that this version cannot read is refused, not guessed at."""
    if event.kind not in KINDS:
        raise StoreDamaged(f"event {event.event_id} is of no known kind ({event.kind!r:.60}); {_RESTORE}")
    try:
        return apply(ledger, event)
    except StoreError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise StoreDamaged(
            f"event {event.event_id} ({event.kind}) cannot be read ({why}); {_RESTORE}"
        ) from error
