"""For whatever watches over the service."""

from __future__ import annotations

from fastapi import APIRouter, Response

from betimes.service.api import examples
from betimes.service.api.context import Here
from betimes.service.api.document import failing
from betimes.service.api.models import Alive, ErrorBody
from betimes.service.api.routes.jobs import json
from betimes.service.views.models import Health

router = APIRouter(tags=["health"])


@router.get(
    "/healthz",
    summary="Whether the process answers",
    operation_id="healthz",
    response_model=Alive,
    responses={200: examples.shown(Alive(), "It does."), **failing(403)},
)
async def healthz() -> Response:
    """Answers as long as the event loop turns; no token is needed."""
    return json(Alive().model_dump_json())


@router.get(
    "/readyz",
    summary="Whether work can be taken",
    operation_id="readyz",
    response_model=Health,
    responses={
        200: examples.shown(examples.HEALTH, "It can."),
        **failing(403),
        503: {"model": Health | ErrorBody, "description": "Not now: `problems` says why."},
    },
)
async def readyz(here: Here) -> Response:
    """Whether the service is up, recovered and able to write; no token is needed."""
    health = await here.backend.health()
    return json(health.model_dump_json(), 200 if health.ready else 503)
