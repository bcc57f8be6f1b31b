"""Every route does what it says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from betimes.errors import StoreFull
from betimes.service.runtime import health
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.policy_engine import PolicyEngine
from betimes.service.tuning.view import TuningView
from betimes.service.views.models import JobStory, JobView, NodeView, Quote, Submitted
from tests.service.serving import Serving, until
from tests.service.tuning.fronts import front
from tests.service.tuning.living import Searches

SPEC = {"command": ["true"]}


def with_jobs(it: Serving, number: int, **fields: Any) -> list[int]:
    """The numbers of jobs that are submitted."""
    answer = it.ask("POST", "/api/v1/jobs", json={"jobs": [{**SPEC, **fields}] * number})
    return [job["job_id"] for job in answer.json()["jobs"]]


def test_a_job_is_submitted(it: Serving) -> None:
    response = it.ask("POST", "/api/v1/jobs", json={**SPEC, "labels": {"team": "vision"}})
    assert response.status_code == 201
    assert Submitted.model_validate_json(response.content).job_ids == [1]
    (job,) = it.jobs()
    assert (job.user, job.labels) == ("ada", {"team": "vision"})


def test_a_batch_is_submitted_in_its_order(it: Serving) -> None:
    response = it.ask("POST", "/api/v1/jobs", json={"jobs": [{"command": [str(n)]} for n in range(100)]})
    assert response.status_code == 201
    assert [job["job_id"] for job in response.json()["jobs"]] == list(range(1, 101))
    assert [job.spec.command[0] for job in it.jobs() if job.spec] == [str(n) for n in range(100)]


def test_nodes_that_are_added_together_are_taken_over_once(
    it: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take_over = PolicyEngine.take_over_nodes

    def counted(engine: PolicyEngine) -> bool:
        taken.append(len(it.backend.scheduler.ledger.nodes))
        return take_over(engine)

    monkeypatch.setattr(PolicyEngine, "take_over_nodes", counted)
    big = {"type": "big", "count": 1001, "cpu": 4, "memory_gib": 8}
    assert len(it.ask("POST", "/api/v1/nodes", json=big).json()["nodes"]) == 1001
    assert taken == [1002]
    (job,) = with_jobs(it, 1, min_units=4000, max_units=4000)
    assert it.jobs()[job - 1].status is Status.RUNNING


def test_the_same_key_submits_once(it: Serving) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = it.ask("POST", "/api/v1/jobs", json=SPEC, headers=headers)
    assert it.ask("POST", "/api/v1/jobs", json=SPEC, headers=headers).json() == first.json()
    other = it.ask("POST", "/api/v1/jobs", json={"command": ["false"]}, headers=headers)
    assert other.status_code == 409
    assert len(it.jobs()) == 1


def test_a_quote_submits_nothing(it: Serving) -> None:
    response = it.ask("POST", "/api/v1/quote", json={**SPEC, "estimate_s": 60})
    assert Quote.model_validate_json(response.content).run_s == 60
    assert it.jobs() == []


def test_a_promise_has_datetimes(it: Serving) -> None:
    found = it.ask("POST", "/api/v1/jobs", json={**SPEC, "estimate_s": 60})
    taken = Submitted.model_validate_json(found.content)
    assert taken.quote is not None
    assert taken.start_time is not None
    assert taken.start_time.utcoffset() is not None
    assert taken.start_time.timestamp() == taken.quote.start_at
    assert taken.finish_time == taken.start_time + timedelta(seconds=60)
    assert (taken.quote.finish_low_time, taken.quote.finish_high_time) == (None, None)
    assert taken.model_copy(update={"quote": None}).finish_time is None
    late = taken.quote.model_copy(update={"finish_at": 1e15})
    assert late.finish_time == datetime.max.replace(tzinfo=UTC)


def test_jobs_are_listed_in_pages_newest_first(it: Serving) -> None:
    with_jobs(it, 5)

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

    assert it.run(pages) == [5, 4, 3, 2, 1]


def test_jobs_are_filtered(it: Serving) -> None:
    labels = {"team": "vision", "note": "a=b"}
    with_jobs(it, 1, labels=labels, hold=True)
    with_jobs(it, 1, labels=labels)
    eve = {"Authorization": f"Bearer {it.tokens.new('eve')}"}
    it.ask("POST", "/api/v1/jobs", json={"command": ["false"], "hold": True}, headers=eve)
    it.pass_time(60.0)

    def numbers(**params: Any) -> list[int]:
        return [job["job_id"] for job in it.ask("GET", "/api/v1/jobs", params=params).json()["items"]]

    assert numbers(status=["finished", "failed"]) == [2]
    assert numbers(user="eve") == [3]
    assert numbers(name="true") == [2, 1]
    assert numbers(label=["team=vision", "note=a=b"]) == [2, 1]
    assert numbers(label="team=sound") == []
    assert numbers(array_id=1) == []


def test_a_job_has_a_story(it: Serving) -> None:
    with_jobs(it, 1)
    story = JobStory.model_validate_json(it.ask("GET", "/api/v1/jobs/1").content)
    assert (story.job.job_id, story.spec.command, story.events[0].kind) == (1, ["true"], "submitted")


@pytest.mark.parametrize(
    ("before", "verb", "status"),
    [
        ("queued", "cancel", "cancelled"),
        ("queued", "hold", "held"),
        ("held", "release", "queued"),
        ("running", "requeue", "stopping"),
        ("running", "suspend", "running"),
        ("suspended", "resume", "running"),
    ],
)
def test_jobs_are_steered_one_and_many(it: Serving, before: str, verb: str, status: str) -> None:
    if before in ("queued", "held"):
        with_jobs(it, 1, cpu=4)  # all of the node
    first, second, third = with_jobs(it, 3, hold=before == "held", grace_s=30)
    if before == "suspended":
        it.ask("POST", "/api/v1/jobs/suspend", json={"jobs": [first, second, third]})
    one = JobView.model_validate_json(it.ask("POST", f"/api/v1/jobs/{first}/{verb}").content)
    assert (one.job_id, one.status) == (first, status)
    body = {"jobs": [third, second, third]}
    many = it.ask("POST", f"/api/v1/jobs/{verb}", json=body).json()["jobs"]
    assert [(job["job_id"], job["status"]) for job in many] == [(third, status), (second, status)]
    assert [job.reason is not None and job.reason.code == "suspended" for job in it.jobs()[-3:]] == [
        verb == "suspend"
    ] * 3


def test_jobs_are_changed_one_and_many(it: Serving) -> None:
    with_jobs(it, 3, hold=True)
    changes = {"name": "other", "estimate_s": 5, "labels": {"a": "b"}}
    one = it.ask("POST", "/api/v1/jobs/1/edit", json=changes).json()
    assert (one["name"], one["labels"]) == ("other", {"a": "b"})
    body = {"jobs": [3, 2, 3], "changes": {"after": [], "priority": 2}}
    assert [job["job_id"] for job in it.ask("POST", "/api/v1/jobs/edit", json=body).json()["jobs"]] == [3, 2]
    assert [(job.spec.estimate_s, job.spec.priority) for job in it.jobs() if job.spec] == [
        (5.0, 0),
        (None, 2),
        (None, 2),
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"cpu": -1}, "cpu"), ({"command": ["x"]}, "command"), ({"min_units": 4}, None)],
)
def test_a_change_that_cannot_be_is_refused(
    standing: Serving, changes: dict[str, Any], field: str | None
) -> None:
    answer = standing.ask("POST", "/api/v1/jobs/1/edit", json=changes)
    assert (answer.status_code, answer.json()["error"].get("field")) == (422, field)


def test_a_search_is_begun_followed_and_ended(it: Serving) -> None:
    searches = it.assembly.tuner.search = Searches()
    assert it.ask("GET", "/api/v1/tune").json()["front"] is None
    assert it.ask("DELETE", "/api/v1/tune").status_code == 409
    for estimate_s in (10, 20, 30):
        with_jobs(it, 1, estimate_s=estimate_s)
    it.pass_time(60.0)
    begun = it.ask("POST", "/api/v1/tune", json={"objectives": ["jct:avg"], "evaluations": 9})
    assert begun.status_code == 202, begun.text
    assert begun.json()["search"]["of"] == 9
    assert it.ask("DELETE", "/api/v1/tune").json()["search"]["stopping"]

    async def ends(_: httpx.AsyncClient) -> None:
        await until(lambda: hasattr(searches, "ends"))
        searches.ends.set_result(front())
        await until(lambda: it.assembly.tuner.going is None)

    it.run(ends)
    found = TuningView.model_validate_json(it.ask("GET", "/api/v1/tune").content)
    assert (found.search, found.front) == (None, front())


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
def test_a_search_that_cannot_be_is_refused(standing: Serving, body: dict[str, Any], field: str) -> None:
    response = standing.ask("POST", "/api/v1/tune", json=body)
    assert (response.status_code, response.json()["error"]["field"]) == (422, field)
    assert standing.ask("GET", "/api/v1/tune").json()["search"] is None


def test_waiting_ends_with_the_job_or_with_the_time(it: Serving) -> None:
    with_jobs(it, 1, estimate_s=60)

    async def conversation(http: httpx.AsyncClient) -> None:
        early = await http.get("/api/v1/jobs/1/wait", params={"timeout_s": 0.05})
        assert early.json()["status"] == "running"
        waiting = asyncio.ensure_future(http.get("/api/v1/jobs/1/wait", params={"timeout_s": 60}))
        await http.post("/api/v1/jobs/1/edit", json={"name": "other"})  # an event, and no end
        await it.advance(30.0)
        assert not waiting.done()
        await it.advance(30.0)
        assert (await waiting).json()["status"] == "finished"
        assert (await http.get("/api/v1/jobs/1/wait")).json()["status"] == "finished"

    it.run(conversation)


def test_progress_is_for_the_run_itself(it: Serving) -> None:
    with_jobs(it, 2, grace_s=0)
    it.ask("POST", "/api/v1/jobs/1/requeue")
    it.pass_time(1.0)

    def report(token: str, job: int = 1, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}".encode(), "Content-Type": b"text/plain"}
        body = {"done": 3, "total": 10, **more}
        return it.ask("POST", f"/api/v1/jobs/{job}/progress", json=body, headers=headers)

    own = it.backend.run_tokens.issue(1, 2)
    assert report(own).status_code == 204
    assert report(own, attempt=2, done=4).status_code == 204
    assert it.jobs()[0].progress_frac == 0.4
    assert report(own, attempt=1).status_code == 403
    assert report(own, job=2).status_code == 403
    assert report(it.token).status_code == 403
    assert report("nonsense").status_code == 401
    assert report(own.replace("run.1.2", "run.1.3")).status_code == 403
    assert report("run.1.²." + "0" * 64).status_code == 401
    assert report(own, done=-1).json()["error"]["field"] == "done"
    assert it.jobs()[0].progress_frac == 0.4
    assert it.ask("GET", "/api/v1/jobs", headers={"Authorization": f"Bearer {own}"}).status_code == 403


def test_nodes_are_listed_added_and_drained(it: Serving) -> None:
    body = {"type": "big", "count": 2, "cpu": 4, "memory_gib": 8}
    assert it.ask("POST", "/api/v1/nodes", json=body).status_code == 201
    listed = it.ask("GET", "/api/v1/nodes").json()["nodes"]
    assert [node["name"] for node in listed] == ["here", "big-0", "big-1"]
    drained = NodeView.model_validate_json(it.ask("POST", "/api/v1/nodes/big-1/drain").content)
    assert (drained.name, drained.status) == ("big-1", "drained")
    assert it.ask("POST", "/api/v1/nodes/big-1/undrain").json()["status"] == "up"
    assert it.ask("POST", "/api/v1/nodes/big-1/heartbeat").json()["lease_s"] == 30.0


def test_the_policy_is_shown_and_changed(it: Serving) -> None:
    assert it.ask("GET", "/api/v1/policy").json()["policy"] == "fifo"
    assert it.ask("PUT", "/api/v1/policy", json={"policy": "srsf"}).json()["policy"] == "srsf"
    assert it.ask("GET", "/api/v1/policy").json()["policy"] == "srsf"


def test_events_come_in_pages_and_filtered(it: Serving) -> None:
    with_jobs(it, 3, hold=True)
    page = it.ask("GET", "/api/v1/events", params={"after": 1, "limit": 2}).json()
    assert [event["event_id"] for event in page["items"]] == [2, 3]
    assert page["following"] == 3
    it.ask("POST", "/api/v1/jobs/2/release")
    of_job = it.ask("GET", "/api/v1/events", params={"job": 2, "kind": ["released"]}).json()
    assert [(event["job_id"], event["kind"]) for event in of_job["items"]] == [(2, "released")]


def test_health_needs_no_token(it: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    anyone = {"Authorization": ""}
    assert it.ask("GET", "/healthz", headers=anyone).json() == {"status": "alive"}
    assert it.ask("GET", "/readyz", headers=anyone).json()["ready"] is True

    def fails() -> None:
        raise StoreFull("the disk is full")

    monkeypatch.setattr(health, "FRESH_S", 0.0)
    monkeypatch.setattr(it.backend.readiness, "probe", fails)
    unready = it.ask("GET", "/readyz", headers=anyone)
    assert (unready.status_code, unready.json()["problems"]) == (503, ["the disk is full"])
    assert it.ask("GET", "/healthz", headers=anyone).status_code == 200
