"""The one place from which verbs reach the live service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from betimes.client import Client

State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Which service to use, by its state directory (default: $BETIMES_URL, then $BETIMES_STATE, then "
        "~/.local/state/betimes).",
        show_default=False,
    ),
]


def connect(state: str | None = None) -> Client:
    """A client of the service that is meant, to be used in a `with`; raises NotReachable, which says `betimes up`."""
    from betimes.client import Client

    return Client(state=state)
