"""Events as they happen: none left out, none twice, none held for those who do not read."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from betimes.client.sse import EventReader
from betimes.errors import StoreDamaged
from betimes.service.api import Limits
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import EventView, Page
from tests.service.client.both import events_in
from tests.service.serving import PATIENCE_S, Serving, served, until

STREAM = "/api/v1/events/stream"


@contextlib.asynccontextmanager
async def connected(
    it: Serving, url: str, path: str = STREAM, **options: Any
) -> AsyncIterator[httpx.Response]:
    headers = {**it.headers, **options.pop("headers", {})}
    async with (
        httpx.AsyncClient(timeout=PATIENCE_S) as http,
        http.stream("GET", url + path, headers=headers, **options) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield response


def pieces(
    response: httpx.Response, size: int | None = None
) -> contextlib.AbstractAsyncContextManager[AsyncIterator[bytes]]:
    return contextlib.aclosing(cast(AsyncGenerator[bytes, None], response.aiter_bytes(size)))


async def read(response: httpx.Response, count: int) -> list[EventView]:
    reader, events = EventReader(), []
    async with pieces(response) as chunks:
        async for chunk in chunks:
            events += events_in(reader, chunk)
            if len(events) >= count:
                break
    return events


class Watched:
    """Counts the readers of a service's events, and what has been read for the slowest of them."""

    def __init__(self, it: Serving) -> None:
        self._watch, self.now, self.most = it.backend.watch, 0, 0
        it.backend.watch = self.watch  # type: ignore[method-assign]

    async def watch(self, after: int) -> AsyncIterator[EventView]:
        self.now += 1
        try:
            async with contextlib.aclosing(self._watch(after)) as events:  # type: ignore[type-var]
                async for event in events:
                    self.most = max(self.most, event.event_id)
                    yield event
        finally:
            self.now -= 1


async def submit(it: Serving, number: int, **fields: Any) -> None:
    """Log so many jobs, with two events each."""
    job = {"command": ["true"], "hold": True, **fields}
    async with it.asking() as http:
        (await http.post("/api/v1/jobs", json={"jobs": [job] * number})).raise_for_status()


async def logged(it: Serving) -> list[EventView]:
    """All events."""
    async with it.asking() as http:
        found = await http.get("/api/v1/events", params={"limit": 1000})
    return Page[EventView].model_validate_json(found.content).items


def test_a_stream_begins_in_the_log_and_goes_on_live(tmp_path: Path) -> None:
    async def run() -> None:
        it = Serving(tmp_path)
        async with served(it, tmp_path) as url:
            await submit(it, 20)
            before, watched = len(await logged(it)), Watched(it)
            async with connected(it, url, params={"after": 10}) as response:
                await until(lambda: watched.most == before)
                for _ in range(5):
                    await submit(it, 1)
                events = await read(response, before)
            assert events == (await logged(it))[10:]
            assert len(events) == before

    asyncio.run(run())


@pytest.mark.parametrize("way", ["accept", "header"])
def test_a_reader_who_comes_back_says_where_it_was(tmp_path: Path, way: str) -> None:
    async def run() -> None:
        it = Serving(tmp_path)
        path = "/api/v1/events" if way == "accept" else STREAM
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "6"}
        async with served(it, tmp_path) as url:
            await submit(it, 3)
            async with connected(it, url, path, headers=headers, params={"after": 2}) as response:
                assert [event.event_id for event in await read(response, 3)] == [7, 8, 9]

    asyncio.run(run())


def test_nothing_is_lost_or_told_twice_over_many_breaks(tmp_path: Path) -> None:
    chance = random.Random(7)

    async def run() -> list[int]:
        it = Serving(tmp_path)
        reader = EventReader()
        seen: list[int] = []

        async with served(it, tmp_path) as url:
            first, watched = len(await logged(it)), Watched(it)

            async def life() -> None:
                for _ in range(75):
                    await submit(it, 2)
                    await asyncio.sleep(0.001)

            living = asyncio.ensure_future(life())
            async with asyncio.timeout(PATIENCE_S):
                while len(seen) < first + 300:
                    reader.restart()
                    left = chance.randrange(1, 12)
                    headers = {"Last-Event-ID": str(reader.last)}
                    async with (
                        connected(it, url, headers=headers) as response,
                        pieces(response, chance.randrange(20, 400)) as chunks,
                    ):
                        async for chunk in chunks:
                            seen += [event.event_id for event in events_in(reader, chunk)]
                            left -= 1
                            if not left or len(seen) >= first + 300:
                                break
            await living
            await until(lambda: watched.now == 0)
        return seen

    found = asyncio.run(run())
    assert len(found) >= 300
    assert found == list(range(1, len(found) + 1))


def test_events_are_filtered_and_silence_says_how_far_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        it = Serving(tmp_path)
        reader, text = EventReader(), b""
        events: list[EventView] = []
        params = {"job": 1, "kind": ["held", "c"]}
        async with served(it, tmp_path) as url:
            await submit(it, 2)
            last = (await logged(it))[-1].event_id
            async with connected(it, url, params=params) as response, pieces(response) as chunks:
                async for chunk in chunks:
                    text += chunk
                    events += events_in(reader, chunk)
                    if reader.last == last:
                        break
        assert [(event.job_id, event.kind) for event in events] == [(1, "held")]
        assert b": alive" in text

    asyncio.run(run())


def test_signs_of_life_in_silence(tmp_path: Path) -> None:
    async def run() -> None:
        it = Serving(tmp_path, limits=Limits(keep_alive_s=0.01))
        async with served(it, tmp_path) as url, connected(it, url) as response:
            text = b""
            async with pieces(response) as chunks:
                async for chunk in chunks:
                    text += chunk
                    if text.count(b": alive\n\n") >= 3:
                        break

    asyncio.run(run())


def test_a_reader_who_does_not_read_holds_up_only_itself(tmp_path: Path) -> None:
    """The log is far longer than all buffers between: it must not be pulled to its end for nobody."""

    async def run() -> None:
        it = Serving(tmp_path)
        async with served(it, tmp_path) as url:
            for _ in range(16):
                await submit(it, 10, command=["x" * 50_000, "x" * 50_000])
            last, watched = (await logged(it))[-1].event_id, Watched(it)
            async with connected(it, url):
                async with connected(it, url) as other:
                    assert len(await read(other, 50)) >= 50  # others read on
                seen = -1
                while seen != watched.most:
                    seen = watched.most
                    await asyncio.sleep(0.2)
                assert seen < last / 2

    asyncio.run(run())


def test_readers_who_leave_leave_nothing_behind(tmp_path: Path) -> None:
    async def run() -> None:
        it = Serving(tmp_path)
        async with served(it, tmp_path) as url:
            watched = Watched(it)
            for _ in range(3):
                async with connected(it, url):
                    await until(lambda: watched.now == 1)
                await until(lambda: watched.now == 0)

    asyncio.run(run())


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30, "²".encode("latin-1")])
def test_a_bad_last_id_is_refused(standing: Serving, last: str | bytes) -> None:
    headers: dict[str, Any] = {"Last-Event-ID": last}
    response = standing.ask("GET", STREAM, headers=headers)
    assert (response.status_code, response.json()["error"]["field"]) == (422, "Last-Event-ID")


def test_a_stream_ends_when_the_log_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        it = Serving(tmp_path)

        def damaged(after: int, *which: Any) -> list[Event]:
            if after:
                raise StoreDamaged("the database is damaged")
            return read_events(after, *which)

        read_events = it.store.events
        async with served(it, tmp_path) as url:
            expected = await logged(it)
            monkeypatch.setattr(it.store, "events", damaged)
            async with connected(it, url) as response:
                reader = EventReader()
                events = [
                    event async for chunk in response.aiter_bytes() for event in events_in(reader, chunk)
                ]
        assert events == expected

    asyncio.run(run())


def test_waiting_for_a_job_ends_with_the_service(tmp_path: Path) -> None:
    async def run() -> None:
        it = Serving(tmp_path)
        async with httpx.AsyncClient(timeout=PATIENCE_S, headers=it.headers) as http:
            async with served(it, tmp_path) as url:
                watched = Watched(it)
                await submit(it, 1)
                waiting = asyncio.ensure_future(
                    http.get(f"{url}/api/v1/jobs/1/wait", params={"timeout_s": 60})
                )
                await until(lambda: watched.now == 1)
            assert (await waiting).json()["status"] == Status.HELD

    asyncio.run(run())
