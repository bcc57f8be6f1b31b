"""Shared by all routes: the service behind them, the limits, and the caller."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from betimes.errors import Refused, Unknown
from betimes.service.access.auth import Caller, Tokens, attempt_of, bearer
from betimes.service.access.host_names import is_loopback
from betimes.service.access.pace import Buckets
from betimes.service.access.peers import PEER, Peers
from betimes.service.access.rights import Action, Rights
from betimes.service.api.failures import Rejected, Unauthenticated
from betimes.service.api.limits import Limits
from betimes.service.spec.job_spec import JobSpec, is_url

if TYPE_CHECKING:  # it takes a second to import
    from betimes.service.runtime.seen import Seen
    from betimes.service.runtime.service_backend import ServiceBackend


@dataclass(frozen=True)
class Context:
    """One application's parts."""

    backend: ServiceBackend
    tokens: Tokens
    limits: Limits
    rights: Rights
    closing: asyncio.Event  # set: end endless streams
    metrics: Callable[[], Awaitable[bytes]] | None = None  # in Prometheus's text format; null: there are none
    local_metrics: bool = False  # callers on this machine need no token for them
    peers: Peers | None = None  # callers over the Unix socket; null: there is none
    buckets: Buckets | None = None  # null: no token makes too many requests

    def check_specs(self, caller: Caller, specs: Sequence[JobSpec]) -> None:
        """Raise Refused for a command to notify that cannot run, or that the service runs as itself for no operator."""
        from betimes.service.runtime.notifications import missing_program  # as above

        if self.backend.unix_user(caller.user) is not None:
            return
        for spec in specs:
            is_command = spec.notify is not None and not is_url(spec.notify)
            if is_command and not self.rights.may(caller, "operate"):
                raise Refused(
                    "a command is run by the service itself, so that only operators give one; give a URL",
                    "notify",
                )
            if is_command and (program := missing_program(spec.notify or "")) is not None:
                raise Refused(
                    f"there is no program {program!r} on the service's machine, so that nobody would be notified; give "
                    "a URL, or a command that can run there",
                    "notify",
                )

    def seen_by(self, caller: Caller) -> Seen:
        """The service as a caller may see it."""
        from betimes.service.runtime.seen import Seen  # as above

        return Seen(self.backend, self.rights.only(caller), caller.user)

    async def permitted(
        self, caller: Caller, action: Action, numbers: Sequence[int], where_possible: bool = False
    ) -> list[int]:
        """The jobs, if the caller may do that to all of them; where_possible: those to which the caller may.

        Raises NotAllowed, Unknown.
        """
        only = self.rights.only(caller)
        if only is None and self.rights.may(caller, action):
            return list(numbers)
        # Whose a job is never changes. One that is not there yet is refused: it may be another's a moment later.
        owners = await self.seen_by(caller).owners(numbers)
        found: list[int] = []
        for number in numbers:
            owner = owners.get(number)
            if owner is not None and self.rights.may(caller, action, owner):
                found.append(number)
            elif not where_possible and owner is None:
                raise Unknown(f"there is no job {number}; `betimes jobs --all` lists them")
            elif not where_possible:
                self.rights.check(caller, action, owner, number)
        return found

    def still_holds(self, caller: Caller) -> bool:
        """Whether a caller is still who it was when it asked, for answers that go on."""
        if caller.is_peer and self.peers is not None:
            return self.peers.still_holds(caller)
        return self.tokens.still_holds(caller)

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


class _Holder(_Bearer):
    """The caller, who may do `action`."""

    def __init__(self, action: Action) -> None:
        super().__init__("operator", "The token in STATE/token, which is the operator's, or a user's.")
        self.action: Action = action

    async def __call__(self, request: Request) -> Caller:
        """The caller. Raises Unauthenticated; Rejected for a run's token; NotAllowed."""
        caller = await caller_of(request)
        (await context(request)).rights.check(caller, self.action)
        return caller


async def caller_of(request: Request) -> Caller:
    """The holder of a request's token; without one, the user at the other end of a Unix socket.

    Raises Unauthenticated; Rejected for a run's token; NotAllowed.
    """
    token, here = bearer(request.headers), await context(request)
    if not token and (peer := await _peer(request)) is not None:
        here.count(request, f"unix:{peer.user}", peer.role)
        return peer
    if not token:
        raise Unauthenticated(
            "a token is needed: Authorization: Bearer TOKEN; the operator's is in STATE/token"
        )
    caller = here.tokens.caller(token)
    if caller is not None:
        here.count(request, token, caller.role)
        return caller
    if attempt_of(token) is not None:
        raise Rejected(
            403,
            "not-allowed",
            "a run's token reports the progress of its own run and does nothing else",
        )
    raise Unauthenticated(
        "this token is unknown, has ended, or is of a user who is disabled; the operator's is in STATE/token"
    )


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
        (await context(request)).count(request, token)
        return token


Here = Annotated[Context, Depends(context)]
see = _Holder("see")
Viewer = Annotated[Caller, Depends(see)]
Submitter = Annotated[Caller, Depends(_Holder("submit"))]
Operator = Annotated[Caller, Depends(_Holder("operate"))]
RunToken = Annotated[str, Depends(_Run("run", "A run's own token: BETIMES_RUN_TOKEN."))]
