"""Every error has one form, names what is at fault, and harms nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from betimes.errors import PolicyViolation, StoreFull, Unavailable
from betimes.service.api import Limits
from tests.service.api.conftest import Serve
from tests.service.serving import Serving


def failure(it: Serving, status: int, method: str, path: str, **options: Any) -> dict[str, Any]:
    """The error of a request that must fail so."""
    response = it.ask(method, path, **options)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["error"]
    error = response.json()["error"]
    assert set(error) == {"code", "message", "field", "details"}
    assert error["message"]
    assert "\n" not in error["message"]
    return error


def refused(it: Serving, body: Any, path: str = "/api/v1/jobs") -> dict[str, Any]:
    error = failure(it, 422, "POST", path, json=body)
    assert error["code"] == "refused"
    return error


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"cpu": -1}, "cpu", "0"),
        ({"cpu": 1e7}, "cpu", "at most 1,000,000"),
        ({"cpu": "2"}, "cpu", "number"),
        ({"cpu": 65}, "cpu", "has 4 cores"),
        ({"min_units": True}, "min_units", "whole number"),
        ({"min_units": 3, "max_units": 2}, None, "min_units 3 is more than max_units 2"),
        ({"command": []}, "command", "at least one"),
        ({"comand": ["x"]}, "comand", "did you mean 'command'"),
        ({"env": {"A": "x\0y"}}, "env.A", "NUL"),
        ({"curve": {"speedup": {"1": 2, "2": 3}}}, "curve.speedup", "relative to one unit"),
        ({"qos": "best"}, "qos", "best-effort"),
        ({"mail_type": [{}]}, "mail_type", "END"),
    ],
)
def test_a_bad_job_is_refused_by_field_and_limit(
    standing: Serving, change: dict[str, Any], field: str | None, words: str
) -> None:
    error = refused(standing, {"command": ["true"], **change})
    assert error["field"] is None if field is None else (error["field"] or "").startswith(field)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("GET", "/jobs?user=%00", {}),
        ("GET", "/jobs?label=a%3D%00", {}),
        ("GET", "/events?by=a%00b", {}),
        ("GET", "/events?kind=%00", {}),
        ("GET", "/tokens?user=%00", {}),
        ("POST", "/jobs/1/edit", {"json": {"name": "a\0b"}}),
        ("PUT", "/policy", {"json": {"policy": "fi\0fo"}}),
    ],
)
def test_a_nul_character_is_refused_wherever_a_text_is_taken(
    standing: Serving, method: str, path: str, options: dict[str, Any]
) -> None:
    assert "NUL" in failure(standing, 422, method, f"/api/v1{path}", **options)["message"]


def test_numbers_that_are_none_are_refused(standing: Serving) -> None:
    for text in ("NaN", "Infinity", "-Infinity", "1e999"):
        body = f'{{"command": ["true"], "cpu": {text}}}'
        error = failure(
            standing, 422, "POST", "/api/v1/jobs", content=body, headers={"Content-Type": "application/json"}
        )
        assert error["field"] == "cpu"
        assert "finite" in error["message"]


@pytest.mark.parametrize(("field", "value"), [("count", 0), ("cpu", -1), ("memory_gib", "4"), ("gpu", 1e300)])
def test_bad_nodes_are_refused(standing: Serving, field: str, value: object) -> None:
    body = {"type": "big", "count": 2, "cpu": 4, "memory_gib": 8, field: value}
    assert refused(standing, body, "/api/v1/nodes")["field"] == field


def test_a_fault_of_a_curve_is_that_of_the_kind_that_was_given(standing: Serving) -> None:
    table = {"command": ["x"], "curve": {"speedup": {"1": 1, "2": 3, "3": 2}}}
    for path, body, place in (
        ("/api/v1/what-if", {"submit": [{"command": ["x"]}, table]}, "submit[1]."),
        ("/api/v1/quote", table, ""),
    ):
        error = standing.ask("POST", path, json=body).json()["error"]
        assert error["field"] == f"{place}curve.speedup"
        assert "3 units are slower than 2" in error["message"]


def test_all_faults_are_listed_and_the_first_is_the_message(standing: Serving) -> None:
    error = refused(standing, {"command": ["true"], "cpu": -1, "gpu": -2})
    assert [fault["field"] for fault in error["details"]] == ["cpu", "gpu"]
    assert error["message"].startswith("cpu: ")
    assert error["message"].endswith("(and 1 more)")


def test_a_batch_is_refused_whole_and_names_the_job(standing: Serving, serve: Serve, it: Serving) -> None:
    jobs = [{"command": ["true"]}] * 3 + [{"command": ["true"], "cpu": -1}, {}]
    error = failure(it, 422, "POST", "/api/v1/jobs", json={"jobs": jobs})
    assert [fault["field"] for fault in error["details"]] == ["jobs[3].cpu", "jobs[4].command"]
    assert it.jobs() == []
    assert refused(standing, {"jobs": []})["field"] == "jobs"
    assert refused(standing, {"jobs": {}})["field"] == "jobs"
    assert refused(standing, {"jobs": [1]})["field"] == "jobs[0]"
    assert refused(standing, {"jobs": jobs[:1], "cpu": 2})["field"] == "cpu"
    too_large = refused(standing, {"jobs": [*jobs[:2], {"command": ["true"], "cpu": 64}]})
    assert (too_large["field"], "has 4 cores" in too_large["message"]) == ("jobs[2].cpu", True)
    few = failure(serve(limits=Limits(batch_jobs=2)), 422, "POST", "/api/v1/jobs", json={"jobs": jobs[:3]})
    assert "1 to 2 jobs, not 3" in few["message"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "nothing",
        '{"command": ["true"]',
        '{"command": ["\\ud800"]}',
        "[" * 100_000,
        '{"a":' * 100_000,
        b"\xff\xfe",
        b"\x00",
        "1" * 5000,
    ],
    ids=range(10),
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/jobs"), ("POST", "/quote"), ("POST", "/jobs/cancel"), ("PUT", "/policy"), ("POST", "/nodes")],
)
def test_what_is_no_json_is_said_to_be_none(
    standing: Serving, method: str, path: str, body: str | bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    error = failure(standing, 400, method, f"/api/v1{path}", content=body, headers=headers)
    assert error["code"] == "bad-json"


@pytest.mark.parametrize("body", ["null", "1", '"x"', "[]", "{}", '{"jobs": null}'])
def test_json_of_another_kind_is_refused(standing: Serving, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    for method, path in [("POST", "/jobs"), ("POST", "/quote"), ("POST", "/jobs/hold"), ("PUT", "/policy")]:
        error = failure(standing, 422, method, f"/api/v1{path}", content=body, headers=headers)
        assert error["code"] == "refused"


def test_the_last_of_two_equal_names_counts(it: Serving) -> None:
    body = '{"command": ["first"], "command": ["second"]}'
    response = it.ask("POST", "/api/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 201
    assert [job.spec.command for job in it.jobs() if job.spec is not None] == [["second"]]


def test_a_body_is_json_by_name_too(standing: Serving) -> None:
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ):
        error = failure(
            standing, 415, "POST", "/api/v1/jobs", content='{"command": ["true"]}', headers=headers
        )
        assert error["code"] == "unsupported-media-type"
    headers = {"Content-Type": "application/vnd.betimes+json; charset=utf-8"}
    assert (
        standing.ask("POST", "/api/v1/quote", content='{"command": ["x"]}', headers=headers).status_code
        == 200
    )


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"after": 0}, "after"),
        ({"after": "9" * 30}, "after"),
        ({"status": "done"}, "status[0]"),
        ({"label": "team"}, "label"),
        ({"state": "running"}, "state"),
    ],
)
def test_a_bad_filter_is_refused(standing: Serving, params: dict[str, Any], field: str) -> None:
    error = failure(standing, 422, "GET", "/api/v1/jobs", params=params)
    assert error["field"] == field


def test_an_unknown_parameter_is_answered_with_the_known_ones(standing: Serving) -> None:
    error = failure(standing, 422, "GET", "/api/v1/jobs", params={"satus": "running"})
    assert "did you mean 'status'?" in error["message"]


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 201])
def test_a_bad_key_is_refused(standing: Serving, key: str) -> None:
    headers = {"Idempotency-Key": key.encode()}
    error = failure(standing, 422, "POST", "/api/v1/jobs", json={"command": ["true"]}, headers=headers)
    assert error["field"] == "Idempotency-Key"


@pytest.mark.parametrize("path", ["jobs", "jobs/1/wait", "jobs/1/log", "events"])
def test_a_parameter_that_nobody_knows_is_refused(standing: Serving, path: str) -> None:
    error = failure(standing, 422, "GET", f"/api/v1/{path}?timeuot_s=1")
    assert error["field"] == "timeuot_s"
    assert "unknown" in error["message"]


def test_what_is_not_there(standing: Serving) -> None:
    it = standing
    assert "no job 7" in failure(it, 404, "GET", "/api/v1/jobs/7")["message"]
    assert failure(it, 404, "POST", "/api/v1/jobs/cancel", json={"jobs": [1, 7]})["code"] == "unknown"
    assert it.jobs()[0].status == "held"
    assert failure(it, 404, "GET", "/api/v1/jobs/7/wait")["code"] == "unknown"
    assert failure(it, 404, "GET", "/api/v1/jobs/7/log")["code"] == "unknown"
    assert failure(it, 404, "POST", "/api/v1/nodes/there/drain")["code"] == "unknown"
    assert "/nowhere" in failure(it, 404, "GET", "/nowhere")["message"]
    assert failure(it, 404, "GET", "/api/v1/jobs/")["code"] == "unknown"
    assert failure(it, 404, "GET", "/api/v1/jobs/one")["code"] == "unknown"
    assert failure(it, 404, "GET", "/%ff%00%0a")["code"] == "unknown"
    assert failure(it, 404, "GET", f"/api/v1/jobs/{10**30}")["code"] == "unknown"
    assert failure(it, 404, "GET", f"/api/v1/jobs/{'1' * 5000}")["code"] == "unknown"
    assert failure(it, 422, "GET", "/api/v1/jobs/0")["field"] == "job_id"


def test_methods_that_a_path_does_not_take(standing: Serving) -> None:
    response = standing.ask("DELETE", "/api/v1/jobs")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST"
    assert response.json()["error"]["code"] == "method-not-allowed"
    assert standing.ask("GET", "/api/v1/jobs/cancel").headers["allow"] == "POST"


def test_a_move_that_is_not_legal_is_a_conflict(standing: Serving) -> None:
    assert "job 1 is held" in failure(standing, 409, "POST", "/api/v1/jobs/1/requeue")["message"]


def test_an_unknown_policy_is_refused(standing: Serving) -> None:
    error = failure(standing, 422, "PUT", "/api/v1/policy", json={"policy": "magic"})
    assert error["field"] == "policy"


@pytest.mark.parametrize("error", [Unavailable("it is stopping"), StoreFull("the disk is full")])
@pytest.mark.parametrize(
    ("asked", "method", "path", "options"),
    [
        ("submit", "POST", "/api/v1/jobs", {"json": {"command": ["true"]}}),
        ("jobs", "GET", "/api/v1/jobs", {}),
        ("events", "GET", "/api/v1/events/stream", {}),
        ("health", "GET", "/readyz", {}),
    ],
)
def test_a_service_that_cannot_says_so(
    standing: Serving,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    asked: str,
    method: str,
    path: str,
    options: dict[str, Any],
) -> None:
    monkeypatch.setattr(standing.backend, asked, failing(error))
    found = failure(standing, 503, method, path, **options)
    assert (found["code"], found["message"]) == ("unavailable", str(error))


def failing(error: Exception) -> Callable[..., Any]:
    async def fails(*_: object) -> None:
        raise error

    return fails


@pytest.mark.parametrize("error", [RuntimeError("a secret"), PolicyViolation("a secret")])
def test_what_nobody_foresaw_is_logged_and_not_shown(
    standing: Serving, monkeypatch: pytest.MonkeyPatch, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standing.backend, "jobs", failing(error))
    with caplog.at_level(logging.ERROR, "betimes.api"):
        found = failure(standing, 500, "GET", "/api/v1/jobs")
    assert found["code"] == "internal"
    assert "secret" not in json.dumps(found)
    assert "a secret" in caplog.text


def test_a_parameter_is_given_once_unless_it_is_a_list(standing: Serving) -> None:
    it = standing
    error = failure(it, 422, "GET", "/api/v1/jobs?name=a&name=b&limit=5")
    assert error["field"] == "name"
    assert error["message"] == "name: expected it once, found it 2 times; leave the others out"
    assert it.ask("GET", "/api/v1/jobs?label=a=b&label=c=d&status=queued&status=running").status_code == 200
