"""Lists of jobs: every filter, page after page, along an index however many jobs there are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from sqlalchemy import create_engine

from betimes.service.scheduling.job_states import Status
from betimes.service.store import Batch, Row, Store, default_url
from betimes.service.store.queries import listing
from betimes.service.views.models import JobFilter
from tests.service.store.conftest import Opening
from tests.service.store.rows import job

USERS, NAMES, TEAMS = ("ada", "bob"), ("train", "test"), ("vision", "speech")


def some_jobs() -> Batch:
    parts = itertools.cycle(itertools.product(Status, USERS, NAMES, (None, 1), ({}, *TEAMS)))
    rows = []
    for number, (status, user, name, array, team) in zip(range(1, 201), parts, strict=False):
        labels = {"team": team, "odd": str(number % 2)} if team else {}
        columns: dict[str, Any] = {"status": status, "user": user, "name": name, "array_id": array}
        rows.append(job(number, labels=labels, **columns))
    return Batch(jobs=rows)


FILTERS: list[dict[str, Any]] = [
    {},
    {"status": [Status.RUNNING]},
    {"status": [Status.QUEUED, Status.FAILED, Status.QUEUED]},
    {"status": list(Status)},
    {"user": "bob"},
    {"user": "nobody"},
    {"name": "train", "status": [Status.FINISHED]},
    {"user": "ada", "name": "test", "array_id": 1},
    {"array_id": 1, "status": [Status.HELD, Status.CANCELLED]},
    {"label": {"team": "vision"}},
    {"label": {"team": "vision", "odd": "1"}},
    {"label": {"team": "speech"}, "status": [Status.QUEUED, Status.RUNNING]},
    {"label": {"team": "speech", "odd": "0"}, "status": [Status.FAILED, Status.RUNNING], "user": "ada"},
    {"label": {"team": "speech"}, "name": "test", "array_id": 1},
    {"label": {"team": "nothing"}},
]


def _meets(row: Row, wanted: JobFilter) -> bool:
    return (
        (not wanted.status or row["status"] in wanted.status)
        and (wanted.user is None or row["user"] == wanted.user)
        and (wanted.name is None or row["name"] == wanted.name)
        and (wanted.array_id is None or row["array_id"] == wanted.array_id)
        and wanted.label.items() <= row["labels"].items()
    )


@pytest.mark.parametrize("conditions", FILTERS, ids=str)
def test_pages_together_are_what_the_conditions_say(store: Store, conditions: dict[str, Any]) -> None:
    store.commit(some_jobs())
    wanted = JobFilter(**conditions)
    expected = [row["job_id"] for row in reversed(some_jobs().jobs) if _meets(row, wanted)]
    found: list[int] = []
    after = None
    while page := store.jobs(JobFilter(**conditions, limit=7, after=after)):
        assert len(page) <= 7
        found += [row["job_id"] for row in page]
        after = page[-1]["job_id"]
    assert found == expected


@pytest.mark.parametrize("conditions", FILTERS, ids=str)
def test_no_list_walks_or_sorts_all_jobs(
    opened: Opening, url: str, folder: Any, conditions: dict[str, Any]
) -> None:
    """SQLite tells its plan: every table is searched by a key, or walked in the order of the list until it is full."""
    if url != default_url(folder):
        pytest.skip("PostgreSQL plans by statistics")
    opened()
    engine = create_engine(url)
    try:
        query = listing(JobFilter(**conditions, after=5000, limit=100))
        compiled = query.compile(engine, compile_kwargs={"literal_binds": True})
        with engine.connect() as connection:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}")]
    finally:
        engine.dispose()
    assert [step for step in plan if step.startswith("SCAN jobs")] == []
    assert [
        step for step in plan if "SEARCH jobs" in step and "INDEX" not in step and "rowid" not in step
    ] == []
