"""The OpenAPI document: what the routes share, and what FastAPI cannot see by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.convertors import Convertor, register_url_convertor

from betimes.service.api.bodies import Sent
from betimes.service.api.limits import MOST_JOB_NUMBER
from betimes.service.api.models import ErrorBody
from betimes.service.spec.job_spec import SHA256
from betimes.service.spec.users import USER_WORD
from betimes.service.views.models import EventView

PREFIX = "/api/v1"
JobId = Annotated[int, Path(ge=1, le=MOST_JOB_NUMBER, description="a job's number")]
Digest = Annotated[
    str, Path(pattern=SHA256, description="the SHA-256 of the archive of a directory, in hexadecimal digits")
]
UserName = Annotated[str, Path(pattern=f"^{USER_WORD}$", description="a name")]
NodeName = Annotated[str, Path(min_length=1, max_length=200, description="a node's name")]


class _JobNumber(Convertor[int]):
    """A job's number in a path; Starlette's own `int` fails on one of thousands of digits."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("job", _JobNumber())

_DESCRIPTION = """\
Submit jobs, read what was promised for them, follow what becomes of them, and run the cluster.

Every answer that is not a success has one form: `{"error": {"code", "message", "field", "details"}}`; `message` names
the object, its state and the next step, `field` what is at fault in the request.
Instants are seconds since 1970 (`_at`), durations seconds (`_s`).
"""
_TAGS = [
    {"name": "jobs", "description": "Submit, list, steer."},
    {"name": "cluster", "description": "Nodes, and the policy that decides."},
    {"name": "users", "description": "Who shares the service, and how much each may have."},
    {"name": "events", "description": "The log of everything that happened and was decided."},
    {"name": "health", "description": "For whatever watches over the service; no token is needed."},
]
_MEANING = {
    400: ("The body is not JSON.", "bad-json", "the body is not JSON: EOF while parsing a value", None),
    401: ("The request has no token, or an unknown one.", "not-allowed", "a token is needed", None),
    403: ("The token, the Host or the Origin does not allow it.", "not-allowed", "this is a run's token", None),
    404: ("There is no such thing.", "unknown", "there is no job 41", None),
    409: ("It does not go with the state of things.", "conflict", "job 41 is finished", None),
    410: ("They have been moved to a file.", "archived", "events up to 9000 are in files", "after"),
    408: ("Half of the body has come, and then nothing.", "too-slow", "nothing more has come for 10 s", None),
    413: ("The body is too large.", "too-large", "a job has at most 1048576 bytes here", None),
    414: ("The URL is too long.", "too-large", "the URL has at most 8192 bytes here, not 10497", None),
    415: ("The body is not sent as what it should be.", "unsupported-media-type", "send it as application/json", None),
    422: ("The request cannot be carried out.", "refused", "cpu: 96 cores; the largest node has 64", "cpu"),
    429: ("This token makes too many requests.", "too-many", "nothing was done, try again in 0.2 s", None),
    431: ("The headers are too long.", "too-large", "the headers have at most 16384 bytes here", None),
    503: ("Not now: starting, stopping, or the store cannot be written.", "unavailable", "the disk is full", None),
}  # fmt: skip


def failing(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of a route; one that asks for a token counts its requests."""
    counted = (429,) if 401 in statuses else ()
    return {status: _failure(status) for status in (*statuses, *counted)}


def install_document(app: FastAPI) -> None:
    """Make the application serve the whole document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document


def about(version: str) -> dict[str, Any]:
    """Title, description and tags, for the application."""
    return {"title": "Betimes", "version": version, "description": _DESCRIPTION, "openapi_tags": _TAGS}


def _failure(status: int) -> dict[str, Any]:
    description, code, message, field = _MEANING[status]
    example = {"error": {"code": code, "message": message, "field": field, "details": []}}
    schema = {"$ref": "#/components/schemas/ErrorBody"}
    return {
        "description": description,
        "content": {"application/json": {"schema": schema, "example": example}},
    }


def _body(models: Sequence[type[BaseModel]]) -> dict[str, Any]:
    references = [{"$ref": f"#/components/schemas/{each.__name__}"} for each in models]
    schema = {"anyOf": references} if len(references) > 1 else references[0]
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version=app.openapi_version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        separate_input_output_schemas=False,
    )
    asked: set[type[BaseModel]] = {ErrorBody, EventView}  # what FastAPI does not see
    for route in (each for each in app.routes if isinstance(each, APIRoute)):
        for sent in (each.call for each in route.dependant.dependencies if isinstance(each.call, Sent)):
            asked.update(sent.models)
            for method in route.methods or ():
                found["paths"][route.path_format][method.lower()]["requestBody"] = _body(sent.models)
    for operation in (each for path in found["paths"].values() for each in path.values()):
        also = (408, 414, 431) if "requestBody" in operation else (414, 431)
        operation["responses"] |= {str(status): _failure(status) for status in also}
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query":
                _refuse_nul(parameter["schema"])
    _, schemas = models_json_schema(
        [(model, "validation") for model in sorted(asked, key=str)],
        ref_template="#/components/schemas/{model}",
    )
    known = found.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in schemas["$defs"].items():
        known.setdefault(name, schema)
    _refuse_other_names(known)
    return found


def _refuse_nul(schema: dict[str, Any]) -> None:
    """Refuse the character that the guard of all requests refuses in a parameter."""
    if schema.get("type") == "string" and not schema.keys() & {"pattern", "enum", "const"}:
        schema["pattern"] = r"^[^\u0000]*$"
    for each in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        _refuse_nul(each)


def _refuse_other_names(schema: Any) -> None:
    """Refuse names that do not match a pattern: a pattern alone does not forbid them."""
    if isinstance(schema, dict):
        if "patternProperties" in schema:
            schema["additionalProperties"] = False
        for each in schema.values():
            _refuse_other_names(each)
    elif isinstance(schema, list):
        for each in schema:
            _refuse_other_names(each)
