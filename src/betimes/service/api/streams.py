"""The event log as server-sent events: pulled one by one, so that a slow reader holds up only itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from fastapi.sse import format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from betimes.errors import BetimesError
from betimes.service.access.auth import Caller
from betimes.service.api.context import Context
from betimes.service.views.models import EventView, JobView

RETRY_MS = 1000  # how long a browser waits before it connects again
_log = logging.getLogger("betimes.api")


class Stream(StreamingResponse):
    """A streamed response that closes its source when it ends, however it ends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            source = self.body_iterator
            if isinstance(source, AsyncGenerator):
                await source.aclose()


async def while_held(
    here: Context, caller: Caller, pieces: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """The pieces of an answer as long as the caller is let in, with the same role."""
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            if not here.still_holds(caller):
                return
            yield piece


class EventStream(Stream):
    """Server-sent events. FastAPI's class is for generators, with a fixed pause between keep-alives, and no ids in
    them.
    """

    media_type = "text/event-stream"

    def __init__(self, content: AsyncGenerator[bytes, None], status_code: int = 200) -> None:
        # Proxies (nginx by the second header) would keep events back.
        super().__init__(
            content, status_code, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        )


async def sse(
    events: AsyncIterator[EventView],
    after: int,
    wanted: Callable[[EventView], bool],
    closing: asyncio.Event,
    keep_alive_s: float,
) -> AsyncGenerator[bytes, None]:
    """The wire form of events past `after`; ends when `closing` is set, or with the events.

    When no event passes the filter, a keep-alive comment carries the last event id, so that a client that reconnects
    resumes there.
    """
    reached, sent = after, after
    yield format_sse_event(comment="events", retry=RETRY_MS)
    async with contextlib.aclosing(until(events, closing, keep_alive_s)) as pulled:
        async for event in pulled:
            if event is None:
                yield format_sse_event(comment="alive", id=str(reached) if reached > sent else None)
                sent = reached
                continue
            reached = event.event_id
            if wanted(event):
                sent = reached
                yield format_sse_event(data_str=event.model_dump_json(), id=str(reached))


async def until(
    events: AsyncIterator[EventView], closing: asyncio.Event, keep_alive_s: float
) -> AsyncGenerator[EventView | None, None]:
    """The events, and None every `keep_alive_s` seconds; ends when `closing` is set."""
    loop = asyncio.get_running_loop()
    closed = asyncio.ensure_future(closing.wait())
    pull: asyncio.Future[EventView] | None = None
    due = loop.time() + keep_alive_s
    try:
        while not closed.done():
            if pull is None:
                pull = asyncio.ensure_future(_next(events))
            # The pull outlives the time-out: cancelling it would end the source.
            await asyncio.wait(
                (pull, closed), timeout=max(0.0, due - loop.time()), return_when="FIRST_COMPLETED"
            )
            if closed.done():
                return
            if pull.done():
                done, pull = pull, None
                try:
                    event = done.result()
                except StopAsyncIteration:
                    return
                except BetimesError as error:
                    # The answer has begun: it can only be ended, upon which readers reconnect.
                    _log.warning("a stream of events ends: %s", error)
                    return
                yield event
            if loop.time() >= due:
                due = loop.time() + keep_alive_s
                yield None
    finally:
        closed.cancel()
        if pull is not None:
            pull.cancel()
            await asyncio.wait((pull,))
            if not pull.cancelled():
                pull.exception()  # it is known, and the client has gone
        close: Any = getattr(events, "aclose", None)
        if close is not None:
            await close()


async def _next(events: AsyncIterator[EventView]) -> EventView:
    # anext gives something to await; a task wants a coroutine.
    return await anext(events)


async def wait_until_over(here: Context, job_id: int, timeout_s: float) -> JobView:
    """The job when it is over, when the time is up, or when the service stops. Raises Unknown."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    story = await here.backend.job(job_id)
    if story.job.status.is_over or not timeout_s:
        return story.job
    # The job's end is logged after the last event in its story.
    known = story.events[-1].event_id if story.events else 0
    events = until(here.backend.watch(known), here.closing, timeout_s)
    async with contextlib.aclosing(events):
        async for event in events:
            if event is not None and event.job_id == job_id:
                job = (await here.backend.job(job_id)).job
                if job.status.is_over:
                    return job
            if loop.time() >= deadline:
                break
    return (await here.backend.job(job_id)).job
