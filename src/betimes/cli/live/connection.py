"""The one place from which verbs reach the live service; and `betimes open`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from betimes.cli.verbs import Json, Option, State
from betimes.printing import report

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient


def service_now(service: PlainClient, latest_at: float | None) -> tuple[float, list[str]]:
    """The present by the service's clock, and the service's notes about its clock.

    latest_at: the latest past instant in an answer; the service is asked only if this clock has it in the future.
    """
    from betimes.cli.render.times import now

    if latest_at is None or latest_at <= now() + 1.0:
        return now(), []
    health = service.health()
    return now() + health.clock_ahead_s, health.notes if health.clock_ahead_s else []


def connect(state: str | None = None, *, waits: bool = False) -> PlainClient:
    """A client of the service, to be used in a `with`; raises NotReachable, whose text names `betimes up`.

    waits: once the service has answered, wait while it is away or not ready, and print a note.
    """
    from betimes.client.plain import PlainClient

    return PlainClient(state, waits=_say_waiting if waits else None, note=_note)


def _say_waiting(why: str) -> None:
    _note(f"{why.partition('; ')[0]}; waiting until it is there again")


def _note(text: str) -> None:
    report("betimes: note", text)


NoBrowser = Annotated[
    bool, Option("--no-browser", help="Print the link, to be opened within a minute, and open nothing.")
]


def open_page(no_browser: NoBrowser = False, state: State = None, as_json: Json = False) -> None:
    """Open the service's pages in a browser, signed in.

    The link signs in once, within a minute. With --json an object with the `url`, and no browser is opened.
    """
    import json
    import webbrowser

    from betimes.errors import InputError
    from betimes.service.access.address import find_service, socket_of

    with connect(state) as service:
        found = find_service(state=state)
        if socket_of(found.url) is not None:
            raise InputError(
                "a browser cannot use a Unix socket: ask an operator for the address of the pages, and for a token"
            )
        url = found.url + service.page_link().path
    if as_json:
        print(json.dumps({"url": url}))
    elif no_browser or not webbrowser.open(url):
        print(url)
