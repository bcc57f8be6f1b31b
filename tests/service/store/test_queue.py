"""The queue in the order of promised ends: page after page, arrays folded, and the runs of a window of time."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.service.store import Batch, Row, Store
from betimes.service.views.models import JobFilter
from tests.service.store.rows import job, run

LIVE = ("held", "blocked", "queued", "running", "stopping")


def queued_jobs() -> Batch:
    """Of 120 jobs some are over, some have no promise, and two arrays lie in between; ends in another order."""
    rows: list[Row] = []
    for number in range(1, 121):
        is_over, is_promised = number % 7 == 0, number % 5 != 0
        array = 20 if 20 <= number < 40 else 60 if 60 <= number < 65 else None
        columns: dict[str, Any] = {
            "status": "finished" if is_over else LIVE[number % 5],
            "finished_at": 50.0 if is_over else None,
            "promised_finish_at": float((number * 37) % 101) if is_promised else None,
            "array_id": array,
            "user": "ada" if (array or number) % 2 else "bob",
        }
        rows.append(job(number, **columns))
    return Batch(jobs=rows)


def place(row: Row) -> tuple[bool, float, int]:
    at = row["promised_finish_at"]
    return at is None, at or 0.0, row["job_id"]


@pytest.mark.parametrize(
    "conditions",
    [{}, {"user": "bob"}, {"status": ["queued", "held"]}, {"array_id": 20}, {"user": "nobody"}],
    ids=str,
)
def test_pages_together_are_the_queue(store: Store, conditions: dict[str, Any]) -> None:
    store.commit(queued_jobs())
    wanted = JobFilter(**conditions, limit=7)
    live = [
        row
        for row in queued_jobs().jobs
        if row["finished_at"] is None
        and (not wanted.status or row["status"] in wanted.status)
        and wanted.user in (None, row["user"])
        and wanted.array_id in (None, row["array_id"])
    ]
    statuses = {row["status"] for row in live}
    assert store.standing(wanted) == {s: sum(row["status"] == s for row in live) for s in statuses}
    expected, arrays = list[int](), set[int]()
    for row in sorted(live, key=place):
        if wanted.array_id is None and row["array_id"] is not None:
            if row["array_id"] in arrays:
                continue
            arrays.add(row["array_id"])
        expected.append(row["job_id"])
    found, after = list[int](), None
    while page := store.queue(wanted, after):
        assert len(page) <= 7
        found += [row["job_id"] for row in page]
        after = page[-1]["promised_finish_at"], page[-1]["job_id"]
    assert found == expected
    for number in arrays:
        counts = {row["status"]: row["jobs"] for row in store.arrays(wanted, [number])}
        assert sum(counts.values()) == sum(row["array_id"] == number for row in live)


def test_runs_of_a_window_are_those_that_overlap_it(store: Store) -> None:
    jobs = [job(n, status="running") for n in (1, 2)]
    jobs.append(job(3, status="finished", finished_at=40.0))
    runs = [
        run(1, 1, started_at=0.0, ended_at=10.0),
        run(1, 2, started_at=20.0, ended_at=None),
        run(2, 1, started_at=60.0, ended_at=None),
        run(3, 1, started_at=5.0, ended_at=40.0),
    ]
    store.commit(Batch(jobs=jobs, runs=runs))
    found = store.runs_between(10.0, 50.0, 10)
    assert [(row["job_id"], row["number"]) for row in found] == [(1, 2), (3, 1)]
    assert [row["job_id"] for row in store.runs_between(10.0, 50.0, 1)] == [1]
