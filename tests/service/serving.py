"""A service in memory with its API, asked in process or over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import httpx
from fastapi import FastAPI

from betimes.cluster import Cluster, Offer
from betimes.page.site import create_page
from betimes.service.access.auth import KeptToken, Tokens
from betimes.service.api import Limits, create_app
from betimes.service.machines.cloud_file import cloud_of
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.events import Ended
from betimes.service.startup.in_memory import assembled
from betimes.service.startup.server import serve
from betimes.service.store import Store
from betimes.service.views.models import JobView, Page

if TYPE_CHECKING:
    from betimes.service.runtime.service_backend import ServiceBackend

T = TypeVar("T")

PATIENCE_S = 60  # of a test, for what takes a moment
HERE = Machine("here", "virtual", "n", 4.0, 16.0, 0.0)
QUICK = Limits(keep_alive_s=0.05, follow_s=0.01, over_s=0.02)


class Serving:
    """A service in memory, by default on four cores, the application over it, and the token of an operator.

    Within `async with` it runs in that event loop, after `start` in one of its own. It may be started again, and goes
    on with its store. Its clock stands still; `advance` moves it on.

    offers: of a fake cloud. pages: whether the application has them. options: of `create_app`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        user: str = "ada",
        policy: str = "fifo",
        begin_at: float = 0.0,
        machines: tuple[Machine, ...] = (HERE,),
        settings: Settings | None = None,
        offers: tuple[Offer, ...] = (),
        pages: bool = False,
        **options: Any,
    ) -> None:
        self.store = Store.in_memory(folder)
        self.folder, self.clock = folder, VirtualClock(begin_at, 0.0)
        self.tokens = Tokens(self.store)
        self.token = self.tokens.new(user)
        self._machines, self._policy, self._offers = machines, policy, offers
        self._settings = replace(settings or Settings(), offers=offers)
        self._pages, self._options = pages, {"limits": QUICK, **options}
        self._open, self._runner = contextlib.AsyncExitStack(), asyncio.Runner()
        self._is_open = False
        self.loop: asyncio.AbstractEventLoop | None = None  # of another thread, in which it runs

    @property
    def backend(self) -> ServiceBackend:
        return self.assembly.backend

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def __aenter__(self) -> Self:
        service = assembled(
            self._machines,
            self._policy,
            self.folder,
            clock=self.clock,
            store=self.store,
            settings=self._settings,
            cloud=cloud_of(Cluster("offers", (), offers=self._offers)) if self._offers else None,
        )
        self.assembly = await self._open.enter_async_context(service)
        page = partial(create_page, self.backend) if self._pages else None
        self.tokens.role_of = self.backend.role_of
        self.app = create_app(self.backend, self.tokens, page=page, **self._options)
        self.app.openapi = document
        self._is_open = True
        await self.assembly.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        await self._open.aclose()

    def start(self) -> Self:
        """Start it in a loop of its own, which goes on whenever something is asked of it."""
        return self._runner.run(self.__aenter__())

    def run(self, conversation: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
        """Carry out a conversation with the service in process."""

        async def body() -> T:
            async with self.asking() as http:
                return await conversation(http)

        return self.do(body())

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Carry something out in the loop of the service, from outside of it."""
        if self.loop is not None:
            return asyncio.run_coroutine_threadsafe(what, self.loop).result(PATIENCE_S)
        return self._runner.run(what)

    def pass_time(self, for_s: float) -> None:
        """Let time pass, as `advance` does, outside of a loop."""
        self.do(self.advance(for_s))

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer to one request, made in process."""
        return self.run(lambda http: http.request(method, path, **options))

    def asking(self, token: str | None = None) -> httpx.AsyncClient:
        """A client that asks in process, by default with the operator's token; empty: without any."""
        headers = {"Authorization": f"Bearer {token or self.token}"} if token != "" else {}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)

    async def advance(self, for_s: float) -> None:
        """Let time pass."""
        await self.assembly.advance_to(self.clock.now_s() + for_s)

    def token_of(self, user: str) -> str:
        """A token of a new user, who is no operator."""
        self.ask("POST", "/api/v1/users", json={"name": user}).raise_for_status()
        made = self.ask("POST", "/api/v1/tokens", json={"user": user, "name": "laptop"})
        return made.json()["token"]

    def end_run(self, job: int, exit_code: int | None = 0, **how: Any) -> None:
        """Let a job's run end now; how: as an executor reports it."""

        async def end() -> None:
            world, now_at = self.assembly.world, self.clock.now_s()
            run = world.stays[job].run
            world.forget(run, now_at, discards=True)
            self.assembly.controller.inbox.hear(Ended(run, now_at, exit_code, **how))
            await self.assembly.settle()

        self.do(end())

    def log(self, job: int, run: int = 1) -> Path:
        """The file of a run's output, which nobody but the test writes."""
        folder = self.assembly.controller.launches.folder(job, run)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "log"

    def jobs(self, **params: Any) -> list[JobView]:
        """The jobs with their specifications, the oldest first."""
        answer = self.ask("GET", "/api/v1/jobs", params={"spec": True, "limit": 1000, **params})
        return Page[JobView].model_validate_json(answer.content).items[::-1]

    def close(self) -> None:
        """End the service, and forget it."""
        if self._is_open:
            self._runner.run(self.__aexit__())
        self._runner.close()
        self.store.close()


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


@functools.cache
def application() -> FastAPI:
    """An application whose routes can be looked at; there is nothing behind them."""
    return create_app(cast(Any, None), Tokens(MemoryTokens()))


def document() -> dict[str, Any]:
    """The OpenAPI document of every application; to make it the first time takes half a second."""
    return application().openapi()


@contextlib.asynccontextmanager
async def served(
    it: Serving, state: Path, port: int = 0, host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[str]:
    """Run it and serve it on a real port, with the options of `serve`; the URL."""
    state.mkdir(exist_ok=True)
    (state / "token").write_text(it.token)
    stop = asyncio.Event()
    listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    beyond = host != "127.0.0.1"
    async with it:
        server = asyncio.ensure_future(
            serve(it.app, host, port, state=state, stop=stop, listen=beyond, listening=listening, **options)
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

    def __init__(self, it: Serving, state: Path) -> None:
        self.it = it
        self.state = state
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
            self.it.loop = loop
            yield self.url
        finally:
            self.it.loop = None
            loop.call_soon_threadsafe(stop.set)
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
