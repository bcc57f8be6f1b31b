"""Events and rows as the service writes them."""

from __future__ import annotations

from typing import Any

from betimes.service.scheduling.events import Event
from betimes.service.store import Batch, Row


def event(number: int, kind: str = "submitted", job: int | None = None, **data: Any) -> Event:
    return Event(number, 1_700_000_000.0 + number, kind, "user:ada", job, None, data)


def job(number: int, **columns: Any) -> Row:
    return {
        "job_id": number,
        "name": "train",
        "user": "ada",
        "status": "queued",
        "qos": "best-effort",
        "min_units": 1,
        "max_units": 4,
        "submitted_at": 1_700_000_000.0 + number,
        "labels": {},
        "spec": {"command": ["python", "train.py"], "env": {"SEED": str(number)}},
    } | columns


def run(job_id: int, number: int = 1, **columns: Any) -> Row:
    return {
        "job_id": job_id,
        "number": number,
        "units": 2,
        "places": [{"node": "local", "units": 2}],
        "started_at": 1_700_000_100.0,
    } | columns


def quote(number: int, job_id: int | None, **columns: Any) -> Row:
    return {
        "quote_id": number,
        "job_id": job_id,
        "made_at": 1_700_000_000.5,
        "policy": "srsf",
        "run_s": 60.0,
        "basis": "estimate",
    } | columns


def node(name: str, **columns: Any) -> Row:
    return {
        "name": name,
        "kind": "local",
        "status": "up",
        "cpu": 8.0,
        "memory_gib": 32.0,
        "gpu": 0.0,
    } | columns


def events(first: int, last: int, **columns: Any) -> Batch:
    return Batch(events=[event(number, **columns) for number in range(first, last + 1)])


def submission(number: int) -> Batch:
    """A job accepted: its event, its row, its quote."""
    return Batch(events=[event(number, job=number)], jobs=[job(number)], quotes=[quote(number, number)])
