"""Shared by all routes: the service behind them, the limits, and the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from betimes.service.access.auth import Caller, Tokens, attempt_of, bearer
from betimes.service.access.peers import PEER, Peers
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
    peers: Peers | None = None  # callers over the Unix socket; null: there is none


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
        if not token and (peer := await _peer(request)) is not None:
            return peer
        if not token:
            raise Unauthenticated(
                "a token is needed: Authorization: Bearer TOKEN; the operator's is in STATE/token"
            )
        caller = (await context(request)).tokens.caller(token)
        if caller is not None:
            return caller
        if attempt_of(token) is not None:
            raise Rejected(
                403,
                "not-allowed",
                "a run's token reports the progress of its own run and does nothing else",
            )
        raise Unauthenticated("this token is unknown; the operator's is in STATE/token")


async def _peer(request: Request) -> Caller | None:
    """The user at the other end of a Unix socket; null: it is a connection of another kind. Raises NotAllowed."""
    uid, peers = request.scope.get("state", {}).get(PEER), (await context(request)).peers
    return None if uid is None or peers is None else await peers.caller(uid)


class _Run(_Bearer):
    async def __call__(self, request: Request) -> str:
        """The token that a run presents. Raises Unauthenticated."""
        token = bearer(request.headers)
        if not token:
            raise Unauthenticated("a run's token is needed: Authorization: Bearer BETIMES_RUN_TOKEN")
        return token


Here = Annotated[Context, Depends(context)]
operator = _Operator("operator", "The token in STATE/token.")
User = Annotated[Caller, Depends(operator)]
RunToken = Annotated[str, Depends(_Run("run", "A run's own token: BETIMES_RUN_TOKEN."))]
