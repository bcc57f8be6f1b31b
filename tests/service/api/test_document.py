"""The OpenAPI document says all that the API does, and the API does what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, settings

from betimes.foresight.objectives import MEASURES, METRICS
from betimes.service.api import models
from betimes.service.api.bodies import ARCHIVE
from betimes.service.spec import job_changes, job_spec, users
from betimes.service.spec.job_spec import JobSpec
from betimes.service.views import models as views
from betimes.service.views.models import OBJECTIVE
from tests.service.serving import Background, Serving, application, document
from tests.service.tuning.living import Searches

RELATIONS = (
    # What the cluster can do, and the policy in force.
    "achine here",
    "cannot fit",
    "rents no machines; leave it out",
    "a unit of a pool needs the same on all machines",
    "does not choose nodes by their labels",
    "unknown policy",
    "there is no queue",
    "is of a job in Slurm",
    # What was sent before, and when it is.
    "no directory with the SHA-256",
    "is past, and no job can be kept",
    "there is no front yet",
    "no job of that name stands before it",
    "a job waits for one that was submitted before it",
    # Between fields.
    "no change is given",
    "is more than max_units",
    "go together: so many steps",
    "does not divide max_units",
    "cannot be resized either",
    "is either estimate_s, or steps",
    "steps times step_s is",
    "as_one ",
    "a unit needs something of",
    "virtual nodes need cpu and memory_gib",
    "the cloud knows what its",
    "and begins at",
    "a table never falls",
    "upload and workdir exclude each other",
    "exclude each other; leave all but one of them out",
    "the SHA-256 of what came",
    "the period ends before it begins",
    # Between numbers in a text.
    "is an empty range",
    "an array has at most",
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


def documented() -> list[tuple[str, str]]:
    """Method and path of every route that the document has, without making it."""
    routes = [each for each in application().routes if isinstance(each, APIRoute) and each.include_in_schema]
    return [(method.lower(), route.path_format) for route in routes for method in sorted(route.methods or ())]


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_described() -> None:
    assert sorted((method, path) for method, path, _ in operations()) == sorted(documented())
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


def test_the_document_is_served(standing: Serving) -> None:
    answer = standing.ask("GET", "/api/v1/openapi.json", headers={"Authorization": ""})
    assert answer.json() == json.loads(json.dumps(document()))


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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    """A service at a real address, whose searches for fronts never end; a job has run, and ends only by request."""
    folder = tmp_path_factory.mktemp("served")
    it = Serving(folder / "service")
    background = Background(it, folder / "state")
    with background():
        it.assembly.tuner.search = Searches()
        it.ask("POST", "/api/v1/jobs", json={"command": ["true"]})
        yield background
    it.close()


@pytest.fixture(scope="module")
def schema(served: Background) -> Any:
    # Imported here and below, where it is used: every process that collects tests would take two seconds for it.
    schemathesis = pytest.importorskip("schemathesis")
    schemathesis.serializer.alias(ARCHIVE, "application/octet-stream")
    # It has a seed of its own, which derandomize does not set: the same examples where Hypothesis has the same.
    config = schemathesis.Config(seed=1 if settings().derandomize else None)
    # The document is made when it is asked for, and the service's thread shares a busy machine with the other tests.
    return schemathesis.openapi.from_url(f"{served.url}/api/v1/openapi.json", config=config, timeout=120)


@pytest.mark.parametrize(
    ("method", "path"),
    [route for route in documented() if route[1] != ENDLESS and route not in LARGE][::3],
)
def test_the_api_does_what_the_document_says(schema: Any, served: Background, method: str, path: str) -> None:
    fuzz(schema, served.it, method, path, EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), [route for route in documented() if route[1] != ENDLESS])
def test_the_api_does_what_the_document_says_for_longer(
    schema: Any, served: Background, method: str, path: str
) -> None:
    fuzz(schema, served.it, method, path, MANY_EXAMPLES)


def fuzz(schema: Any, it: Serving, method: str, path: str, examples: int) -> None:
    from schemathesis.generation.feedback import FeedbackSources
    from schemathesis.pytest._test_builder import build_operation_test

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    def check(case: Any) -> None:
        check_answer(it, case)

    # Built here and not by schema.parametrize(), by which every process that collects the tests takes seconds for it.
    test = build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=check,
        given_kwargs={},
        feedback=FeedbackSources(),
    )
    test()


def check_answer(it: Serving, case: Any) -> None:
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    headers = {"Authorization": f"Bearer {it.token}"}
    if case.path.endswith("/progress"):
        job = case.path_parameters.get("job_id")
        tokens = it.backend.run_tokens
        headers["Authorization"] = f"Bearer {tokens.issue(job, 1) if isinstance(job, int) else 'x'}"
    # Both may go on until the job is over, and nothing else ends it.
    if case.path.endswith(("/wait", "/log")):
        active = [job.job_id for job in it.jobs() if not job.status.is_over]
        it.ask("POST", "/api/v1/jobs/cancel", json={"jobs": active, "where_possible": True})
        it.pass_time(100.0)
    response = case.call(headers=headers)
    excluded: list[Any] = []
    if response.status_code in (404, 409, *TOO_LARGE) or _is_of_relations(response):
        excluded.append(positive_data_acceptance)
    if response.status_code in TOO_LARGE:  # not looked at, so that nothing else is said of it
        excluded.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=excluded)
    if not response.status_code < 300:
        assert response.json()["error"]["message"]
