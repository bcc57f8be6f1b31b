"""What is lost on the way is asked again where that does no harm, and what is followed goes on where it was."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from betimes import AsyncClient, Client
from betimes.client import asynchronous, synchronous
from betimes.errors import NotReachable
from betimes.service.executors.virtual import DEFAULT_WORK_S
from betimes.service.views.models import EventView, NodeSpec
from tests.service.client.both import TRUE, Both
from tests.service.serving import PATIENCE_S, Background


def test_a_service_that_was_never_there_is_not_waited_for(tmp_path: Path, call: Both) -> None:
    for method in ("jobs", "events", "nodes"):
        with pytest.raises(NotReachable, match="`betimes up`"):
            call(method)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(NotReachable, match="`betimes up`"):
        Both(call.kind, url=url)("events", follow=True)
    with pytest.raises(NotReachable, match="`betimes up`"):
        Both(call.kind, url=url)("logs", 1)


def test_a_service_that_answers_nothing_is_given_up(call: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (asynchronous, synchronous):
        monkeypatch.setattr(module, "SILENT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(NotReachable, match=r"has not answered for 0.4 s, .*; look at its log, or start"):
            Both(call.kind, url=url)("jobs")


def test_an_answer_that_takes_long_is_waited_for(running: Background, kind_of_client: str) -> None:
    policy, asked = reached(kind_of_client, running, [httpx.ReadTimeout], lambda client: client.policy())
    assert policy.policy
    assert asked == 3  # with a health check between


class Breaking(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Carries requests out, and then loses the answers of some; or refuses to connect."""

    def __init__(self, lost: list[type[httpx.TransportError] | None]) -> None:
        self.lost, self.asked = lost, 0
        self.inner, self.inner_async = httpx.HTTPTransport(), httpx.AsyncHTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        error = self._next()
        if error is httpx.ConnectError:
            raise error("lost")
        response = self.inner.handle_request(request)
        if error is not None:
            response.close()
            raise error("lost")
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        error = self._next()
        if error is httpx.ConnectError:
            raise error("lost")
        response = await self.inner_async.handle_async_request(request)
        if error is not None:
            await response.aclose()
            raise error("lost")
        return response

    def _next(self) -> type[httpx.TransportError] | None:
        self.asked += 1
        return self.lost.pop(0) if self.lost else None

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner_async.aclose()


def reached(kind: str, running: Background, lost: list[Any], then: Callable[[Any], Any]) -> tuple[Any, int]:
    """What comes of a call by a client that has reached its service before, and how often it asked for it."""
    transport = Breaking([None, *lost])
    options: dict[str, Any] = {"state": running.state, "transport": transport, "patience_s": PATIENCE_S}
    if kind == "blocking":
        with Client(**options) as client:
            client.policy()
            return then(client), transport.asked - 1

    async def run() -> Any:
        async with AsyncClient(**options) as client:
            await client.policy()
            return await then(client)

    return asyncio.run(run()), transport.asked - 1


@pytest.mark.parametrize(
    "error", [httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout, httpx.ConnectError]
)
def test_a_submission_whose_answer_is_lost_is_not_made_twice(
    running: Background, kind_of_client: str, error: type[httpx.TransportError]
) -> None:
    submitted, asked = reached(
        kind_of_client, running, [error, error], lambda client: client.submit([TRUE, TRUE])
    )
    assert (len(submitted), asked) == (2, 3)
    assert len(running.it.jobs()) == 2


def test_what_might_do_harm_is_not_repeated(running: Background, kind_of_client: str) -> None:
    before = len(running.it.ask("GET", "/api/v1/nodes").json()["nodes"])
    spec = NodeSpec(type="big", cpu=1, memory_gib=1)
    with pytest.raises(NotReachable, match="look whether it was carried out"):
        reached(kind_of_client, running, [httpx.ReadError], lambda client: client.add_nodes(spec))
    assert len(running.it.ask("GET", "/api/v1/nodes").json()["nodes"]) == before + 1
    _, asked = reached(kind_of_client, running, [httpx.ConnectError], lambda client: client.add_nodes(spec))
    assert asked == 2


def test_patience_has_an_end(running: Background, kind_of_client: str) -> None:
    transport = Breaking([None, *[httpx.ReadError] * 1000])
    both = {"state": running.state, "transport": transport, "patience_s": 0.2}
    if kind_of_client == "blocking":
        with Client(**both) as client:
            client.policy()
            with pytest.raises(NotReachable, match="lost"):
                client.policy()
    else:

        async def run() -> None:
            async with AsyncClient(**both) as client:
                await client.policy()
                with pytest.raises(NotReachable, match="lost"):
                    await client.policy()

        asyncio.run(run())


def test_a_service_that_restarts_elsewhere_is_found_again(service: Background) -> None:
    with Client(state=service.state, patience_s=PATIENCE_S) as client:
        with service() as first:
            client.submit(TRUE)
            results: list[Any] = []
            waiting = threading.Thread(target=lambda: results.append(client.wait(1)))
            waiting.start()
        with socket.create_server(("127.0.0.1", int(first.rsplit(":", 1)[1]))), service() as second:
            assert second != first
            service.it.pass_time(DEFAULT_WORK_S)
            waiting.join(PATIENCE_S)
        assert results[0].status == "finished"


def test_events_are_followed_over_restarts_without_loss_or_repetition(
    service: Background, kind_of_client: str
) -> None:
    seen: list[EventView] = []

    def is_last(event: EventView) -> bool:
        seen.append(event)
        return event.kind == "user-set"

    def blocking() -> None:
        with Client(state=service.state, patience_s=PATIENCE_S) as client:
            for event in client.events(follow=True):
                if is_last(event):
                    break

    async def other() -> None:
        async with AsyncClient(state=service.state, patience_s=PATIENCE_S) as client:
            events = client.events(follow=True)
            async for event in events:
                if is_last(event):
                    break
            await events.aclose()  # type: ignore[attr-defined]

    reader = threading.Thread(
        target=blocking if kind_of_client == "blocking" else lambda: asyncio.run(other())
    )
    for number in range(3):
        with service():
            if number == 0:
                reader.start()
            for _ in range(20):
                service.it.ask("POST", "/api/v1/jobs", json={"command": ["true"], "hold": True})
            if number == 2:
                service.it.ask("POST", "/api/v1/users", json={"name": "eve"})
                reader.join(PATIENCE_S)
            elif number == 0:
                arrived = threading.Event()
                for _ in range(PATIENCE_S * 100):
                    if len(seen) >= 20 or arrived.wait(0.01):
                        break
    assert [event.event_id for event in seen] == list(range(1, len(seen) + 1))
    assert [event.job_id for event in seen if event.kind == "submitted"] == list(range(1, 61))


def test_proxies_of_the_environment_are_not_for_this_machine(
    running: Background, call: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert call("policy").policy == "fifo"
