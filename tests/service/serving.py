"""A fake service, asked in process or over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
from fastapi import FastAPI

from betimes.service.access.auth import KeptToken, Tokens
from betimes.service.access.pace import Pace
from betimes.service.api import Limits, create_app
from betimes.service.startup.server import serve
from tests.service.fake_backend import FakeBackend

if TYPE_CHECKING:
    from betimes.service.runtime.service_backend import ServiceBackend

PATIENCE_S = 60  # of a test, for what takes a moment


@dataclass
class MemoryTokens:
    """Tokens in memory."""

    rows: dict[str, KeptToken] = field(default_factory=dict[str, KeptToken])

    def add_token(self, token: KeptToken) -> None:
        self.rows[token.hashed] = token

    def token(self, hashed: str) -> KeptToken | None:
        return self.rows.get(hashed)

    def revoke_tokens(self, user: str | None, name: str | None, at: float) -> int:
        good = [each for each in self.rows.values() if (each.name, each.revoked_at) == (name, None)]
        found = [each for each in good if user in (None, each.user)]
        self.rows |= {each.hashed: replace(each, revoked_at=at) for each in found}
        return len(found)

    def note_uses(self, used_at: Mapping[str, float]) -> None:
        self.rows |= {hashed: replace(self.rows[hashed], used_at=at) for hashed, at in used_at.items()}


@dataclass
class Fake:
    """The fake, the application over it, and the operator's token."""

    backend: FakeBackend
    tokens: Tokens
    token: str
    limits: Limits
    hosts: tuple[str, ...]
    app: FastAPI
    pace: Pace | None = None

    def renewed(self) -> FastAPI:
        """A new application over the same service, as after a restart."""
        self.app = create_app(
            _as_service(self.backend), self.tokens, limits=self.limits, hosts=self.hosts, pace=self.pace
        )
        self.app.openapi = _document
        return self.app

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def asking(self) -> httpx.AsyncClient:
        """A client that asks in process."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=self.headers)


def fake(
    folder: Path | None = None,
    limits: Limits | None = None,
    hosts: tuple[str, ...] = (),
    pace: Pace | None = None,
) -> Fake:
    backend = FakeBackend(folder)
    kept = MemoryTokens()
    tokens = Tokens(kept)
    backend.kept_tokens = kept.rows
    quick = limits or Limits(keep_alive_s=0.05, follow_s=0.01, over_s=0.02)
    app = create_app(_as_service(backend), tokens, limits=quick, hosts=hosts, pace=pace)
    app.openapi = _document
    return Fake(backend, tokens, tokens.new("ada"), quick, hosts, app, pace)


@functools.cache
def _document() -> dict[str, Any]:
    """The document of every application, in which parameters are looked up; to make it takes a third of a second."""
    return create_app(_as_service(FakeBackend()), Tokens(MemoryTokens())).openapi()


def _as_service(backend: FakeBackend) -> ServiceBackend:
    """Checked by `test_routes.test_the_fake_is_asked_as_the_service_is`."""
    return cast("ServiceBackend", backend)


@contextlib.asynccontextmanager
async def served(it: Fake, state: Path, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve it on a real port; the URL."""
    state.mkdir(exist_ok=True)
    (state / "token").write_text(it.token)
    stop = asyncio.Event()
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(
        serve(
            it.renewed(),
            host,
            port,
            state=state,
            stop=stop,
            listen=host != "127.0.0.1",
            listening=listening,
        )
    )
    try:
        await asyncio.wait((server, listening), return_when="FIRST_COMPLETED")
        if server.done():
            await server
        yield listening.result()
    finally:
        stop.set()
        await server


class Background:
    """The same in a thread of its own, for clients that block; it can be stopped and started again."""

    def __init__(self, it: Fake, state: Path) -> None:
        self.it, self.state = it, state
        self.url = ""
        self._up = threading.Event()

    @contextlib.contextmanager
    def __call__(self, port: int = 0) -> Iterator[str]:
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()

        async def run() -> None:
            async with served(self.it, self.state, port) as url:
                self.url = url
                self._up.set()
                await stop.wait()

        def body() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(run())

        self._up.clear()
        thread = threading.Thread(target=body)
        thread.start()
        try:
            assert self._up.wait(PATIENCE_S)
            self.loop = loop
            yield self.url
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def do(self, action: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Do something to the fake in its own thread, and wait for it."""
        done = threading.Event()

        def act() -> None:
            action(*arguments, **options)
            done.set()

        self.loop.call_soon_threadsafe(act)
        assert done.wait(PATIENCE_S)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
