"""Which policies would have been better for the service's own last jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from betimes.service.api import examples
from betimes.service.api.bodies import Sent
from betimes.service.api.context import Here, Operator, Viewer
from betimes.service.api.document import PREFIX, failing
from betimes.service.tuning.view import AdviceView
from betimes.service.views.models import AdviceSpec

router = APIRouter(prefix=f"{PREFIX}/advice", tags=["cluster"])


@router.post(
    "",
    summary="Ask which policies are worth having",
    operation_id="advise",
    status_code=202,
    responses={
        202: examples.shown(examples.ADVISING, "It is being worked out."),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
)
async def advise(
    here: Here, _: Operator, spec: Annotated[AdviceSpec, Depends(Sent(AdviceSpec))]
) -> AdviceView:
    """In a separate process, and nothing is changed; what is being worked out already goes on."""
    return await here.backend.advise(spec)


@router.get(
    "",
    summary="The latest advice",
    operation_id="get_advice",
    responses={200: examples.shown(examples.ADVICE, "How far it is."), **failing(401, 403, 503)},
)
async def get_advice(here: Here, caller: Viewer) -> AdviceView:
    """The figures of each policy beside the one in force, and the few worth having."""
    return await here.seen_by(caller).advice()
