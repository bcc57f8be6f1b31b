"""Views made up beforehand, for tests of how an answer is shown."""

from __future__ import annotations

from typing import Any

from betimes.service.runtime.to_views import event_view
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import EventView, Health, JobStory, JobView, NodeView, Page, Quote

NOW = 1_800_000_000.0  # 15 January 2027, 08:00 UTC


def job(job_id: int = 41, **fields: Any) -> JobView:
    given: dict[str, Any] = {
        "name": "train",
        "user": "ada",
        "status": Status.QUEUED,
        "qos": "best-effort",
        "units": 0,
        "min_units": 1,
        "max_units": 1,
        "submitted_at": NOW - 720.0,
    }
    return JobView(job_id=job_id, **{**given, **fields})


def listed(*jobs: JobView, following: int | None = None) -> Page[JobView]:
    return Page(items=[*jobs], following=following)


def story(job: JobView, **fields: Any) -> JobStory:
    given: dict[str, Any] = {"spec": JobSpec(command=["x"]), "runs": [], "quotes": [], "events": []}
    return JobStory(job=job, **{**given, **fields})


def quote(**fields: Any) -> Quote:
    given: dict[str, Any] = {
        "made_at": NOW,
        "policy": "fifo",
        "start_at": NOW,
        "finish_at": NOW + 4500.0,
        "run_s": 4500.0,
        "basis": "estimate",
    }
    return Quote(**{**given, **fields})


def node(name: str = "here", **fields: Any) -> NodeView:
    given: dict[str, Any] = {"kind": "local", "status": "up", "cpu": 8, "memory_gib": 32, "gpu": 0}
    given |= {"free_cpu": 6, "free_memory_gib": 30.5, "free_gpu": 0, "last_seen_at": NOW - 3.0, "jobs": [41]}
    return NodeView(name=name, **{**given, **fields})


def event(event_id: int = 7, **fields: Any) -> EventView:
    given: dict[str, Any] = {"at_s": NOW - 60.0, "kind": "started", "cause": "policy", "job": 41}
    given |= {"node": "here", "data": {"units": 4}}
    return event_view(Event(event_id, **{**given, **fields}))


def health(**fields: Any) -> Health:
    given: dict[str, Any] = {"ready": True, "version": "1", "uptime_s": 9.0, "recovery_s": 0.1}
    return Health(**{**given, "replayed_events": 0, "jobs_active": 1, **fields})
