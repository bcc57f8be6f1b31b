"""`betimes open`: the service's pages in a browser, signed in by a link that is good once."""

from __future__ import annotations

from typing import Annotated

from betimes.cli.verbs import Json, Option, State

NoBrowser = Annotated[
    bool, Option("--no-browser", help="Print the link, to be opened within a minute, and open nothing.")
]


def open_page(no_browser: NoBrowser = False, state: State = None, as_json: Json = False) -> None:
    """Open the service's pages in a browser, signed in.

    The link signs in once, within a minute. With --json an object with the `url`, and no browser is opened.
    """
    import json
    import webbrowser

    from betimes.cli.live.connection import connect
    from betimes.service.access.address import find_service

    with connect(state) as service:
        url = find_service(state=state).url + service.page_link().path
    if as_json:
        print(json.dumps({"url": url}))
    elif no_browser or not webbrowser.open(url):
        print(url)
