"""What a URL asks for behind its question mark: each parameter once, but for those that are lists."""

from __future__ import annotations

from typing import get_origin

from fastapi import Request

from betimes.service.api.failures import refusal
from betimes.service.api.models import EventQuery, Fault, JobQuery, LogQuery, WaitQuery

_LISTS = frozenset(
    name
    for query in (EventQuery, JobQuery, LogQuery, WaitQuery)
    for name, field in query.model_fields.items()
    if get_origin(field.annotation) is list
)


async def each_once(request: Request) -> None:
    """Raises Rejected for a parameter that is given several times: which of them is meant cannot be known."""
    given = request.query_params
    faults = [
        Fault(
            field=name,
            message=f"expected it once, found it {len(given.getlist(name))} times; leave the others out",
        )
        for name in given
        if name not in _LISTS and len(given.getlist(name)) > 1
    ]
    if faults:
        raise refusal(faults)
