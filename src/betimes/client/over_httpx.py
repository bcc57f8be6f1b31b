"""Requests by httpx, for the clients whose users may give a transport of their own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import IO, TypedDict

import httpx

from betimes.client.calls import Call
from betimes.client.way import CONNECT_S, Lost, Way
from betimes.service.access.address import check_url
from betimes.service.access.host_names import is_loopback

PIECE_BYTES = 1 << 18  # of a file that is sent
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class ClientOptions(TypedDict):
    """The headers and limits given to httpx."""

    trust_env: bool
    follow_redirects: bool


def client_options(url: str | None) -> ClientOptions:
    """How both kinds of client are set up: without the environment's proxies for a service on this machine."""
    given = check_url(url, "url") or os.environ.get("BETIMES_URL")
    elsewhere = given is not None and not is_loopback(httpx.URL(given).host)
    return ClientOptions(trust_env=elsewhere, follow_redirects=False)


def request(way: Way, client: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
    """The request of a call, as of now. Raises NotReachable."""
    found = way.locate()
    content: bytes | Iterator[bytes] | AsyncIterator[bytes] | None
    headers = way.headers(found, call)
    if call.body is None or isinstance(call.body, bytes):
        content = call.body
    else:
        pieces = _pieces(call.body)
        content = pieces if isinstance(client, httpx.Client) else _asynchronous(pieces)
    return client.build_request(
        call.method,
        found.url + call.path,
        params=httpx.QueryParams(tuple(call.params)),
        content=content,
        headers=headers,
        timeout=httpx.Timeout(CONNECT_S, read=call.read_s),
    )


def lost(error: httpx.TransportError) -> Lost:
    """What httpx met, as conversations know it."""
    made = Lost(str(error) or type(error).__name__, not isinstance(error, _UNSENT))
    made.__cause__ = error
    return made


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


async def _asynchronous(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
