"""The event log: in pages, and as a stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from betimes.service.access.auth import Caller
from betimes.service.api import examples
from betimes.service.api.context import Context, Here, Viewer
from betimes.service.api.document import PREFIX, failing
from betimes.service.api.models import EventQuery
from betimes.service.api.others import Events
from betimes.service.api.streams import EventStream, sse, while_held
from betimes.service.views.models import EventView, Page

router = APIRouter(prefix=PREFIX, tags=["events"])

_WIRE = f"id: 107\ndata: {examples.EVENT.model_dump_json()}\n\n"
_STREAM = {
    "text/event-stream": {
        "itemSchema": {  # as FastAPI describes its streams
            "type": "object",
            "properties": {
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": {"$ref": "#/components/schemas/EventView"},
                },
                "id": {"type": "string", "description": "the event's number, for Last-Event-ID"},
                "retry": {"type": "integer", "minimum": 0},
            },
            "required": ["data"],
        },
        "example": _WIRE,
    }
}
_LastId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        description="The last event that the reader has; it goes before `after`.",
        pattern="^[0-9]{0,18}$",
    ),
]


@router.get(
    "/events",
    summary="Events",
    operation_id="list_events",
    response_model=Page[EventView],
    responses={
        200: {
            "description": "Oldest first; `following` is the next page's `after`. A stream for text/event-stream.",
            "content": {"application/json": {"example": examples.EVENTS.model_dump(mode="json")}, **_STREAM},
        },
        **failing(401, 403, 410, 422, 503),
    },
)
async def list_events(
    request: Request, here: Here, caller: Viewer, asked: Annotated[EventQuery, Query()], last: _LastId = ""
) -> Page[EventView] | Response:
    """A page of the event log; with `Accept: text/event-stream`, the stream of `/events/stream`."""
    after = _after(asked, last)
    if _wants_stream(request.headers.get("accept", "")):
        return await _stream(here, caller, asked, after)
    page = await here.backend.events(after, asked.limit, asked.job, tuple(asked.kind), asked.by)
    return page.model_copy(update={"items": await Events(here, caller).page(page.items)})


@router.get(
    "/events/stream",
    summary="Events as they happen",
    operation_id="stream_events",
    response_class=EventStream,
    responses={
        200: {"description": "Server-sent events that go on until the service stops.", "content": _STREAM},
        **failing(401, 403, 410, 422, 503),
    },
)
async def stream_events(
    here: Here, caller: Viewer, asked: Annotated[EventQuery, Query()], last: _LastId = ""
) -> EventStream:
    """Every event past `after`, or past `Last-Event-ID`: first what is logged, then as it happens; none is left out."""
    return await _stream(here, caller, asked, _after(asked, last))


async def _stream(here: Context, caller: Caller, asked: EventQuery, after: int) -> EventStream:
    kinds = frozenset(asked.kind)
    # What cannot be read (events that were archived) is reported now: a stream that has begun can only end.
    await here.backend.events(after, 1, None, ())

    shown = Events(here, caller)

    def wanted(event: EventView) -> bool:
        return (
            not shown.leaves_out(event)
            and (asked.job is None or event.job_id == asked.job)
            and (not kinds or event.kind in kinds)
            and (asked.by is None or event.cause == f"user:{asked.by}")
        )

    pieces = sse(
        shown.stream(here.backend.watch(after)), after, wanted, here.closing, here.limits.keep_alive_s
    )
    return EventStream(while_held(here, caller, pieces))


def _after(asked: EventQuery, last: str) -> int:
    """The event that the reader has."""
    return int(last) if last else asked.after


def _wants_stream(accept: str) -> bool:
    ranges = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return "text/event-stream" in ranges and "application/json" not in ranges
