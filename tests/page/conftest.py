"""A service in memory with its pages, asked in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from betimes.cluster import Cluster, Offer
from betimes.page import site
from betimes.page.site import create_page
from betimes.service.access.auth import Tokens
from betimes.service.api import Limits, create_app
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.startup.in_memory import Assembly, assembled
from tests.service.serving import MemoryTokens

BEGIN_AT = 1_767_268_800.0
NODE = Machine("here", "virtual", "n", 4.0, 16.0, 0.0)


@dataclass
class Paged:
    """A service in memory, its pages, and a browser that is signed in."""

    service: Assembly
    tokens: Tokens
    token: str
    browser: httpx.AsyncClient
    stranger: httpx.AsyncClient

    async def at(self, path: str, **headers: str) -> httpx.Response:
        return await self.browser.get(path, headers=headers)


@asynccontextmanager
async def paged(folder: Path, policy: str = "fifo", offers: tuple[Offer, ...] = ()) -> AsyncIterator[Paged]:
    clock, settings = VirtualClock(BEGIN_AT, 0.0), Settings(offers=offers)
    cloud = cloud_of(Cluster("offers", (), offers=offers)) if offers else None
    async with assembled([NODE], policy, folder, clock=clock, settings=settings, cloud=cloud) as service:
        tokens = Tokens(MemoryTokens())
        token = tokens.new("ada")
        quick = Limits(keep_alive_s=0.05, follow_s=0.01, over_s=0.02)
        app = create_app(service.backend, tokens, limits=quick, page=partial(create_page, service.backend))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        base = "http://127.0.0.1"
        async with (
            httpx.AsyncClient(transport=transport, base_url=base) as browser,
            httpx.AsyncClient(transport=transport, base_url=base) as stranger,
        ):
            await browser.post("/sign-in", data={"token": token})
            yield Paged(service, tokens, token, browser, stranger)


@pytest.fixture
def on_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Paged], Awaitable[None]]], None]:
    """Runs a coroutine with a service and its pages, which show everything at once."""
    monkeypatch.setattr(site, "SAMPLE_S", 0.0)
    monkeypatch.setattr(site, "NOW_S", 1e9)

    def run(story: Callable[[Paged], Awaitable[None]]) -> None:
        async def body() -> None:
            async with paged(tmp_path) as pages:
                await story(pages)

        asyncio.run(body())

    return run
