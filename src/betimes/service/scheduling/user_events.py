"""The kinds of events about users, their tokens and their shares."""

from __future__ import annotations

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.kind import Data, Kind
from betimes.service.scheduling.ledger import Ledger
from betimes.service.spec.users import User
from betimes.units import length


def _user_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    user = User(name=event.data["user"], **{name: event.data[name] for name in event.data if name != "user"})
    ledger.users[user.name] = user
    ledger.shares.changes += 1
    ledger.shares.open([user.name], ledger.jobs.values(), event.at_s - ledger.epoch_at)


def _fair_share_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    now_s = event.at_s - ledger.epoch_at
    ledger.shares.set_half_life(event.data["half_life_s"], now_s)
    ledger.shares.changes += 1
    if ledger.shares.half_life_s is not None:
        ledger.shares.open(ledger.users, ledger.jobs.values(), now_s)


def _user_words(data: Data) -> str:
    limits = "".join(f", {name}={value:g}" for name, value in data["limits"].items())
    off = ", disabled" if data["disabled"] else ""
    return f"{data['user']}: {data['role']}, weight {data['weight']:g}{limits}{off}"


def _fair_share_words(data: Data) -> str:
    half_life_s = data["half_life_s"]
    if half_life_s is None:
        return "users share no more"
    return f"use that is {length(half_life_s)} old counts half"


KINDS: dict[str, Kind[Ledger]] = {
    "user-set": Kind(
        "a user was added or changed: role, weight, limits, and whether disabled, as they are now",
        _user_set,
        _user_words,
        data={"user": str, "role": str, "weight": float, "limits": dict[str, float | None], "disabled": bool},
    ),
    "token-made": Kind(
        "a token of a user was made; nobody has its text but who was handed it",
        data={"user": str, "name": str, "expires_s": float | None},
    ),
    "token-revoked": Kind(
        "a token of a user is not accepted any more",
        data={"user": str, "name": str},
        more={"expires_s": float | None},
    ),
    "fair-share-set": Kind(
        "users share by weight and recent use from now on, or no more; the half-life of their past use",
        _fair_share_set,
        _fair_share_words,
        data={"half_life_s": float | None},
    ),
}
