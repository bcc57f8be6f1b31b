"""A client of either kind, used in one way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from betimes import AsyncClient, Client, JobSpec
from betimes.client import models
from betimes.client.sse import EventReader
from betimes.service.views.models import EventView

TRUE = JobSpec(command=["true"])


class Both:
    """A client of either kind, used in the same way."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.kind, self.options = kind, options

    def __call__(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of a new client: what it returns, or all that it iterates over."""
        if self.kind == "blocking":
            with Client(**self.options) as client:
                found = getattr(client, method)(*arguments, **options)
                return list(found) if isinstance(found, Iterator) else found

        async def run() -> Any:
            async with AsyncClient(**self.options) as client:
                found = getattr(client, method)(*arguments, **options)
                return [each async for each in found] if isinstance(found, AsyncIterator) else await found

        return asyncio.run(run())


def events_in(reader: EventReader, piece: bytes) -> list[EventView]:
    """The events that are complete with this piece of a stream."""
    return [models.decode("EventView", "", data, "the stream") for data in reader.feed(piece)]
