"""What a service's answers mean: models, or the errors that the service itself raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from betimes.errors import BetimesError, Conflict, NotAllowed, Refused, ServiceError, Unavailable, Unknown
from betimes.service.views.models import Health

T = TypeVar("T")

_CLASSES: dict[str, type[BetimesError]] = {
    "unknown": Unknown,
    "conflict": Conflict,
    "not-allowed": NotAllowed,
    "unavailable": Unavailable,
    "internal": ServiceError,
}


def answer_of(kind: Any) -> Callable[[httpx.Response], Any]:
    """A function that makes a `kind` of a response. It raises what the service did, or ServiceError."""
    adapter = TypeAdapter(kind)

    def answer(response: httpx.Response) -> Any:
        raise_failure(response)
        return _parsed(adapter, response)

    return answer


def nothing(response: httpx.Response) -> None:
    """The answer of a call that has none."""
    raise_failure(response)


_HEALTH = TypeAdapter(Health)


def health(response: httpx.Response) -> Health:
    """The health of a service, be it well or not."""
    if response.status_code == 503 and b'"ready"' in response.content:
        return _parsed(_HEALTH, response)
    raise_failure(response)
    return _parsed(_HEALTH, response)


def raise_failure(response: httpx.Response) -> None:
    """Raise what the service did, if it did. The body must have been read."""
    if response.is_success:
        return
    try:
        failure = response.json()["error"]
        code, message, field = str(failure["code"]), str(failure["message"]), failure.get("field")
    except (ValueError, KeyError, TypeError):
        where = response.request.url
        raise ServiceError(f"{where} answered {response.status_code}, and not as Betimes does") from None
    kind = _CLASSES.get(code)
    if kind is not None:
        raise kind(message)
    raise Refused(message.removeprefix(f"{field}: "), field)


def _parsed(adapter: TypeAdapter[T], response: httpx.Response) -> T:
    try:
        # A later version of the service may tell more than this one knows of.
        return adapter.validate_json(response.content, extra="ignore")
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise ServiceError(
            f"{response.request.url} answered what this version does not understand ({where}: {fault['msg']})"
        ) from None
