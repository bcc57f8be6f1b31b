"""Every route does what it says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_spec import JobSpec
from betimes.service.tuning.view import TuningView
from betimes.service.views.models import JobStory, JobView, NodeView, Quote, Submitted
from tests.service.fake_backend import FakeBackend
from tests.service.serving import Fake, fake

SPEC = {"command": ["true"]}


def talk(it: Fake, conversation: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    """Carry out a conversation with the service in process."""

    async def run() -> Any:
        async with it.asking() as http:
            return await conversation(http)

    return asyncio.run(run())


def ask(it: Fake, method: str, path: str, **options: Any) -> httpx.Response:
    async def one(http: httpx.AsyncClient) -> httpx.Response:
        return await http.request(method, path, **options)

    return talk(it, one)


def with_jobs(number: int, **fields: Any) -> Fake:
    it = fake()
    asyncio.run(it.backend.submit([JobSpec(command=["true"], **fields)] * number, "ada"))
    return it


def test_a_job_is_submitted() -> None:
    it = fake()
    response = ask(it, "POST", "/api/v1/jobs", json={**SPEC, "labels": {"team": "vision"}})
    assert response.status_code == 201
    assert Submitted.model_validate_json(response.content).job_ids == [1]
    assert it.backend.views[1].user == "ada"
    assert it.backend.specs[1].labels == {"team": "vision"}


def test_a_batch_is_submitted_in_its_order() -> None:
    it = fake()
    response = ask(it, "POST", "/api/v1/jobs", json={"jobs": [{"command": [str(n)]} for n in range(500)]})
    assert response.status_code == 201
    assert [job["job_id"] for job in response.json()["jobs"]] == list(range(1, 501))
    assert [spec.command[0] for spec in it.backend.specs.values()] == [str(n) for n in range(500)]


def test_the_same_key_submits_once() -> None:
    it = fake()
    headers = {"Idempotency-Key": "k1"}
    first = ask(it, "POST", "/api/v1/jobs", json=SPEC, headers=headers)
    assert ask(it, "POST", "/api/v1/jobs", json=SPEC, headers=headers).json() == first.json()
    other = ask(it, "POST", "/api/v1/jobs", json={"command": ["false"]}, headers=headers)
    assert other.status_code == 409
    assert len(it.backend.specs) == 1


def test_a_quote_submits_nothing() -> None:
    it = fake()
    response = ask(it, "POST", "/api/v1/quote", json=SPEC)
    assert Quote.model_validate_json(response.content).run_s == 60
    assert it.backend.specs == {}


def test_jobs_are_listed_in_pages_newest_first() -> None:
    it = with_jobs(5)

    async def pages(http: httpx.AsyncClient) -> list[int]:
        seen, after = [], None
        while True:
            page = (
                await http.get("/api/v1/jobs", params={"limit": 2, **({"after": after} if after else {})})
            ).json()
            seen += [job["job_id"] for job in page["items"]]
            after = page["following"]
            if after is None:
                return seen

    assert talk(it, pages) == [5, 4, 3, 2, 1]


def test_jobs_are_filtered() -> None:
    it = with_jobs(2, labels={"team": "vision", "note": "a=b"})
    asyncio.run(it.backend.submit([JobSpec(command=["false"])], "eve"))
    it.backend.becomes(2, Status.FINISHED)

    def numbers(**params: Any) -> list[int]:
        return [job["job_id"] for job in ask(it, "GET", "/api/v1/jobs", params=params).json()["items"]]

    assert numbers(status=["finished", "failed"]) == [2]
    assert numbers(user="eve") == [3]
    assert numbers(name="true") == [2, 1]
    assert numbers(label=["team=vision", "note=a=b"]) == [2, 1]
    assert numbers(label="team=sound") == []
    assert numbers(array_id=1) == []


def test_a_job_has_a_story() -> None:
    story = JobStory.model_validate_json(ask(with_jobs(1), "GET", "/api/v1/jobs/1").content)
    assert (story.job.job_id, story.spec.command, story.events[0].kind) == (1, ["true"], "submitted")


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        *[("cancel", "cancelled"), ("hold", "held"), ("release", "queued"), ("requeue", "stopping")],
        *[("suspend", "running"), ("resume", "running")],
    ],
)
def test_jobs_are_steered_one_and_many(verb: str, status: str) -> None:
    it = with_jobs(3)
    one = JobView.model_validate_json(ask(it, "POST", f"/api/v1/jobs/1/{verb}").content)
    assert (one.job_id, one.status) == (1, status)
    many = ask(it, "POST", f"/api/v1/jobs/{verb}", json={"jobs": [3, 2, 3]}).json()["jobs"]
    assert [(job["job_id"], job["status"]) for job in many] == [(3, status), (2, status)]


def test_jobs_are_changed_one_and_many() -> None:
    it = with_jobs(3)
    one = ask(
        it, "POST", "/api/v1/jobs/1/edit", json={"name": "other", "estimate_s": 5, "labels": {"a": "b"}}
    )
    assert (one.json()["name"], one.json()["labels"], it.backend.specs[1].estimate_s) == (
        "other",
        {"a": "b"},
        5.0,
    )
    body = {"jobs": [3, 2, 3], "changes": {"after": [], "priority": 2}}
    assert [job["job_id"] for job in ask(it, "POST", "/api/v1/jobs/edit", json=body).json()["jobs"]] == [3, 2]
    assert it.backend.specs[2].priority == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"cpu": -1}, "cpu"), ({"command": ["x"]}, "command"), ({"min_units": 4}, None)],
)
def test_a_change_that_cannot_be_is_refused(changes: dict[str, Any], field: str | None) -> None:
    answer = ask(with_jobs(1), "POST", "/api/v1/jobs/1/edit", json=changes)
    assert (answer.status_code, answer.json()["error"].get("field")) == (422, field)


def test_a_search_is_begun_followed_and_ended() -> None:
    it = fake()
    assert ask(it, "GET", "/api/v1/tune").json()["front"] is None
    assert ask(it, "DELETE", "/api/v1/tune").status_code == 409
    begun = ask(it, "POST", "/api/v1/tune", json={"objectives": ["jct:avg"], "evaluations": 9})
    assert (begun.status_code, begun.json()["search"]["of"]) == (202, 9)
    assert TuningView.model_validate_json(begun.content).search == it.backend.tuning_here.search
    assert ask(it, "DELETE", "/api/v1/tune").json()["search"]["stopping"]
    it.backend.finds()
    found = TuningView.model_validate_json(ask(it, "GET", "/api/v1/tune").content)
    assert found == it.backend.tuning_here
    assert found.front is not None
    assert len(found.front) == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"objectives": []}, "objectives"),
        ({"objectives": ["jct"]}, "objectives"),
        ({"evaluations": 0}, "evaluations"),
        ({"budget_s": 0}, "budget_s"),
        ({"jobs": 1}, "jobs"),
        ({"solver": "best"}, "solver"),
        ({"sizes": "noise:0.1"}, "sizes"),
        ({"seed": -1}, "seed"),
        ({"cluster": "x"}, "cluster"),
    ],
)
def test_a_search_that_cannot_be_is_refused(body: dict[str, Any], field: str) -> None:
    it = fake()
    response = ask(it, "POST", "/api/v1/tune", json=body)
    assert (response.status_code, response.json()["error"]["field"]) == (422, field)
    assert it.backend.tuning_here.search is None


def test_waiting_ends_with_the_job_or_with_the_time() -> None:
    it = with_jobs(1)

    async def conversation(http: httpx.AsyncClient) -> None:
        early = await http.get("/api/v1/jobs/1/wait", params={"timeout_s": 0.05})
        assert early.json()["status"] == "queued"
        waiting = asyncio.ensure_future(http.get("/api/v1/jobs/1/wait", params={"timeout_s": 60}))
        while not it.backend.watching:
            await asyncio.sleep(0.001)
        it.backend.happens("heartbeat")
        it.backend.becomes(1, Status.RUNNING)
        it.backend.becomes(1, Status.FAILED)
        assert (await waiting).json()["status"] == "failed"
        assert (await http.get("/api/v1/jobs/1/wait")).json()["status"] == "failed"
        assert it.backend.watching == 0

    talk(it, conversation)


def test_progress_is_for_the_run_itself() -> None:
    it = with_jobs(2)

    def report(token: str, job: int = 1, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}".encode(), "Content-Type": b"text/plain"}
        body = {"done": 3, "total": 10, **more}
        return ask(it, "POST", f"/api/v1/jobs/{job}/progress", json=body, headers=headers)

    own = it.backend.runs.issue(1, 2)
    assert report(own).status_code == 204
    assert report(own, attempt=2).status_code == 204
    assert it.backend.reports == [(1, 2, 3, 10)] * 2
    assert report(own, attempt=1).status_code == 403
    assert report(own, job=2).status_code == 403
    assert report(it.token).status_code == 403
    assert report("nonsense").status_code == 401
    assert report(own.replace("run.1.2", "run.1.3")).status_code == 403
    assert report("run.1.²." + "0" * 64).status_code == 401
    assert report(own, done=-1).json()["error"]["field"] == "done"
    assert len(it.backend.reports) == 2
    assert ask(it, "GET", "/api/v1/jobs", headers={"Authorization": f"Bearer {own}"}).status_code == 403


def test_nodes_are_listed_added_and_drained() -> None:
    it = fake()
    body = {"type": "big", "count": 2, "cpu": 4, "memory_gib": 8}
    assert ask(it, "POST", "/api/v1/nodes", json=body).status_code == 201
    listed = ask(it, "GET", "/api/v1/nodes").json()["nodes"]
    assert [node["name"] for node in listed] == ["here", "big-0", "big-1"]
    drained = NodeView.model_validate_json(ask(it, "POST", "/api/v1/nodes/big-1/drain").content)
    assert (drained.name, drained.status) == ("big-1", "draining")
    assert ask(it, "POST", "/api/v1/nodes/big-1/undrain").json()["status"] == "up"
    assert ask(it, "POST", "/api/v1/nodes/big-1/heartbeat").json()["lease_s"] == 30.0


def test_the_policy_is_shown_and_changed() -> None:
    it = fake()
    assert ask(it, "GET", "/api/v1/policy").json()["policy"] == "fifo"
    assert ask(it, "PUT", "/api/v1/policy", json={"policy": "srsf"}).json()["policy"] == "srsf"
    assert it.backend.policy_here.policy == "srsf"


def test_events_come_in_pages_and_filtered() -> None:
    it = with_jobs(3)
    it.backend.becomes(2, Status.RUNNING)
    page = ask(it, "GET", "/api/v1/events", params={"after": 1, "limit": 2}).json()
    assert [event["event_id"] for event in page["items"]] == [2, 3]
    assert page["following"] == 3
    of_job = ask(it, "GET", "/api/v1/events", params={"job": 2, "kind": ["running"]}).json()
    assert [event["event_id"] for event in of_job["items"]] == [4]


def test_health_needs_no_token() -> None:
    it = fake()
    anyone = {"Authorization": ""}
    assert ask(it, "GET", "/healthz", headers=anyone).json() == {"status": "alive"}
    assert ask(it, "GET", "/readyz", headers=anyone).json()["ready"] is True
    it.backend.ready = False
    unready = ask(it, "GET", "/readyz", headers=anyone)
    assert (unready.status_code, unready.json()["problems"]) == (503, ["the disk is full"])
    assert ask(it, "GET", "/healthz", headers=anyone).status_code == 200


def test_the_fake_is_asked_as_the_service_is() -> None:
    asked = {name: each for name, each in vars(FakeBackend).items() if name in vars(ServiceBackend)}
    assert {"submit", "jobs", "watch", "health"} <= asked.keys()
    for name, each in asked.items():
        if name.startswith("_") or not callable(each):
            continue
        theirs = inspect.signature(getattr(ServiceBackend, name)).parameters
        assert list(inspect.signature(each).parameters) == [n for n in theirs if n != "renews"], name
