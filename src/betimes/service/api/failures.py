"""Every error as one kind of answer: `{"error": {"code", "message", "field", "details"}}`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from betimes.errors import (
    BetimesError,
    Conflict,
    FieldError,
    InputError,
    NotAllowed,
    PolicyError,
    ServiceError,
    StoreArchived,
    Unknown,
)
from betimes.service.api.models import ErrorBody, Failure, Fault
from betimes.service.spec.spec_errors import Known, faults_of

MOST_DETAILS = 100
MOST_SHOWN = 60  # characters of a value in a message
_log = logging.getLogger("betimes.api")

_CODES = {
    400: "bad-request",
    401: "not-allowed",
    403: "not-allowed",
    404: "unknown",
    405: "method-not-allowed",
}


class Rejected(Exception):
    """A request refused before the service sees it: status, code and message."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        details: Sequence[Fault] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}
        self.failure = Failure(code=code, message=message, field=field, details=list(details))


class Unauthenticated(Rejected):
    """There is no token, or it is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(401, "not-allowed", message, headers={"WWW-Authenticate": 'Bearer realm="betimes"'})


def install(app: FastAPI) -> None:
    """Make the application answer every error in this form."""
    app.add_exception_handler(Rejected, _rejected)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BetimesError, _ours)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unforeseen)


def invalid(error: ValidationError, what: str, known: Known, within: str = "") -> list[Fault]:
    """A model's faults; `within`: its place in the body. Raises Rejected for a body that is no JSON at all."""
    found = error.errors(include_url=False)
    if found[0]["type"] == "json_invalid":
        raise Rejected(400, "bad-json", f"the body is not JSON: {found[0].get('ctx', {}).get('error', '')}")
    return _faults(found, what, known, within)


def refusal(faults: Sequence[Fault]) -> Rejected:
    """The answer to a request that does not validate: the first fault in the message, all in the details."""
    first = faults[0]
    message = f"{first.field}: {first.message}" if first.field else first.message
    if len(faults) > 1:
        message += f" (and {len(faults) - 1} more)"
    return Rejected(422, "refused", message, first.field, faults[:MOST_DETAILS] if len(faults) > 1 else ())


def answer(status: int, failure: Failure, headers: dict[str, str] | None = None) -> Response:
    """The error as a response."""
    # A text from outside may not be valid UTF-8.
    body = ErrorBody(error=failure).model_dump_json(exclude_defaults=False)
    return Response(body.encode("utf-8", "replace"), status, headers, media_type="application/json")


def shown(value: object) -> str:
    """A value from outside, short and printable."""
    text = _clean(str(value))
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def _faults(found: Sequence[ErrorDetails], what: str, known: Known, within: str = "") -> list[Fault]:
    faults: list[Fault] = []
    for field, text in faults_of(found, known, what):
        place = ".".join(part for part in (within, field) if part)
        faults.append(Fault(field=_clean(place) or None, message=_clean(text)))
    return faults


def _clean(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split("\n"))


async def _rejected(_: Request, error: Exception) -> Response:
    if not isinstance(error, Rejected):
        raise error
    return answer(error.status, error.failure, error.headers)


async def _not_valid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    # The first part of a place is query, path or header; users know the field by its name.
    found = [cast(ErrorDetails, {**each, "loc": each["loc"][1:]}) for each in error.errors()]
    return await _rejected(request, refusal(_faults(found, "request of this kind", _parameters(request))))


def _parameters(request: Request) -> list[str]:
    """The names that a route takes beside its body."""
    route = request.scope["route"]
    operation = request.app.openapi()["paths"].get(route.path_format, {}).get(request.method.lower(), {})
    return [each["name"] for each in operation.get("parameters", [])]


async def _http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    headers = dict(error.headers or {})
    message, code = str(error.detail), _CODES.get(error.status_code, "bad-request")
    if error.status_code == 404:
        message = f"there is no {shown(request.url.path)}; /api/v1/openapi.json lists what there is"
    elif error.status_code == 405:
        allowed = _methods(request)
        headers["Allow"] = ", ".join(allowed)
        message = f"{request.method} is not for {shown(request.url.path)}, which takes {', '.join(allowed)}"
    return answer(error.status_code, Failure(code=code, message=message), headers)


def _methods(request: Request) -> list[str]:
    """All methods of a path: several routes may share it."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    fit = [route for route in routes if route.path_regex.match(request.url.path)]
    return sorted({method for route in fit for method in route.methods or ()})


async def _ours(request: Request, error: Exception) -> Response:
    field = getattr(error, "field", None) if isinstance(error, FieldError) else None
    match error:
        case Unknown():
            status, code = 404, "unknown"
        case Conflict():
            status, code = 409, "conflict"
        case NotAllowed():
            status, code = 403, "not-allowed"
        case PolicyError():
            status, code, field = 422, "refused", "policy"
        case InputError():
            status, code = 422, "refused"
        case StoreArchived():
            status, code, field = 410, "archived", "after"
        case ServiceError():
            status, code = 503, "unavailable"
        case _:
            return await _unforeseen(request, error)
    headers = {"Retry-After": "1"} if status == 503 else None
    return answer(status, Failure(code=code, message=_clean(str(error)), field=field), headers)


async def _gone(*_: object) -> Response:
    return Response(status_code=499)  # the client has gone


async def _unforeseen(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    message = f"the service failed ({type(error).__name__}); its log shows how"
    return answer(500, Failure(code="internal", message=message))
