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
        help="The state directory of the service that is meant. By default that of BETIMES_URL, then BETIMES_STATE, "
        "then your own.",
        show_default=False,
    ),
]


def service_now(service: Client, latest_at: float | None) -> tuple[float, list[str]]:
    """The present by the service's clock, and what a user has to know about it.

    latest_at: the latest instant in an answer that must have passed; only one that has not makes the service be asked.
    """
    from betimes.cli.render.times import now

    if latest_at is None or latest_at <= now() + 1.0:
        return now(), []
    health = service.health()
    return now() + health.clock_ahead_s, health.notes if health.clock_ahead_s else []


def connect(state: str | None = None) -> Client:
    """A client of the service that is meant, to be used in a `with`; raises NotReachable, which says `betimes up`."""
    from betimes.client import Client

    return Client(state=state)
