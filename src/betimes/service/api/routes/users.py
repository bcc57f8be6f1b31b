"""Users of the service: role, share and limits of each, and their tokens."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from betimes.errors import Conflict, Unknown
from betimes.service.api import examples
from betimes.service.api.bodies import Sent
from betimes.service.api.context import Here, Operator, Viewer
from betimes.service.api.document import PREFIX, UserName, failing
from betimes.service.api.models import TokenList, TokenQuery, UserList
from betimes.service.spec.users import TokenSpec, User, UserChanges
from betimes.service.views.models import Me, NewToken, TokenView, UserView

router = APIRouter(prefix=PREFIX, tags=["users"])


@router.get(
    "/users",
    summary="List users",
    operation_id="list_users",
    responses={200: examples.shown(examples.USER_LIST, "By name."), **failing(401, 403, 503)},
)
async def list_users(here: Here, caller: Viewer) -> UserList:
    """Every user that was added, for operators; each other user sees the own role, share and limits."""
    is_free = here.rights.may(caller, "operate")
    found = await here.backend.users()
    return UserList(users=[user for user in found if is_free or user.name == caller.user])


@router.get(
    "/me",
    summary="Who you are",
    operation_id="me",
    responses={200: examples.shown(examples.ME, "Your name and role."), **failing(401, 403)},
)
async def me(caller: Viewer) -> Me:
    """The user whose the token is, or the one at the other end of the Unix socket."""
    return Me(user=caller.user, role=caller.role)


@router.post(
    "/users",
    summary="Add a user",
    operation_id="add_user",
    status_code=201,
    responses={
        201: examples.shown(examples.USER, "The new user."),
        **failing(400, 401, 403, 409, 413, 415, 422, 503),
    },
)
async def add_user(here: Here, caller: Operator, user: Annotated[User, Depends(Sent(User))]) -> UserView:
    """Add one, who can do nothing yet without a token."""
    return await here.backend.add_user(user, caller.user)


@router.patch(
    "/users/{name}",
    summary="Change a user",
    operation_id="change_user",
    responses={
        200: examples.shown(examples.USER, "The user as it is now."),
        **failing(400, 401, 403, 404, 413, 415, 422, 503),
    },
)
async def change_user(
    name: UserName, here: Here, caller: Operator, changes: Annotated[UserChanges, Depends(Sent(UserChanges))]
) -> UserView:
    """Change role, weight or limits, or disable the user: then no token of this user is accepted."""
    return await here.backend.change_user(name, changes, caller.user)


@router.get(
    "/tokens",
    summary="List tokens",
    operation_id="list_tokens",
    responses={200: examples.shown(examples.TOKEN_LIST, "As they were made."), **failing(401, 403, 422, 503)},
)
async def list_tokens(here: Here, _: Operator, asked: Annotated[TokenQuery, Query()]) -> TokenList:
    """The tokens of users, good or not, or of one user; the text of none of them is known here."""
    await here.tokens.note_uses()
    return TokenList(tokens=await here.backend.tokens(asked.user))


@router.post(
    "/tokens",
    summary="Make a token",
    operation_id="make_token",
    status_code=201,
    responses={
        201: examples.shown(examples.NEW_TOKEN, "Its text, which is shown this once."),
        **failing(400, 401, 403, 404, 409, 413, 415, 422, 503),
    },
)
async def make_token(
    here: Here, caller: Operator, spec: Annotated[TokenSpec, Depends(Sent(TokenSpec))]
) -> NewToken:
    """Make a token for a user: with it, whoever has it is that user."""
    if any(kept.name == spec.name for kept in await _good(here, spec.user)):
        raise Conflict(f"{spec.user} has a token {spec.name!r}; revoke it first, or choose another name")
    await here.backend.note_token("token-made", spec, caller.user)
    text = await asyncio.to_thread(here.tokens.issue, spec.user, spec.name, spec.expires_s)
    kept = [kept for kept in await _good(here, spec.user) if kept.name == spec.name]
    return NewToken(token=text, kept=kept[-1], note=await here.backend.why_no_jobs(spec.user))


@router.delete(
    "/tokens/{user}/{name}",
    summary="Revoke a token",
    operation_id="revoke_token",
    responses={
        200: examples.shown(examples.TOKEN_LIST, "The user's tokens."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def revoke_token(user: UserName, name: UserName, here: Here, caller: Operator) -> TokenList:
    """Accept it no more, from now on."""
    if not any(kept.name == name for kept in await _good(here, user)):
        raise Unknown(f"{user} has no token {name!r} that is good; `betimes users tokens` lists them")
    await here.backend.note_token("token-revoked", TokenSpec(user=user, name=name), caller.user)
    await here.tokens.revoke(user, name)
    return TokenList(tokens=await here.backend.tokens(user))


async def _good(here: Here, user: str) -> list[TokenView]:
    """The user's tokens that are neither revoked nor expired."""
    now_at = here.tokens.now()
    return [
        kept
        for kept in await here.backend.tokens(user)
        if kept.revoked_at is None and (kept.expires_at is None or now_at < kept.expires_at)
    ]
