"""The Pareto front of weighted fair queueing on the service's own recent workload."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from betimes.service.api import examples
from betimes.service.api.bodies import Sent
from betimes.service.api.context import Here, Operator, Viewer
from betimes.service.api.document import PREFIX, failing
from betimes.service.tuning.view import TuningView
from betimes.service.views.models import TuneSpec

router = APIRouter(prefix=f"{PREFIX}/tune", tags=["cluster"])


@router.post(
    "",
    summary="Search for a front",
    operation_id="tune",
    status_code=202,
    responses={
        202: examples.shown(examples.SEARCHING, "The search has begun."),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
)
async def tune(here: Here, user: Operator, spec: Annotated[TuneSpec, Depends(Sent(TuneSpec))]) -> TuningView:
    """In a separate process; it replaces a search that is going on."""
    return await here.backend.tune(spec, user.user)


@router.get(
    "",
    summary="The search, and the latest front",
    operation_id="get_tuning",
    responses={200: examples.shown(examples.TUNING, "How far it is."), **failing(401, 403, 503)},
)
async def get_tuning(here: Here, _: Viewer) -> TuningView:
    """Points are put in force by `front:NUMBER` as the policy."""
    return await here.backend.tuning()


@router.delete(
    "",
    summary="End the search with the front so far",
    operation_id="stop_tuning",
    status_code=202,
    responses={
        202: examples.shown(examples.SEARCHING, "It is going to end."),
        **failing(401, 403, 409, 503),
    },
)
async def stop_tuning(here: Here, user: Operator) -> TuningView:
    """It takes a moment: the front so far is still to be judged."""
    return await here.backend.stop_tuning(user.user)
