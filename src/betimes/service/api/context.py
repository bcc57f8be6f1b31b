"""Shared by all routes: the service behind them, the limits, and the caller."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from betimes.service.access.auth import Caller, Tokens, attempt_of, bearer
from betimes.service.access.host_names import is_loopback
from betimes.service.access.pace import Buckets
from betimes.service.api.failures import Rejected, Unauthenticated
from betimes.service.api.limits import Limits

if TYPE_CHECKING:  # it takes a second to import
    from betimes.service.runtime.service_backend import ServiceBackend


@dataclass(frozen=True)
class Context:
    """One application's parts."""

    backend: ServiceBackend
    tokens: Tokens
    limits: Limits
    closing: asyncio.Event  # set: end endless streams
    metrics: Callable[[], Awaitable[bytes]] | None = None  # in Prometheus's text format; null: there are none
    local_metrics: bool = False  # callers on this machine need no token for them
    buckets: Buckets | None = None  # null: no token makes too many requests

    def count(self, request: Request, token: str, role: str = "") -> None:
        """Count a request of a token; not those of an operator on this machine. Raises Rejected."""
        if self.buckets is None:
            return
        if role == "operator" and (request.client is None or is_loopback(request.client.host)):
            return
        if wait_s := self.buckets.take(token):
            pace = self.buckets.pace
            raise Rejected(
                429,
                "too-many",
                f"this token makes more requests than {pace.per_s:g} a second, {pace.burst:g} at once; nothing was "
                f"done, try again in {wait_s:.2g} s",
                headers={"Retry-After": str(math.ceil(wait_s))},
            )


# The dependencies are coroutines because FastAPI runs plain functions in threads, which cost more than they do.
async def context(request: Request) -> Context:
    """The parts of the application that a request came to."""
    return cast(Context, request.app.state.context)


class _Bearer(SecurityBase):
    """A scheme of the OpenAPI document; its header is read here, so that an error has the usual form."""

    def __init__(self, name: str, description: str) -> None:
        self.scheme_name, self.model = name, HTTPBearer(description=description)


class _Operator(_Bearer):
    async def __call__(self, request: Request) -> Caller:
        """The caller. Raises Unauthenticated; Rejected for a run's token."""
        token = bearer(request.headers)
        if not token:
            raise Unauthenticated(
                "a token is needed: Authorization: Bearer TOKEN; the operator's is in STATE/token"
            )
        caller = (await context(request)).tokens.caller(token)
        if caller is not None:
            (await context(request)).count(request, token, caller.role)
            return caller
        if attempt_of(token) is not None:
            raise Rejected(
                403,
                "not-allowed",
                "a run's token reports the progress of its own run and does nothing else",
            )
        raise Unauthenticated("this token is unknown; the operator's is in STATE/token")


class _Run(_Bearer):
    async def __call__(self, request: Request) -> str:
        """The token that a run presents. Raises Unauthenticated."""
        token = bearer(request.headers)
        if not token:
            raise Unauthenticated("a run's token is needed: Authorization: Bearer BETIMES_RUN_TOKEN")
        (await context(request)).count(request, token)
        return token


Here = Annotated[Context, Depends(context)]
operator = _Operator("operator", "The token in STATE/token.")
User = Annotated[Caller, Depends(operator)]
RunToken = Annotated[str, Depends(_Run("run", "A run's own token: BETIMES_RUN_TOKEN."))]
