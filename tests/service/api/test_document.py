"""The OpenAPI document says all that the API does, and the API does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from betimes.foresight.objectives import MEASURES, METRICS
from betimes.service.api import models
from betimes.service.api.bodies import ARCHIVE
from betimes.service.scheduling.job_states import Status
from betimes.service.spec import job_changes, job_spec, users
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views import models as views
from betimes.service.views.models import OBJECTIVE
from tests.service.serving import Fake, fake

RELATIONS = (
    "the largest node has",  # what the cluster can do
    "there is no policy",
    "at most 1000",  # nodes of the fake service at once
    "is more than max_units",  # between fields
    "go together: so many steps",
    "does not divide max_units",
    "cannot be resized either",
    "is either estimate_s, or steps and step_s",
    "steps times step_s is",
    "as_one ",
    "a unit needs something of",
    "virtual nodes need cpu and memory_gib",
    "the cloud knows what its",
    "is an empty range",  # between numbers in a text
    "it ends before it begins",
    "an array has at most",
    "a table never falls",
    "upload and workdir exclude each other",
    "exclude each other; leave all but one of them out",  # conda, venv, image
    "the SHA-256 of what came is",
    "the period ends before it begins",
)
"""What a schema cannot say; all else that is refused, it says beforehand."""

ENDLESS = "/api/v1/events/stream"
LARGE = {
    ("post", "/api/v1/jobs"),
    ("get", "/api/v1/jobs"),
    ("post", "/api/v1/quote"),
    ("post", "/api/v1/what-if"),
}
"""Routes whose first example takes seconds to draw, so that only the slow tests draw any."""

EXAMPLES, MANY_EXAMPLES = 1, 5  # of each of two dozen routes
TOO_LARGE = (413, 414, 431)  # bodies, URLs and headers


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
                assert {"schema", "itemSchema"} & set(kind), (method, path)
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
            content = operation["requestBody"]["content"]
            assert {"413", "415", "422"} <= set(responses) or path.endswith("/progress")
            if list(content) != [ARCHIVE]:
                assert examples_of(content["application/json"]["schema"]), (method, path)
                assert {"400", "413", "422"} <= set(responses)
    assert len(ids) == len(operations())


def examples_of(schema: dict[str, Any]) -> list[Any]:
    """Those of the models of a body, each of which its model takes."""
    names = [each["$ref"].rpartition("/")[2] for each in schema.get("anyOf", [schema])]
    shown = [(name, document()["components"]["schemas"][name]["examples"]) for name in names]
    modules = (models, views, job_spec, job_changes, users)
    for name, examples in shown:
        model = next(getattr(module, name) for module in modules if hasattr(module, name))
        for example in examples:
            model.model_validate_json(json.dumps(example), strict=True)
    return [examples for _, examples in shown]


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


def test_objectives_are_those_that_there_are() -> None:
    known = {f"{metric}:{measure}" for metric in METRICS for measure in MEASURES}
    assert f"^({'|'.join(METRICS)}):({'|'.join(MEASURES)})$" == OBJECTIVE
    assert all(re.match(OBJECTIVE, each) for each in known)


def _is_of_relations(response: Any) -> bool:
    return response.status_code == 422 and any(
        text in response.json()["error"]["message"] for text in RELATIONS
    )


def test_the_stream_of_events_is_described() -> None:
    paths = document()["paths"]
    for path in ("/api/v1/events", ENDLESS):
        stream = paths[path]["get"]["responses"]["200"]["content"]["text/event-stream"]
        data = stream["itemSchema"]["properties"]["data"]
        assert data["contentMediaType"] == "application/json"
        assert data["contentSchema"] == {"$ref": "#/components/schemas/EventView"}
        assert stream["itemSchema"]["required"] == ["data"]
        assert stream["itemSchema"]["properties"]["id"]["type"] == "string"
        assert stream["example"].startswith("id: ")


def service() -> Fake:
    it = fake(Path("no-such-folder"))  # every log is empty
    it.backend.happens("started")
    return it


IT = service()


@pytest.fixture(scope="module")
def schema() -> Any:
    # Imported here and below, where it is used: every process that collects tests would take two seconds for it.
    schemathesis = pytest.importorskip("schemathesis")
    schemathesis.serializer.alias(ARCHIVE, "application/octet-stream")
    # It has a seed of its own, which derandomize does not set: the same examples where Hypothesis has the same.
    config = schemathesis.Config(seed=1 if settings().derandomize else None)
    return schemathesis.openapi.from_asgi(
        "/api/v1/openapi.json", IT.app, headers={"Host": "127.0.0.1"}, config=config
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, path) for method, path, _ in operations() if path != ENDLESS and (method, path) not in LARGE][
        ::3
    ],
)
def test_the_api_does_what_the_document_says(schema: Any, method: str, path: str) -> None:
    fuzz(schema, method, path, EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for method, path, _ in operations() if path != ENDLESS]
)
def test_the_api_does_what_the_document_says_for_longer(schema: Any, method: str, path: str) -> None:
    fuzz(schema, method, path, MANY_EXAMPLES)


def fuzz(schema: Any, method: str, path: str, examples: int) -> None:
    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    def check(case: Any) -> None:
        check_answer(case)

    # Built here and not by schema.parametrize(), by which every process that collects the tests takes seconds for it.
    test = build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=check,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    test()


def check_answer(case: Any) -> None:
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    headers = {"Authorization": f"Bearer {IT.token}", "Host": "127.0.0.1"}
    if case.path.endswith("/progress"):
        job = case.path_parameters.get("job_id")
        headers["Authorization"] = f"Bearer {IT.backend.runs.issue(job, 1) if isinstance(job, int) else 'x'}"
    # Both may go on until the job is over, and nothing else ends it.
    if case.path.endswith(("/wait", "/log")):
        for number, view in IT.backend.views.items():
            if not view.status.is_over:
                IT.backend.becomes(number, Status.FINISHED, attempt=1)
    response = case.call(headers=headers)
    excluded: list[Any] = []
    if response.status_code in (404, 409, *TOO_LARGE) or _is_of_relations(response):
        excluded.append(positive_data_acceptance)
    if response.status_code in TOO_LARGE:  # not looked at, so that nothing else is said of it
        excluded.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=excluded)
    if not response.status_code < 300:
        assert response.json()["error"]["message"]
