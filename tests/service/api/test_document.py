"""The OpenAPI document says all that the API does, and the API does what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from betimes.service.spec import JobSpec
from tests.service.serving import Fake, fake

pytest.importorskip("schemathesis")
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

ENDLESS = "/api/v1/events/stream"
EXAMPLES = 12  # of each of two dozen routes


def document() -> dict[str, Any]:
    return json.loads(json.dumps(fake().app.openapi()))


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_described() -> None:
    ids = set()
    for method, path, operation in operations():
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        assert len(operation["tags"]) == 1
        ids.add(operation["operationId"])
        responses = operation["responses"]
        success = [status for status in responses if status.startswith("2")]
        assert len(success) == 1
        if success != ["204"]:
            for kind in responses[success[0]]["content"].values():
                assert "schema" in kind, (method, path)
                assert "example" in kind, (method, path)
        if path.startswith("/api/"):
            assert operation["security"] in ([{"operator": []}], [{"run": []}])
            assert {"401", "403"} <= set(responses)
        for status, response in responses.items():
            if not status.startswith("2") and path != "/readyz":
                assert list(response["content"]) == ["application/json"]
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorBody"}, (method, path, status)
        if method in ("post", "put") and "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            assert content["examples"]
            assert {"400", "413", "422"} <= set(responses)
    assert len(ids) == len(operations())


def test_every_reference_leads_somewhere() -> None:
    whole = document()
    known = set(whole["components"]["schemas"])

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                assert node["$ref"].removeprefix("#/components/schemas/") in known
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(whole)
    assert set(JobSpec.model_fields) == set(whole["components"]["schemas"]["JobSpec"]["properties"])


def test_the_document_is_served() -> None:
    import asyncio

    async def get() -> Any:
        async with fake().asking() as http:
            return (await http.get("/api/v1/openapi.json", headers={"Authorization": ""})).json()

    assert asyncio.run(get()) == document()


def service() -> Fake:
    it = fake()
    it.door.happens("started")
    return it


IT = service()
schema: Any = schemathesis.openapi.from_asgi(
    "/api/v1/openapi.json", IT.app, headers={"Host": "127.0.0.1"}
).exclude(path=ENDLESS)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_the_api_does_what_the_document_says(case: Any) -> None:
    headers = {"Authorization": f"Bearer {IT.token}", "Host": "127.0.0.1"}
    if case.path.endswith("/progress"):
        job = case.path_parameters.get("job_id")
        headers["Authorization"] = f"Bearer {IT.door.runs.issue(job, 1) if isinstance(job, int) else 'x'}"
    if case.path.endswith("/wait") and isinstance(case.query, dict):
        case.query["timeout_s"] = 0
    response = case.call(headers=headers)
    excluded = [positive_data_acceptance]
    if response.status_code == 413:  # too large to be looked at, so that nothing else is said of it
        excluded.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=excluded)
    if not response.status_code < 300:
        assert response.json()["error"]["message"]
