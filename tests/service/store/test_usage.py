"""Sums over runs, which each database makes in its own words."""

from __future__ import annotations

import pytest

from betimes.service.store import Batch, Store
from betimes.service.store.queries import ran_s
from tests.service.store.rows import job, run


def test_sums_by_group_and_by_what_a_unit_asks_for(store: Store) -> None:
    specs = {1: {"cpu": 2.0, "gpu": 0.5}, 2: {"cpu": 2.0, "gpu": 0.5}, 3: {"memory_gib": 4}}
    jobs = [
        job(n, user=user, status="running", submitted_at=0.0, spec={"command": ["x"], **specs[n]})
        | {"labels": {"team": "red", "account": f"a{n}"} if n < 3 else {}}
        for n, user in ((1, "ada"), (2, "ada"), (3, "bob"))
    ]
    runs = [
        run(1, 1, units=2, started_at=10.0, ended_at=30.0),
        run(1, 2, units=1, started_at=40.0, ended_at=None),
        run(2, 1, units=1, started_at=20.0, ended_at=60.0),
        run(3, 1, units=3, started_at=90.0, ended_at=None),
    ]
    store.commit(Batch(jobs=jobs, runs=runs))
    found = sorted(store.usage(20.0, 100.0, "user"), key=lambda row: row["group"])
    ada = {"group": "ada", "cpu": 2.0, "gpu": 0.5, "memory_gib": 0.0, "jobs": 2, "started": 1, "wait_s": 20.0}
    bob = {"group": "bob", "cpu": 1.0, "gpu": 0.0, "memory_gib": 4.0, "jobs": 1, "started": 1, "wait_s": 90.0}
    # Of the first run 10 s on two units fall into the period.
    assert found == [{**ada, "unit_s": 20.0 + 60.0 + 40.0}, {**bob, "unit_s": 30.0}]
    assert [ran_s(row) for row in store.runs(2)] == [40.0]
    still = run(2, 1, units=1, started_at=20.0, ended_at=60.0, stood_s=10.0)
    stands = run(3, 1, started_at=90.0, stood_s=2.0, suspended_at=95.0)
    store.commit(Batch(runs=[still, {**stands, "units": 3}]))
    found = sorted(store.usage(20.0, 100.0, "user"), key=lambda row: row["group"])
    assert [row["unit_s"] for row in found] == [pytest.approx(20.0 + 60.0 + 30.0), pytest.approx(3 * 3.0)]
    assert [ran_s(row) for row in store.runs(2)] == [30.0]
    assert [(row["group"], row["jobs"]) for row in store.usage(0.0, 100.0, "label") if row["jobs"] > 1] == [
        ("team=red", 2)
    ]
    assert sorted(row["group"] for row in store.usage(0.0, 100.0, "account")) == ["a1", "a2"]
    assert [(row["job_id"], row["number"]) for row in store.runs_of(1)] == [(1, 1), (1, 2)]
