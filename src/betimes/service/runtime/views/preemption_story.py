"""The preemptions of a job's story: its own, and those of others for its sake, out of the event log."""

from __future__ import annotations

from collections.abc import Iterable

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Preemption
from betimes.service.store.store import Store
from betimes.service.views.models import PreemptionView

TELLING = ("stopping", "ended", "launched", "work-lost")
"""The kinds of events that say, or say more, about what a preemption has cost."""
EVENTS_A_JOB = 10_000  # of one that was displaced


def preemptions_of(job_id: int, events: Iterable[Event]) -> list[PreemptionView]:
    """The preemptions of a job, of whose events these are some; the newest event of each knows the most."""
    told = [Preemption(**event.data["preemption"]) for event in events if "preemption" in event.data]
    return [_shown(job_id, one) for one in {one.run: one for one in told}.values()]


def displaced_by(events: Iterable[Event], store: Store) -> list[PreemptionView]:
    """The preemptions of other jobs for the sake of the one whose events these are."""
    runs = [(event.data["victim"], event.data["run"]) for event in events if event.kind == "preempts"]
    found: dict[tuple[int, int], PreemptionView] = {}
    for victim in dict.fromkeys(victim for victim, _ in runs):
        for one in preemptions_of(victim, store.events(0, EVENTS_A_JOB, victim, TELLING)):
            found[victim, one.run] = one
    return [found[run] for run in runs if run in found]  # the oldest events may have been archived


def _shown(job_id: int, one: Preemption) -> PreemptionView:
    known = (one.vacating_node_s, one.restart_node_s, one.lost_node_s)
    waited = one.left_at is not None and one.resumed_at is not None
    return PreemptionView(
        job_id=job_id,
        run=one.run,
        by=[*one.by],
        policy=one.policy,
        told_at=one.told_at,
        grace_s=one.grace_s,
        nodes=one.nodes,
        left_at=one.left_at,
        resumed_at=one.resumed_at,
        vacating_node_s=one.vacating_node_s,
        restart_node_s=one.restart_node_s,
        lost_node_s=one.lost_node_s,
        cost_node_s=sum(cost for cost in known if cost is not None),
        waiting_s=(one.resumed_at or 0.0) - (one.left_at or 0.0) if waited else None,
    )
