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
from betimes.service.api import Limits
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import EventView
from tests.service.client.both import events_in
from tests.service.fake_backend import FakeBackend
from tests.service.serving import PATIENCE_S, Fake, fake, served, until

STREAM = "/api/v1/events/stream"


@contextlib.asynccontextmanager
async def connected(it: Fake, url: str, path: str = STREAM, **options: Any) -> AsyncIterator[httpx.Response]:
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


def test_a_stream_begins_in_the_log_and_goes_on_live(tmp_path: Path) -> None:
    async def run() -> None:
        it = fake()
        for _ in range(40):
            it.backend.happens("old")
        async with served(it, tmp_path) as url, connected(it, url, params={"after": 10}) as response:
            await until(lambda: it.backend.watching == 1)
            for _ in range(5):
                it.backend.happens("new")
                await asyncio.sleep(0)
            events = await read(response, 35)
        assert [event.event_id for event in events] == list(range(11, 46))
        assert events[-1] == it.backend.log[-1]

    asyncio.run(run())


@pytest.mark.parametrize("way", ["accept", "header"])
def test_a_reader_who_comes_back_says_where_it_was(tmp_path: Path, way: str) -> None:
    async def run() -> None:
        it = fake()
        for _ in range(9):
            it.backend.happens("old")
        path = "/api/v1/events" if way == "accept" else STREAM
        headers = {"Accept": "text/event-stream", "Last-Event-ID": "6"}
        async with (
            served(it, tmp_path) as url,
            connected(it, url, path, headers=headers, params={"after": 2}) as response,
        ):
            assert [event.event_id for event in await read(response, 3)] == [7, 8, 9]

    asyncio.run(run())


def test_nothing_is_lost_or_told_twice_over_many_breaks(tmp_path: Path) -> None:
    chance = random.Random(7)

    async def run() -> list[int]:
        it = fake()
        reader = EventReader()
        seen: list[int] = []

        async def life() -> None:
            for _ in range(300):
                it.backend.happens("tick", data=1)
                await asyncio.sleep(0.001)

        async with served(it, tmp_path) as url:
            living = asyncio.ensure_future(life())
            async with asyncio.timeout(PATIENCE_S):
                while len(seen) < 300:
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
                            if not left or len(seen) >= 300:
                                break
            await living
            await until(lambda: it.backend.watching == 0)
        return seen

    assert asyncio.run(run()) == list(range(1, 301))


def test_events_are_filtered_and_silence_says_how_far_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        it = fake()
        for kind, job in [("a", 1), ("b", 1), ("a", 2), ("a", None)]:
            it.backend.happens(kind, job)
        reader, events, text = EventReader(), [], b""
        params = {"job": 1, "kind": ["a", "c"]}
        async with (
            served(it, tmp_path) as url,
            connected(it, url, params=params) as response,
            pieces(response) as chunks,
        ):
            async for chunk in chunks:
                text += chunk
                events += events_in(reader, chunk)
                if reader.last == 4:
                    break
        assert [event.event_id for event in events] == [1]
        assert b": alive" in text

    asyncio.run(run())


def test_signs_of_life_in_silence(tmp_path: Path) -> None:
    async def run() -> None:
        it = fake(limits=Limits(keep_alive_s=0.01))
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
        it = fake()
        for _ in range(4000):
            it.backend.happens("large", text="x" * 10_000)
        pulled = Pulled(it.backend)
        it.backend.watch = pulled.watch  # type: ignore[method-assign]
        async with served(it, tmp_path) as url, connected(it, url):
            async with connected(it, url) as other:
                assert len(await read(other, 50)) >= 50  # others read on
            seen = -1
            while seen != pulled.most:
                seen = pulled.most
                await asyncio.sleep(0.2)
            assert seen < 4000 / 2

    asyncio.run(run())


class Pulled:
    """Counts what the slowest reader has been given."""

    def __init__(self, backend: FakeBackend) -> None:
        self._watch, self.most = backend.watch, 0

    async def watch(self, after: int) -> AsyncIterator[EventView]:
        async for event in self._watch(after):
            self.most = max(self.most, event.event_id)
            yield event


def test_readers_who_leave_leave_nothing_behind(tmp_path: Path) -> None:
    async def run() -> None:
        it = fake()
        async with served(it, tmp_path) as url:
            for _ in range(3):
                async with connected(it, url):
                    await until(lambda: it.backend.watching == 1)
                await until(lambda: it.backend.watching == 0)

    asyncio.run(run())


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 30, "²".encode("latin-1")])
def test_a_bad_last_id_is_refused(last: str | bytes) -> None:
    headers: dict[str, Any] = {"Last-Event-ID": last}
    response = fake().ask("GET", STREAM, headers=headers)
    assert (response.status_code, response.json()["error"]["field"]) == (422, "Last-Event-ID")


def test_a_stream_ends_when_the_log_cannot_be_read(tmp_path: Path) -> None:
    async def run() -> None:
        it = fake()

        async def broken(after: int) -> AsyncIterator[EventView]:
            from betimes.errors import StoreDamaged

            yield it.backend.happens("last")
            raise StoreDamaged("the database is damaged")

        it.backend.watch = broken  # type: ignore[method-assign]
        async with served(it, tmp_path) as url, connected(it, url) as response:
            reader = EventReader()
            events = [event async for chunk in response.aiter_bytes() for event in events_in(reader, chunk)]
        assert [event.kind for event in events] == ["last"]

    asyncio.run(run())


def test_waiting_for_a_job_ends_with_the_service(tmp_path: Path) -> None:
    async def run() -> None:
        it = fake()
        await it.backend.submit([], "ada")
        async with httpx.AsyncClient(timeout=PATIENCE_S, headers=it.headers) as http:
            async with served(it, tmp_path) as url:
                await http.post(f"{url}/api/v1/jobs", json={"command": ["true"]})
                waiting = asyncio.ensure_future(
                    http.get(f"{url}/api/v1/jobs/1/wait", params={"timeout_s": 60})
                )
                await until(lambda: it.backend.watching == 1)
            assert (await waiting).json()["status"] == Status.QUEUED

    asyncio.run(run())
