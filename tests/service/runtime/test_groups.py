"""Groups of users: weights, limits and budgets that they have together. Four cores, worked by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn

from betimes.errors import Refused
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.spec.groups import Group, parse_groups
from betimes.service.spec.users import User
from betimes.testing import InMemoryService
from tests.service.serving import Serving
from tests.service.spec.any_tables import any_tables

PHYSICS = {"name": "physics", "users": ["ann", "bob"], "max_running_jobs": 2, "max_units": 3}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    opened = list[Serving]()

    def start(*groups: Mapping[str, Any], half_life_s: float | None = None) -> Serving:
        settings = Settings(groups=parse_groups(groups), half_life_s=half_life_s)
        it = Serving(tmp_path / str(len(opened)), settings=settings)
        opened.append(it.start())
        return it

    yield start
    for it in opened:
        it.close()


def submit(it: Serving, token: str, **fields: Any) -> int:
    job = {"command": ["x"], "estimate_s": 100.0, **fields}
    answer = it.ask("POST", "/api/v1/jobs", json=job, headers={"Authorization": f"Bearer {token}"})
    answer.raise_for_status()
    return answer.json()["job_id"]


def test_members_have_running_jobs_and_units_together_and_are_promised_when_there_is_room(serve: Any) -> None:
    it = serve(PHYSICS)
    ann, bob, eve = map(it.token_of, ("ann", "bob", "eve"))
    jobs = [submit(it, ann), submit(it, bob), submit(it, ann), submit(it, eve)]
    found = it.jobs()
    assert [job.status.value for job in found] == ["running", "running", "blocked", "running"]
    reason = found[2].reason
    assert reason is not None
    assert reason.text == "waits for running jobs of group physics: 2 of 2 taken by jobs 1, 2"
    assert [job.promised_finish_at for job in found] == [100.0, 100.0, 200.0, 100.0]
    it.pass_time(150.0)
    wide = [submit(it, bob, min_units=2, max_units=2), submit(it, ann)]
    found = {job.job_id: job for job in it.jobs()}
    assert [found[job].status.value for job in wide] == ["running", "blocked"], "one and two units, of three"
    (shown,) = it.ask("GET", "/api/v1/groups").json()["groups"]
    assert (shown["held"]["running_jobs"], shown["held"]["units"], shown["held"]["queued_jobs"]) == (2, 3, 1)
    it.pass_time(1000.0)
    assert [job.finished_at for job in it.jobs()] == [100.0, 100.0, 200.0, 100.0, 250.0, 300.0]
    assert jobs == [1, 2, 3, 4]


def test_a_group_limits_queues_arrays_times_and_widths_of_each_member() -> None:
    group = {
        "name": "lab",
        "users": ["tester"],
        "max_queued_jobs": 3,
        "max_array": 2,
        "max_time": "1h",
        "max_units": 2,
    }
    refused: list[tuple[dict[str, Any], str]] = [
        ({"time_limit_s": 4000.0}, "time_limit_s: jobs of group lab may run for 60 min at most"),
        ({"max_units": 3}, "max_units: the jobs of group lab may have 2 units together"),
        ({"array": "1-4"}, "array: group lab may have 3 jobs in the queue, and has 0"),
    ]
    with InMemoryService(groups=[group]) as service:
        for asked, said in refused:
            with pytest.raises(Refused, match=f"^{re.escape(said)}"):
                service.submit(command=["x"], **asked)
        with pytest.raises(Refused, match="arrays of group lab may have 2 elements at most"):
            service.quote(command=["x"], array="1-3", time_limit_s=60.0)


def test_a_queue_may_be_for_a_group() -> None:
    group = {"name": "lab", "users": ["tester"]}
    for guests, is_in in (["@lab"], True), (["@other", "ann"], False):
        with InMemoryService(groups=[group], queues=[{"name": "q", "users": guests}]) as service:
            if is_in:
                assert service.submit(command=["x"], queue="q").job_id == 1
            else:
                with pytest.raises(Refused, match="queue q is not for tester"):
                    service.submit(command=["x"], queue="q")


def test_a_group_shares_as_one_user_of_its_weight_does_and_its_users_share_that(serve: Any) -> None:
    users = {"ann": User(name="ann", weight=3.0), "eve": User(name="eve", weight=2.0)}
    groups = parse_groups([{"name": "lab", "users": ["ann", "bob"], "weight": 2.0}])
    weights = {name: user.weight for name, user in groups.weighted(users).items()}
    assert weights == {"ann": 1.5, "bob": 0.5, "eve": 2.0}

    it = serve({"name": "lab", "users": ["ann", "bob"], "weight": 1.0}, half_life_s=1e4)
    tokens = {name: it.token_of(name) for name in ("ann", "bob", "eve")}
    blocking = submit(it, tokens["eve"], cpu=4, estimate_s=1000.0)
    for _ in range(8):
        for name in ("ann", "bob", "eve"):
            submit(it, tokens[name], cpu=4, estimate_s=10.0)
    it.pass_time(1000.0)
    assert it.jobs()[0].job_id == blocking
    it.pass_time(100_000.0)
    found = sorted(
        (job for job in it.jobs() if job.job_id != blocking), key=lambda job: job.started_at or 0.0
    )
    assert {job.user for job in found[:8]} == {"ann", "bob"}, "eve has had all of it"
    (shown,) = it.ask("GET", "/api/v1/groups").json()["groups"]
    assert 0.0 < shown["recent_frac"] < 1.0


def test_usage_is_summed_by_group(serve: Any) -> None:
    it = serve({"name": "lab", "users": ["ann", "bob"]})
    for name in ("ann", "bob", "eve"):
        submit(it, it.token_of(name), estimate_s=3600.0)
    it.pass_time(4000.0)
    found = it.ask("GET", "/api/v1/usage", params={"by": "group"}).json()
    assert {each["name"]: each["figures"]["jobs"] for each in found["groups"]} == {"lab": 2, "no group": 1}


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([{"name": "a"}], "group a: field users: missing"),
        ([{"name": "a", "users": []}], "group a: field users"),
        ([{"name": "a", "users": ["x"], "weight": 0}], "group a: field weight: "),
        ([{"name": "a", "users": ["x"]}, {"name": "b", "users": ["x"]}], "group b: x is in group a already"),
        ([{"name": "a", "users": ["x"]}, {"name": "a", "users": ["y"]}], "group a: stands twice"),
    ],
)
def test_a_table_that_cannot_be_is_named(tables: Any, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        parse_groups(tables)


@drawn(any_tables(Group))
def test_any_tables_are_groups_or_refused(tables: Any) -> None:
    try:
        found = parse_groups(tables)
    except ValueError:
        return
    assert all(group.weight > 0 and group.users for group in found.all)
