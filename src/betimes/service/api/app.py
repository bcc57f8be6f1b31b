"""The application: routes, errors, and access control, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from betimes import __version__
from betimes.service.access.auth import Tokens
from betimes.service.access.pace import Buckets, Pace
from betimes.service.access.peers import Peers
from betimes.service.access.rights import Rights
from betimes.service.api import failures
from betimes.service.api.context import Context
from betimes.service.api.document import PREFIX, about, install_document
from betimes.service.api.guard import Guard
from betimes.service.api.limits import Limits
from betimes.service.api.routes import (
    advice,
    cluster,
    events,
    health,
    jobs,
    lists,
    logs,
    tuning,
    uploads,
    users,
)

if TYPE_CHECKING:  # what is behind it takes a second to import
    from betimes.service.runtime.service_backend import ServiceBackend

# Not by `include_router`, which builds each route again for each application, at its first request.
_ROUTES = [
    route
    for part in (jobs, uploads, logs, cluster, tuning, advice, lists, users, events, health)
    for route in part.router.routes
]


def create_app(
    controller: ServiceBackend,
    tokens: Tokens,
    *,
    hosts: Iterable[str] = (),
    limits: Limits | None = None,
    closing: asyncio.Event | None = None,
    page: Callable[[Context], ASGIApp] | None = None,
    metrics: Callable[[], Awaitable[bytes]] | None = None,
    local_metrics: bool = False,
    rights: Rights | None = None,
    peers: Peers | None = None,
    pace: Pace | None = None,
) -> FastAPI:
    """The HTTP API over a controller.

    `hosts` are names and addresses under which it may be called besides loopback ones; setting `closing` ends the
    streams (`serve` does so through `app.state.context.closing`). page: makes what answers all paths that are not the
    API's, at the first request for one of them. metrics: makes the text of `/metrics`; with `local_metrics` callers on
    this machine need no token for it. rights: of the roles. peers: callers over the Unix socket, who need none.
    pace: of the requests of each token but an operator's on this machine; null: any.
    """
    app = FastAPI(
        **about(__version__),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.context = Context(
        controller,
        tokens,
        limits or Limits(),
        rights or Rights(),
        closing or asyncio.Event(),
        metrics,
        local_metrics,
        peers,
        Buckets(pace) if pace is not None else None,
    )
    app.router.routes.extend(_ROUTES)
    failures.install(app)
    install_document(app)
    if page is not None:
        first_parts = frozenset(route.path.split("/")[1] for route in _ROUTES if isinstance(route, Route))
        app.add_middleware(_Door, page=page, context=app.state.context, first_parts=first_parts)
    app.add_middleware(Guard, hosts=tuple(hosts))
    return app


class _Door:
    """ASGI middleware that passes requests outside the API to the pages, which are imported for the first of them."""

    def __init__(
        self, app: ASGIApp, page: Callable[[Context], ASGIApp], context: Context, first_parts: frozenset[str]
    ) -> None:
        self._app, self._first_parts = app, first_parts
        self._open = partial(page, context)
        self._page: ASGIApp | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request."""
        if scope["type"] != "http" or scope["path"].partition("/")[2].partition("/")[0] in self._first_parts:
            await self._app(scope, receive, send)
            return
        async with self._opening:
            if self._page is None:
                self._page = await asyncio.to_thread(self._open)
        await self._page(scope, receive, send)
