"""Who shares the service: role, share and limits of each."""

from __future__ import annotations

from fastapi import APIRouter, Request

from betimes.service.api import examples
from betimes.service.api.bodies import read_model
from betimes.service.api.context import Here
from betimes.service.api.context import User as Caller
from betimes.service.api.document import PREFIX, UserName, body, failing
from betimes.service.api.models import UserList
from betimes.service.spec.users import User, UserChanges

router = APIRouter(prefix=f"{PREFIX}/users", tags=["users"])


@router.get(
    "",
    summary="List users",
    operation_id="list_users",
    responses={200: examples.shown(examples.USER_LIST, "By name."), **failing(401, 403, 503)},
)
async def list_users(here: Here, _: Caller) -> UserList:
    """Every user that was added."""
    return UserList(users=await here.backend.users())


@router.post(
    "",
    summary="Add a user",
    operation_id="add_user",
    status_code=201,
    responses={
        201: examples.shown(examples.USER, "The new user."),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
    openapi_extra=body(User, examples={"ada": {"name": "ada", "weight": 2.0}}),
)
async def add_user(request: Request, here: Here, caller: Caller) -> User:
    """Add one, who can do nothing yet without a token."""
    user = await read_model(request, User, here.limits)
    return await here.backend.add_user(user, caller.user)


@router.patch(
    "/{name}",
    summary="Change a user",
    operation_id="change_user",
    responses={
        200: examples.shown(examples.USER, "The user as it is now."),
        **failing(400, 401, 403, 404, 413, 415, 422, 503),
    },
    openapi_extra=body(
        UserChanges, examples={"limit": {"limits": {"max_units": 64}}, "away": {"disabled": True}}
    ),
)
async def change_user(name: UserName, request: Request, here: Here, caller: Caller) -> User:
    """Change role, weight or limits, or disable the user: then no token of this user is accepted."""
    changes = await read_model(request, UserChanges, here.limits)
    return await here.backend.change_user(name, changes, caller.user)
