"""Maintenance for some users: their jobs start on the nodes nevertheless, and nobody else's would run into it.

One node of four cores, reserved for bob from 100 to 200 s, unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from betimes.service.machines.machine import Machine
from tests.service.serving import Serving

POLICIES = ["fifo", "easy", "conservative"]


class Lab:
    """A service with two users."""

    def __init__(self, folder: Path, policy: str) -> None:
        machines = (Machine("n0", "virtual", "n", 4.0, 16.0, 0.0),)
        self.it = Serving(folder, policy=policy, machines=machines).start()
        self._tokens = {user: self.it.token_of(user) for user in ("ann", "bob")}

    def post(self, path: str, body: dict[str, Any], user: str | None = None) -> dict[str, Any]:
        headers = {} if user is None else {"Authorization": f"Bearer {self._tokens[user]}"}
        answer = self.it.ask("POST", f"/api/v1/{path}", json=body, headers=headers)
        answer.raise_for_status()
        return answer.json()

    def submit(self, user: str, estimate_s: float, units: int = 1) -> int:
        body = {"command": ["x"], "estimate_s": estimate_s, "min_units": units, "max_units": units}
        return self.post("jobs", body, user)["job_id"]

    def reserve(self, from_at: float = 100.0, to_at: float = 200.0, **more: Any) -> dict[str, Any]:
        return self.post("maintenance", {"from_at": from_at, "to_at": to_at, "users": ["bob"], **more})

    def job(self, number: int) -> dict[str, Any]:
        return self.it.ask("GET", f"/api/v1/jobs/{number}").json()

    def promised(self, number: int) -> float:
        return self.job(number)["quotes"][0]["start_at"]

    def started(self, *numbers: int) -> list[float]:
        return [self.job(number)["job"]["started_at"] for number in numbers]


@pytest.fixture(params=POLICIES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, request.param)
    yield made
    made.it.close()


def test_the_named_users_jobs_start_before_and_in_the_window_and_no_others(lab: Lab) -> None:
    lab.reserve()
    ann, bob = lab.submit("ann", 110.0), lab.submit("bob", 110.0)
    short = lab.submit("ann", 90.0)
    assert (lab.promised(ann), lab.promised(bob)) == (200.0, 0.0)
    reason = lab.job(ann)["job"]["reason"]
    assert reason["code"] == "maintenance"
    assert reason["text"].startswith("would run into the reservation for bob from 1970-01-01T00:01:40Z to")
    lab.it.pass_time(150.0)
    in_it, out_of_it = lab.submit("bob", 10.0), lab.submit("ann", 10.0)
    quoted = [
        lab.post("quote", {"command": ["x"], "estimate_s": 10.0}, user)["start_at"] for user in ("ann", "bob")
    ]
    assert quoted == [200.0, 150.0]
    assert (lab.promised(in_it), lab.promised(out_of_it)) == (150.0, 200.0)
    assert lab.job(out_of_it)["job"]["reason"]["text"].startswith(
        "waits for the end of the reservation for bob"
    )
    lab.it.pass_time(200.0)
    assert lab.started(ann, bob, short, in_it, out_of_it) == [200.0, 0.0, 0.0, 150.0, 200.0]
    assert lab.job(ann)["quote_error_s"] == 0.0


def test_maintenance_of_all_holds_for_the_named_users_too(lab: Lab) -> None:
    lab.reserve()
    lab.it.ask("POST", "/api/v1/maintenance", json={"from_at": 300.0, "to_at": 400.0}).raise_for_status()
    fits, late = lab.submit("bob", 290.0), lab.submit("bob", 310.0)
    assert [lab.promised(number) for number in (fits, late)] == [0.0, 400.0]
    assert lab.job(late)["job"]["reason"]["text"].startswith("would run into the maintenance from")
    lab.it.pass_time(800.0)
    assert lab.started(fits, late) == [0.0, 400.0]


def test_the_named_users_go_ahead_of_who_waits_for_the_end(lab: Lab) -> None:
    """Four units each: ann's first job ends at 80, her second would run into the window, and bob's would not."""
    lab.reserve()
    first, second = lab.submit("ann", 80.0, 4), lab.submit("ann", 50.0, 4)
    bob = lab.submit("bob", 60.0, 4)
    lab.it.pass_time(400.0)
    assert lab.started(first, second, bob) == [0.0, 200.0, 80.0]


@pytest.mark.parametrize("lab", ["nodes:fifo", "fitgpp"], indirect=True)
def test_a_policy_that_passes_nobody_over_lets_the_named_users_in_first(lab: Lab) -> None:
    lab.reserve()
    bob, ann = lab.submit("bob", 110.0), lab.submit("ann", 110.0)
    assert (lab.promised(ann), lab.promised(bob)) == (200.0, 0.0)
    lab.it.pass_time(400.0)
    assert lab.started(bob, ann) == [0.0, 200.0]


def test_runs_of_others_are_named_and_stopped_and_a_removed_one_holds_nobody_up(lab: Lab) -> None:
    ann, bob = lab.submit("ann", 150.0), lab.submit("bob", 150.0)
    window = lab.reserve(stop=True, reason="course")
    assert (window["running"], window["users"]) == ([ann], ["bob"])
    assert lab.it.ask("GET", "/api/v1/nodes").json()["nodes"][0]["maintenance"]["users"] == ["bob"]
    lab.it.pass_time(120.0)
    assert lab.started(bob) == [0.0]
    assert lab.job(ann)["job"]["status"] == "queued"
    lab.it.ask("DELETE", f"/api/v1/maintenance/{window['number']}").raise_for_status()
    assert lab.job(ann)["job"]["status"] == "running"
    waits = lab.submit("ann", 500.0)
    assert lab.job(waits)["job"]["status"] == "running"


def test_it_is_kept_over_another_policy_and_a_restart(lab: Lab) -> None:
    lab.reserve()
    ann = lab.submit("ann", 110.0)
    lab.it.ask("PUT", "/api/v1/policy", json={"policy": "srsf"}).raise_for_status()
    assert lab.job(ann)["job"]["status"] == "queued"
    assert lab.job(lab.submit("bob", 110.0))["job"]["status"] == "running"


def test_what_if_knows_whom_it_is_for(lab: Lab) -> None:
    lab.submit("ann", 150.0, 4)
    bob = lab.submit("bob", 150.0, 4)
    for users, start_at in ((["bob"], 150.0), (["ann"], 350.0)):
        asked = {"maintenance": [{"from_at": 150.0, "to_at": 350.0, "users": users}]}
        (job,) = (each for each in lab.post("what-if", asked)["jobs"] if each["job_id"] == bob)
        assert (job["start_before_at"], job["start_at"]) == (150.0, start_at)
