"""The selections of a portfolio as the API shows them: what was chosen and expected, and what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.ledger import bounded_slowdown
from betimes.service.store.batch import Row
from betimes.service.store.store import Store
from betimes.service.views.models import SelectionView

KINDS = ("selected", "not-selected")
A_PAGE = 1000


def selections(store: Store, last: int) -> list[SelectionView]:
    """The newest selections, the newest first, with what has come of the jobs that waited then."""
    newest: deque[Event] = deque(maxlen=last)
    after = store.archived_upto
    while found := store.events(after, A_PAGE, None, KINDS):
        newest.extend(found)
        after = found[-1].event_id
    jobs: dict[int, Row | None] = {}
    for event in newest:
        for number, _ in event.data.get("jobs", ()):
            if number not in jobs:
                jobs[number] = store.job(number)
    return [_view(event, jobs) for event in reversed(newest)]


def _view(event: Event, jobs: Mapping[int, Row | None]) -> SelectionView:
    data = event.data
    waited = [(jobs[number], since_at) for number, since_at in data.get("jobs", ())]
    slowdowns = [
        _slowdown(row, since_at)
        for row, since_at in waited
        if row is not None and row["status"] == Status.FINISHED.value
    ]
    return SelectionView(
        event_id=event.event_id,
        at=event.at_s,
        from_at=data["from_at"],
        member=data.get("member"),
        before=data.get("before"),
        in_force=event.kind == "selected" and not data["shadow"],
        problem=data.get("problem"),
        waiting=data.get("waiting", 0),
        score=data.get("score"),
        scores=data.get("scores", {}),
        smallest_wins=data.get("smallest_wins", False),
        slowdown=data.get("slowdown"),
        machine_s=data.get("machine_s"),
        took_s=data.get("took_s"),
        finished=len(slowdowns),
        slowdown_since=sum(slowdowns) / len(slowdowns) if slowdowns else None,
    )


def _slowdown(row: Row, since_at: float) -> float:
    return bounded_slowdown(row["started_at"] - since_at, row["finished_at"] - row["started_at"])
