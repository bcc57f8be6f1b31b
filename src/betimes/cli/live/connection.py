"""The one place from which verbs reach the live service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient


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
