"""A service in memory that people share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from betimes.service.access.rights import Rights
from tests.service.serving import Serving


class Shared:
    """A service in memory, and a client for the holder of each token."""

    def __init__(self, it: Serving) -> None:
        self.assembly, self.backend, self.app = it.assembly, it.backend, it.app
        self.tokens, self.operator = it.tokens, it.token

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

    async def run() -> None:
        async with Serving(folder, user="root", pages=True, rights=Rights(reads_all=reads_all)) as it:
            await conversation(Shared(it))

    asyncio.run(run())
