"""The way to a service: where it is now, and how long to go on trying when it is lost."""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TypedDict

import httpx

from betimes.client.calls import Call
from betimes.errors import NotReachable
from betimes.service.access.address import Found, check_url, find_service
from betimes.service.access.host_names import is_loopback

CONNECT_S = 10.0
PIECE_BYTES = 1 << 18  # of a file that is sent
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass
class Way:
    """Where requests go. A service that restarts may listen elsewhere: its address is looked up anew every time."""

    locate: Callable[[], Found]
    patience_s: float = 10.0  # after a connection is lost
    reached: bool = False  # whether it ever answered

    def request(self, client: httpx.Client | httpx.AsyncClient, call: Call[object]) -> httpx.Request:
        """The request of a call, as of now. Raises NotReachable."""
        found = self.locate()
        headers = dict(call.headers)
        if found.token:
            headers["Authorization"] = f"Bearer {found.token}"
        content: bytes | Iterator[bytes] | AsyncIterator[bytes] | None
        if call.body is None or isinstance(call.body, bytes):
            content = call.body
            if content is not None:
                headers["Content-Type"] = "application/json"
        else:
            headers |= {
                "Content-Type": "application/zip",
                "Content-Length": str(call.body.seek(0, os.SEEK_END)),
            }
            pieces = _pieces(call.body)
            content = pieces if isinstance(client, httpx.Client) else _asynchronous(pieces)
        timeout = httpx.Timeout(CONNECT_S, read=call.read_s)
        params = httpx.QueryParams(tuple(call.params))
        return client.build_request(
            call.method,
            found.url + call.path,
            params=params,
            content=content,
            headers=headers,
            timeout=timeout,
        )

    def pauses(self) -> Iterator[float]:
        """How long to wait, s, before every new attempt; it ends when patience does."""
        deadline = time.monotonic() + (self.patience_s if self.reached else 0.0)
        pause = 0.1
        while time.monotonic() < deadline:
            yield pause * random.uniform(0.5, 1.0)
            pause = min(2 * pause, 1.0)

    def lost(self, error: Exception, unsure: bool = False) -> NotReachable:
        """What to raise when trying is over."""
        if isinstance(error, NotReachable):
            return error
        try:
            where = self.locate().url
        except NotReachable as gone:
            return gone
        reason = str(error) or type(error).__name__
        if unsure:
            return NotReachable(
                f"the connection to {where} was lost before the answer came ({reason}); look whether it was carried out"
            )
        return NotReachable(f"no service answers at {where} ({reason}); start one with `betimes up`")


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


async def _asynchronous(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def may_repeat(call: Call[object], error: Exception) -> bool:
    """Whether a call that failed so may be made again: nothing was sent, or twice is as good as once."""
    return call.repeatable or isinstance(error, (NotReachable, *_UNSENT))


def way_to(url: str | None, token: str | None, state: str | Path | None, patience_s: float) -> Way:
    """The way to the service that the arguments of a client mean."""
    return Way(partial(find_service, url, token, state), patience_s)


def client_options(url: str | None) -> ClientOptions:
    """How both kinds of client are set up: without the environment's proxies for a service on this machine."""
    given = check_url(url, "url") or os.environ.get("BETIMES_URL")
    elsewhere = given is not None and not is_loopback(httpx.URL(given).host)
    return ClientOptions(trust_env=elsewhere, follow_redirects=False)


class ClientOptions(TypedDict):
    """The headers and limits given to httpx."""

    trust_env: bool
    follow_redirects: bool
