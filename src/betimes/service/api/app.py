"""The application: routes, errors, and access control, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from fastapi import FastAPI

from betimes import __version__
from betimes.service.access.auth import Tokens
from betimes.service.api import failures
from betimes.service.api.backend import Backend
from betimes.service.api.context import Context
from betimes.service.api.document import PREFIX, about, install_document
from betimes.service.api.guard import Guard
from betimes.service.api.limits import Limits
from betimes.service.api.routes import cluster, events, health, jobs, logs, tuning, uploads


def create_app(
    controller: Backend,
    tokens: Tokens,
    *,
    hosts: Iterable[str] = (),
    limits: Limits | None = None,
    closing: asyncio.Event | None = None,
    metrics: Callable[[], Awaitable[bytes]] | None = None,
    local_metrics: bool = False,
) -> FastAPI:
    """The HTTP API over a controller.

    `hosts` are names and addresses under which it may be called besides loopback ones; setting `closing` ends the
    streams (`serve` does so through `app.state.context.closing`). metrics: makes the text of `/metrics`; with
    `local_metrics` callers on this machine need no token for it.
    """
    app = FastAPI(
        **about(__version__),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.context = Context(
        controller, tokens, limits or Limits(), closing or asyncio.Event(), metrics, local_metrics
    )
    routers = (
        jobs.router,
        uploads.router,
        logs.router,
        cluster.router,
        tuning.router,
        events.router,
        health.router,
    )
    for router in routers:
        app.include_router(router)
    app.state.routers = routers
    failures.install(app)
    install_document(app)
    app.add_middleware(Guard, hosts=tuple(hosts))
    return app
