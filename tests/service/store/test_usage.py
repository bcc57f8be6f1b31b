"""Sums over runs, which each database makes in its own words."""

from __future__ import annotations

import pytest

from betimes.service.scheduling.charges import Charge
from betimes.service.store import Batch, Store
from betimes.service.store.queries import By, ran_s
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
        run(1, 2, units=1, started_at=40.0, ended_at=None) | {"owned_units": 0},
        run(2, 1, units=1, started_at=20.0, ended_at=60.0),
        run(3, 1, units=3, started_at=90.0, ended_at=None),
    ]
    store.commit(Batch(jobs=jobs, runs=runs))
    found = sorted(store.usage(20.0, 100.0, "user"), key=lambda row: row["group"])
    ada = {"group": "ada", "cpu": 2.0, "gpu": 0.5, "memory_gib": 0.0, "jobs": 2, "started": 1, "wait_s": 20.0}
    bob = {"group": "bob", "cpu": 1.0, "gpu": 0.0, "memory_gib": 4.0, "jobs": 1, "started": 1, "wait_s": 90.0}
    # Of the first run 10 s on two units fall into the period.
    all_s = 20.0 + 60.0 + 40.0
    assert found == [
        {**ada, "unit_s": all_s, "owned_s": all_s - 60.0},
        {**bob, "unit_s": 30.0, "owned_s": 30.0},
    ]
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


def test_charges_by_group_count_by_their_time_in_the_period(store: Store) -> None:
    jobs = [
        job(n, user=user, name=name, labels=labels)
        for n, user, name, labels in (
            (1, "ada", "a", {"team": "red", "account": "x"}),
            (2, "bob", "b", {"team": "red"}),
        )
    ]
    parts = [
        Charge("big-0", 1, "ada", 10.0, 30.0, 4.0),
        Charge("big-0", 2, "bob", 20.0, 20.0, 1.0),
        Charge("big-0", None, None, 0.0, 40.0, 8.0),
        Charge("big-1", 99, "cyd", 50.0, 60.0, 2.0),  # its job's row has gone
    ]
    store.commit(Batch(jobs=jobs, charges=[part.row(7, number) for number, part in enumerate(parts)]))

    def found(by: By | None, since_at: float = 0.0, until_at: float = 100.0) -> dict[str, float]:
        return {row["group"]: row["usd"] for row in store.charged(since_at, until_at, by)}

    assert found(None) == {"": 15.0}
    assert found("user") == {"ada": 4.0, "bob": 1.0, "cyd": 2.0}
    assert found("name") == {"a": 4.0, "b": 1.0}
    assert found("label") == {"team=red": 5.0, "account=x": 4.0}
    assert found("account") == {"x": 4.0}
    for since_at, until_at in ((0.0, 15.0), (15.0, 20.0), (20.0, 35.0), (25.0, 100.0)):
        usd = sum(part.usd_in(since_at, until_at) for part in parts)
        assert found(None, since_at, until_at) == {"": pytest.approx(usd)}
    store.retain(35.0)
    assert found(None) == {"": 10.0}, "what was over before is not kept longer than jobs are"
