"""Nodes, and the policy in force."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from betimes.service.api import examples
from betimes.service.api.bodies import Sent
from betimes.service.api.context import Here, Operator, Viewer
from betimes.service.api.document import PREFIX, NodeName, failing
from betimes.service.api.models import NodeList, PolicyChoice
from betimes.service.views.maintenance import MAINTENANCE
from betimes.service.views.models import (
    FleetPlanView,
    FleetView,
    GiveBackSpec,
    Lease,
    MaintenanceSpec,
    MaintenanceView,
    NodeSpec,
    NodeView,
    PolicyView,
    PortfolioView,
)

router = APIRouter(prefix=PREFIX, tags=["cluster"])

Last = Annotated[int, Query(ge=1, le=1000, description="So many selections, the newest.")]
DrainReason = Annotated[str, Query(max_length=200, description="shown with the node")]
MaintenanceNumber = Annotated[
    int, Path(ge=1, le=2**31 - 1, description="as `betimes maintenance list` has it")
]


@router.get(
    "/nodes",
    summary="List nodes",
    operation_id="list_nodes",
    responses={200: examples.shown(examples.NODE_LIST, "Every node."), **failing(401, 403, 503)},
)
async def list_nodes(here: Here, caller: Viewer) -> NodeList:
    """Every node, with what is free on it."""
    return NodeList(nodes=await here.seen_by(caller).nodes())


@router.post(
    "/nodes",
    summary="Add nodes",
    operation_id="add_nodes",
    status_code=201,
    responses={
        201: examples.shown(examples.NODE_LIST, "The new nodes."),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
)
async def add_nodes(
    here: Here, user: Operator, spec: Annotated[NodeSpec, Depends(Sent(NodeSpec))]
) -> NodeList:
    """Add nodes of one type."""
    return NodeList(nodes=await here.backend.add_nodes(spec, user.user))


@router.post(
    "/nodes/{name:path}/drain",
    summary="Drain a node",
    operation_id="drain_node",
    responses={
        200: examples.shown(examples.NODE, "The node as it is now."),
        **failing(401, 403, 404, 409, 422, 503),
    },
)
async def drain_node(name: NodeName, here: Here, user: Operator, reason: DrainReason = "") -> NodeView:
    """Start nothing more on a node; what runs there goes on."""
    return await here.backend.drain(name, user.user, reason)


@router.post(
    "/nodes/{name:path}/undrain",
    summary="Use a node again",
    operation_id="undrain_node",
    responses={
        200: examples.shown(examples.NODE, "The node as it is now."),
        **failing(401, 403, 404, 409, 422, 503),
    },
)
async def undrain_node(name: NodeName, here: Here, user: Operator) -> NodeView:
    """Take back a drain."""
    return await here.backend.undrain(name, user.user)


@router.post(
    "/nodes/{name:path}/heartbeat",
    summary="Say that a node lives",
    operation_id="node_heartbeat",
    responses={
        200: examples.shown(examples.LEASE, "When the next is due at the latest."),
        **failing(401, 403, 404, 409, 422, 503),
    },
)
async def heartbeat(name: NodeName, here: Here, _: Operator) -> Lease:
    """The next must come before the lease ends, or else the node is lost and its jobs are requeued."""
    return await here.backend.heartbeat(name)


@router.post(
    "/maintenance",
    summary="Announce maintenance",
    operation_id="add_maintenance",
    status_code=201,
    responses={
        201: examples.shown(MAINTENANCE.example, "The window, and the jobs that may run into it."),
        **failing(400, 401, 403, 404, 413, 415, 422, 503),
    },
)
async def add_maintenance(
    here: Here, user: Operator, spec: Annotated[MaintenanceSpec, Depends(Sent(MaintenanceSpec))]
) -> MaintenanceView:
    """From now on only jobs start there that are over by then; what runs goes on."""
    return await here.backend.add_maintenance(spec, user.user)


@router.delete(
    "/maintenance/{number}",
    summary="Call maintenance off",
    operation_id="remove_maintenance",
    responses={
        200: examples.shown(MAINTENANCE.example, "What it was."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def remove_maintenance(number: MaintenanceNumber, here: Here, user: Operator) -> MaintenanceView:
    """Or end it early: jobs start there again."""
    return await here.backend.remove_maintenance(number, user.user)


@router.get(
    "/policy",
    summary="The policy in force",
    operation_id="get_policy",
    responses={200: examples.shown(examples.POLICY, "The policy."), **failing(401, 403, 503)},
)
async def get_policy(here: Here, caller: Viewer) -> PolicyView:
    """By what the service decides."""
    return await here.seen_by(caller).policy()


@router.get(
    "/fleet",
    summary="What is rented",
    operation_id="get_fleet",
    responses={200: examples.shown(examples.FLEET, "The rented machines."), **failing(401, 403, 503)},
)
async def get_fleet(here: Here, _: Viewer) -> FleetView:
    """Rented machines, what they cost an hour, and what a machine for each task would cost."""
    return await here.backend.fleet()


@router.post(
    "/fleet/release",
    summary="Give back what is rented",
    operation_id="give_back",
    responses={
        200: examples.shown(examples.FLEET, "What is rented then."),
        **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
    },
)
async def give_back(
    here: Here, user: Operator, spec: Annotated[GiveBackSpec, Depends(Sent(GiveBackSpec))]
) -> FleetView:
    """Give back a rented machine or all of them, now or once nothing runs there."""
    return await here.backend.give_back(spec, user.user)


@router.get(
    "/fleet/plan",
    summary="What the policy would change now",
    operation_id="get_fleet_plan",
    responses={
        200: examples.shown(examples.FLEET_PLAN, "The plan, step by step."),
        **failing(401, 403, 409, 503),
    },
)
async def get_fleet_plan(here: Here, _: Viewer) -> FleetPlanView:
    """Its next steps: rent, give back and move, with reasons; nothing is changed by asking."""
    return await here.backend.fleet_plan()


@router.get(
    "/portfolio",
    summary="What the portfolio has chosen",
    operation_id="get_portfolio",
    responses={
        200: examples.shown(examples.PORTFOLIO, "The newest selections."),
        **failing(401, 403, 422, 503),
    },
)
async def get_portfolio(here: Here, _: Viewer, last: Last = 20) -> PortfolioView:
    """With the scores of the members that were simulated, and what has come of the jobs that waited then."""
    return await here.backend.portfolio(last)


@router.put(
    "/policy",
    summary="Decide by another policy",
    operation_id="set_policy",
    responses={
        200: examples.shown(examples.POLICY, "The new policy."),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
)
async def set_policy(
    here: Here, user: Operator, choice: Annotated[PolicyChoice, Depends(Sent(PolicyChoice))]
) -> PolicyView:
    """Change the policy while jobs run; estimates are made anew."""
    return await here.backend.set_policy(choice.policy, user.user)
