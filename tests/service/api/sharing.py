"""A service in memory that people share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from betimes.page.site import create_page
from betimes.service.access.auth import Tokens
from betimes.service.access.rights import Rights
from betimes.service.api import create_app
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.startup.in_memory import Assembly, assembled


class Shared:
    """A service in memory on four cores, and a client for the holder of each token."""

    def __init__(self, assembly: Assembly, *, reads_all: bool = False) -> None:
        self.assembly, self.backend = assembly, assembly.backend
        self.tokens = Tokens(assembly.store, self.backend.role_of)
        page = partial(create_page, self.backend)
        self.app = create_app(self.backend, self.tokens, rights=Rights(reads_all=reads_all), page=page)
        self.operator = self.tokens.new("root")

    async def ask(self, method: str, path: str, token: str = "", **options: Any) -> httpx.Response:
        """The answer to a request; by default the operator's."""
        headers = {"Authorization": f"Bearer {token or self.operator}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.request(method, f"/api/v1{path}", headers=headers, **options)

    async def browse(self, method: str, path: str, token: str, **form: str) -> httpx.Response:
        """The page's answer to a browser that is signed in with a token."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as browser:
            await browser.post("/sign-in", data={"token": token})
            return await browser.request(method, path, data=form or None)

    async def user(self, name: str, role: str = "user") -> str:
        """A token of a new user."""
        await self.done("POST", "/users", json={"name": name, "role": role})
        return (await self.done("POST", "/tokens", json={"user": name}))["token"]

    async def done(self, method: str, path: str, token: str = "", **options: Any) -> Any:
        """The answer to a request that is carried out."""
        response = await self.ask(method, path, token, **options)
        assert response.is_success, response.text
        return response.json()


def share(
    conversation: Callable[[Shared], Awaitable[None]], folder: Path, *, reads_all: bool = False
) -> None:
    """Carry out a conversation with a service."""

    @asynccontextmanager
    async def shared() -> AsyncIterator[Shared]:
        machine = Machine("here", "virtual", "here", 4.0, 16.0, 0.0)
        async with assembled([machine], "fifo", folder, clock=VirtualClock(0.0, 0.0)) as assembly:
            await assembly.settle()
            yield Shared(assembly, reads_all=reads_all)

    async def run() -> None:
        async with shared() as service:
            await conversation(service)

    asyncio.run(run())
