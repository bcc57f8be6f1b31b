"""What every route needs: the service behind it, the limits, and who is asking."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from betimes.service.access.auth import Caller, Tokens, attempt_of, bearer
from betimes.service.api.backend import Backend
from betimes.service.api.failures import Rejected, Unauthenticated
from betimes.service.api.limits import Limits


@dataclass(frozen=True)
class Context:
    """One application's parts."""

    backend: Backend
    tokens: Tokens
    limits: Limits
    closing: asyncio.Event  # set: end what would go on for ever


# They are the schemes in the OpenAPI document; the header is read below, so that an error has the usual form.
_operator = HTTPBearer(scheme_name="operator", description="The token in STATE/token.", auto_error=False)
_run = HTTPBearer(scheme_name="run", description="A run's own token: BETIMES_RUN_TOKEN.", auto_error=False)


# The dependencies are coroutines because FastAPI runs plain functions in threads, which cost more than they do.
async def context(request: Request) -> Context:
    """The parts of the application that a request came to."""
    return cast(Context, request.app.state.context)


Here = Annotated[Context, Depends(context)]


async def _caller(request: Request, here: Here, _: Annotated[object, Depends(_operator)]) -> Caller:
    return caller_of(request, here)


def caller_of(request: Request, here: Context) -> Caller:
    """Who asks. Raises Unauthenticated; Rejected for a run's token."""
    token = bearer(request.headers)
    if not token:
        raise Unauthenticated(
            "a token is needed: Authorization: Bearer TOKEN; the operator's is in STATE/token"
        )
    caller = here.tokens.caller(token)
    if caller is not None:
        return caller
    if attempt_of(token) is not None:
        raise Rejected(
            403, "not-allowed", "a run's token reports the progress of its own run and does nothing else"
        )
    raise Unauthenticated("this token is unknown; the operator's is in STATE/token")


User = Annotated[Caller, Depends(_caller)]


async def run_token(request: Request, _: Annotated[object, Depends(_run)]) -> str:
    """The token that a run presents. Raises Unauthenticated."""
    token = bearer(request.headers)
    if not token:
        raise Unauthenticated("a run's token is needed: Authorization: Bearer BETIMES_RUN_TOKEN")
    return token


RunToken = Annotated[str, Depends(run_token)]
