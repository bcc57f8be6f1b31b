"""Whose a job is: what others may not do to it, and what they do not see of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from betimes.service.access.auth import Caller
from betimes.service.api.others import Events
from tests.service.api.sharing import Shared, share

pytestmark = pytest.mark.usefixtures("no_fits")
SECRET, HOOK = "5up3r-s3cr3t", "h00k"
STEERING = ("cancel", "hold", "release", "requeue", "suspend", "resume")


async def shared_jobs(service: Shared) -> dict[str, str]:
    """Ada's jobs 1 (over), 2 (runs), 3 (waits) and 4 (held), and eve's job 5, which waits; tokens by user."""
    tokens = {
        name: await service.user(name, role)
        for name, role in (("ada", "user"), ("eve", "user"), ("vic", "viewer"))
    }
    mine: dict[str, Any] = {
        "command": ["train", f"--key={SECRET}"], "env": {"KEY": SECRET}, "workdir": f"/home/{SECRET}", "cpu": 4.0,
        "name": "train", "labels": {"team": "red"}, "estimate_s": 60.0,
        "notify": f"http://ada:{SECRET}@hooks.example/{HOOK}?t={SECRET}",
    }  # fmt: skip
    first = await service.done("POST", "/jobs", tokens["ada"], json=mine)
    await service.assembly.advance_to(100.0)
    assert (await service.done("GET", f"/jobs/{first['job_id']}/wait"))["status"] == "finished"
    for token, more in (("ada", {}), ("ada", {}), ("ada", {"hold": True}), ("eve", {})):
        await service.done("POST", "/jobs", tokens[token], json={**mine, **more})
    await service.assembly.settle()
    edits = {"name": f"train-{SECRET}", "labels": {"note": "x"}}
    await service.done("POST", "/jobs/3/edit", tokens["ada"], json=edits)
    await service.done("POST", "/jobs/3/edit", tokens["ada"], json={"name": "train"})
    return tokens


def hostile() -> list[tuple[str, str, Any]]:
    """Requests of one user against another's jobs, and against everybody's machines and users."""
    asked: list[tuple[str, str, Any]] = [("POST", f"/jobs/2/{verb}", None) for verb in STEERING]
    asked += [("POST", f"/jobs/{verb}", {"jobs": [5, 3]}) for verb in STEERING]
    asked += [("POST", "/jobs/signal", {"jobs": [5, 2], "signal": "KILL"})]
    asked += [("POST", "/jobs/1/cancel", None), ("POST", "/jobs/4/release", None)]
    asked += [
        ("POST", "/jobs/3/edit", {"priority": -5}),
        ("POST", "/jobs/edit", {"jobs": [5, 3], "changes": {"priority": 9}}),
    ]
    asked += [("GET", f"/jobs/{job}", None) for job in (1, 2, 3)]
    asked += [("GET", f"/jobs/{job}/log", None) for job in (1, 2)]
    asked += [("GET", "/jobs/2/log?follow=true&attempt=1", None), ("GET", "/jobs/3/log?follow=true", None)]
    asked += [("GET", "/jobs/3/helps", None), ("GET", "/jobs/1/efficiency", None)]
    asked += [("GET", f"/jobs/{job}/curves", None) for job in (1, 2, 3)]
    asked += [("POST", "/jobs/2/progress", {"done": 1, "total": 2})]
    asked += [
        ("POST", "/nodes/here/drain", None),
        ("POST", "/nodes/here/heartbeat", None),
        ("POST", "/nodes", {"type": "big", "cpu": 99}),
    ]
    asked += [("PUT", "/policy", {"policy": "srsf"}), ("POST", "/fleet/release", {"now": True})]
    asked += [("POST", "/tune", {}), ("DELETE", "/tune", None)]
    asked += [
        ("PATCH", "/users/eve", {"role": "operator"}),
        ("PATCH", "/users/ada", {"disabled": True}),
        ("POST", "/users", {"name": "eve2", "role": "operator"}),
    ]
    asked += [
        ("POST", "/tokens", {"user": "ada", "name": "mine"}),
        ("GET", "/tokens", None),
        ("DELETE", "/tokens/ada/token", None),
    ]
    asked += [
        ("POST", "/jobs", {"command": ["x"], "user": "ada"}),
        ("POST", "/jobs", {"command": ["x"], "notify": "touch /tmp/x"}),
    ]
    return asked


def test_hostile_requests_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        tokens = await shared_jobs(service)
        before = service.assembly.store.last_event_id()
        assert len(hostile()) > 40
        for method, path, body in hostile():
            for user in ("eve", "vic"):
                response = await service.ask(method, path, tokens[user], json=body)
                assert response.status_code in ((422,) if path == "/jobs" and user == "eve" else (401, 403)), (
                    method, path, body, response.text,
                )  # fmt: skip
                assert SECRET not in response.text
        for path in ("/jobs", "/quote"):
            assert (
                await service.ask("POST", path, tokens["vic"], json={"command": ["x"]})
            ).status_code == 403
        for verb in ("cancel", "hold", "release"):
            response = await service.browse("POST", "/act", tokens["eve"], verb=verb, job="3", back="")
            assert (response.status_code, "only ada and operators change it" in response.text) == (403, True)
        for method, path in (("POST", "/policy"), ("GET", "/job/2/log"), ("GET", "/job/3/helps")):
            assert (await service.browse(method, path, tokens["eve"], policy="srsf")).status_code == 403
        assert service.assembly.store.last_event_id() == before

    share(talk, tmp_path)


def test_what_others_see_of_a_job(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        tokens = await shared_jobs(service)
        for user in ("eve", "vic"):
            jobs = (await service.done("GET", "/jobs", tokens[user]))["items"]
            seen = {job["job_id"]: job for job in jobs}
            assert (seen[2]["name"], seen[2]["user"], seen[2]["labels"]) == ("train", "ada", {"team": "red"})
            assert seen[3]["promised_finish_at"] is not None
            assert SECRET not in str([job for job in jobs if job["user"] != user])
            assert not any("spec" in job for job in jobs)
            jobs = (await service.done("GET", "/jobs", tokens[user], params={"spec": True}))["items"]
            with_spec = {job["job_id"]: job["spec"]["env"] for job in jobs if "spec" in job}
            assert with_spec == ({5: {"KEY": SECRET}} if user == "eve" else {})
            events = (await service.done("GET", "/events", tokens[user], params={"limit": 1000}))["items"]
            others = [event for event in events if event["job_id"] in (1, 2, 3, 4)]
            assert {event["kind"] for event in others} > {
                "submitted",
                "started",
                "edited",
                "finished",
                "held",
            }
            assert not any(event["data"] for event in others)
            own = [event for event in events if event["job_id"] == 5]
            assert (SECRET in str(own)) == (user == "eve")
            of_users = [
                (event["kind"], event["data"].get("user")) for event in events if event["job_id"] is None
            ]
            assert [user for kind, user in of_users if kind == "user-set"].count(None) == 2
            for path in ("", "queue?state=all", "job/2", "time", "machines", "promises", "policy"):
                page = await service.browse("GET", f"/{path}", tokens[user])
                assert (page.status_code, SECRET in page.text) == (200, False), path
        assert (await service.done("GET", "/users", tokens["vic"]))["users"][0]["name"] == "vic"
        seen_by_eve = Events(service.app.state.context, Caller("eve", "user")).stream(
            service.backend.watch(0)
        )
        streamed = [await anext(seen_by_eve) for _ in range(service.assembly.store.last_event_id())]
        assert not any(event.data for event in streamed if event.job_id in (1, 2, 3, 4))
        assert any(event.data for event in streamed if event.job_id == 5)
        # Of several jobs, those that are one's own are changed where that is asked for.
        asked = {"jobs": [2, 3, 5], "where_possible": True}
        changed = (await service.done("POST", "/jobs/hold", tokens["eve"], json=asked))["jobs"]
        assert [job["job_id"] for job in changed] == [5]
        assert (await service.done("GET", "/jobs/5", tokens["eve"]))["spec"]["env"] == {"KEY": SECRET}
        assert (await service.done("GET", "/jobs/2"))["spec"]["env"] == {"KEY": SECRET}  # the operator
        events = (await service.done("GET", "/events"))["items"]
        assert SECRET in str([event for event in events if event["job_id"] == 2])
        own = await service.done("GET", "/jobs/5", tokens["eve"])
        assert (HOOK in own["spec"]["notify"], HOOK in str(own["events"])) == (True, False)
        assert (HOOK in str(events), "hooks.example" in str(events)) == (False, True)

    share(talk, tmp_path)


def test_a_setting_lets_all_read_but_the_environment(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        tokens = await shared_jobs(service)
        story = await service.done("GET", "/jobs/2", tokens["vic"])
        assert (story["spec"]["command"][1], story["spec"]["env"]) == (f"--key={SECRET}", {})
        assert (story["spec"]["notify"], HOOK in str(story)) == ("hooks.example", False)
        listed = (await service.done("GET", "/jobs", tokens["vic"], params={"spec": True}))["items"]
        assert {job["job_id"]: job["spec"] for job in listed}[2] == story["spec"]
        assert story["events"][0]["data"]["spec"]["env"] == {}
        events = (await service.done("GET", "/events", tokens["eve"], params={"job": 2}))["items"]
        assert events[0]["data"]["spec"]["env"] == {}
        assert (await service.ask("POST", "/jobs/2/cancel", tokens["eve"])).status_code == 403

    share(talk, tmp_path, reads_all=True)


def test_the_page_offers_each_what_they_may_do(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        tokens = {**await shared_jobs(service), "root": service.operator}
        for user, own in (("ada", (2, 3, 4)), ("eve", (5,)), ("vic", ()), ("root", (2, 3, 4, 5))):
            queue = (await service.browse("GET", "/queue", tokens[user])).text
            boxes = [job for job in range(1, 6) if f'name="job" value="{job}"' in queue]
            assert boxes == list(own)
            assert (
                f"<span>{user}{', viewer' if user == 'vic' else '' if user == 'root' else ', user'}</span>"
                in queue
            )
            links = [path in queue for path in ('href="./submit"', 'href="./what-if"', 'name="verb"')]
            assert links == [user != "vic"] * 3
            job = (await service.browse("GET", "/job/3", tokens[user])).text
            assert ['name="verb"' in job, "Command" in job] == [3 in own] * 2
        assert (await service.browse("GET", "/submit", tokens["vic"])).status_code == 403

    share(talk, tmp_path)


def test_the_log_says_who_did_what(tmp_path: Path) -> None:
    async def talk(service: Shared) -> None:
        tokens = await shared_jobs(service)
        await service.done("POST", "/jobs/5/cancel", tokens["eve"])
        await service.done("PATCH", "/users/vic", json={"role": "operator"})
        await service.done("POST", "/nodes/here/drain", tokens["vic"])
        await service.done("PUT", "/policy", tokens["vic"], json={"policy": "srsf"})
        await service.done("PATCH", "/users/ada", tokens["vic"], json={"weight": 3.0})
        await service.done("DELETE", "/tokens/ada/token", tokens["vic"])
        found = {
            user: [
                event["kind"]
                for event in (await service.done("GET", "/events", params={"by": user, "limit": 1000}))[
                    "items"
                ]
            ]
            for user in ("ada", "eve", "vic", "nobody")
        }
        assert found["ada"] == [
            "submitted",
            "submitted",
            "submitted",
            "submitted",
            "held",
            "edited",
            "edited",
        ]
        assert found["eve"] == ["submitted", "cancel-requested", "cancelled"]
        assert found["vic"] == ["node-status", "policy-set", "user-set", "token-revoked"]
        assert found["nobody"] == []

    share(talk, tmp_path)
