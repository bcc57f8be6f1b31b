"""The runs of a window of time."""

from __future__ import annotations

from betimes.service.store import Batch, Store
from tests.service.store.rows import job, run


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
