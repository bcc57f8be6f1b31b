"""The routes of the lists that are declared once (`views/lists.py`)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import create_model

from betimes.service.api import examples
from betimes.service.api.context import Here, Viewer
from betimes.service.api.document import PREFIX, failing
from betimes.service.views.listing import Listing
from betimes.service.views.lists import LISTS
from betimes.service.views.models import View

router = APIRouter(prefix=PREFIX)


def _add(listing: Listing[Any]) -> None:
    name, row = listing.name, listing.row
    title = f"{row.__name__.removesuffix('View')}List"
    fields: dict[str, Any] = {name: (list[row], ...)}
    answer = create_model(title, __base__=View, __doc__=listing.answer, **fields)

    @router.get(
        f"/{name}",
        summary=f"List {name}",
        description=listing.about,
        operation_id=f"list_{name}",
        tags=[listing.tag],
        response_model=answer,
        responses={
            200: examples.shown(answer(**{name: [listing.example]}), listing.answer),
            **failing(401, 403, 503),
        },
    )
    async def _(here: Here, caller: Viewer) -> View:
        found, is_of = await here.backend.listed(listing), listing.is_of
        if is_of is not None and not here.rights.may(caller, "operate"):
            found = [each for each in found if is_of(each, caller.user)]
        return answer(**{name: found})


for _each in LISTS:
    _add(_each)
