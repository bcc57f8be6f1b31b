"""For whatever watches over the service."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from betimes.errors import Unknown
from betimes.service.access.host_names import is_loopback
from betimes.service.api import examples
from betimes.service.api.context import Here, see
from betimes.service.api.document import failing
from betimes.service.api.models import Alive, ErrorBody
from betimes.service.views.models import Health

router = APIRouter(tags=["health"])


@router.head("/healthz", include_in_schema=False)
@router.get(
    "/healthz",
    summary="Whether the process answers",
    operation_id="healthz",
    responses={200: examples.shown(Alive(), "It does."), **failing(403)},
)
async def healthz() -> Alive:
    """Answers as long as the event loop turns; no token is needed."""
    return Alive()


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Whether work can be taken",
    operation_id="readyz",
    responses={
        200: examples.shown(examples.HEALTH, "It can."),
        **failing(403),
        503: {"model": Health | ErrorBody, "description": "Not now: `problems` has the reasons."},
    },
)
async def readyz(here: Here, response: Response) -> Health:
    """Whether the service is up, recovered and able to write; no token is needed."""
    health = await here.backend.health()
    if not health.ready:
        response.status_code = 503
    return health


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", include_in_schema=False)
async def metrics(here: Here, request: Request) -> Response:
    """The metrics, in Prometheus's text format. Raises as `see` does; Unknown where there are none."""
    if not (here.local_metrics and request.client is not None and is_loopback(request.client.host)):
        await see(request)
    if here.metrics is None:
        raise Unknown("this service counts nothing: it was started with metrics = off")
    return Response(await here.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")
