"""A service in memory with its pages, asked in process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from betimes.cluster import Offer
from betimes.page import site
from betimes.service.access.auth import Tokens
from betimes.service.startup.in_memory import Assembly
from tests.service.serving import Serving

BEGIN_AT = 1_767_268_800.0


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
    it = Serving(folder, policy=policy, begin_at=BEGIN_AT, offers=offers, pages=True)
    with contextlib.closing(it):
        async with it, it.asking(token="") as browser, it.asking(token="") as stranger:
            await browser.post("/sign-in", data={"token": it.token})
            yield Paged(it.assembly, it.tokens, it.token, browser, stranger)


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
