"""The one place from which verbs reach the live service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient


def service_now(service: PlainClient, latest_at: float | None) -> tuple[float, list[str]]:
    """The present by the service's clock, and what a user has to know about it.

    latest_at: the latest instant in an answer that must have passed; only one that has not makes the service be asked.
    """
    from betimes.cli.render.times import now

    if latest_at is None or latest_at <= now() + 1.0:
        return now(), []
    health = service.health()
    return now() + health.clock_ahead_s, health.notes if health.clock_ahead_s else []


def connect(state: str | None = None, *, waits: bool = False) -> PlainClient:
    """A client of the service that is meant, to be used in a `with`; raises NotReachable, which says `betimes up`.

    waits: once it has answered, a service that is away or not ready is waited for, and a note says so.
    """
    from betimes.client.plain import PlainClient

    return PlainClient(state, waits=_say_waiting if waits else None, note=_note)


def _say_waiting(why: str) -> None:
    _note(f"{why.partition('; ')[0]}; waiting until it is there again")


def _note(text: str) -> None:
    print("betimes: note:", text, file=sys.stderr, flush=True)
