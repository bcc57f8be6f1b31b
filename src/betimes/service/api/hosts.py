"""Against DNS rebinding: pages of other sites reach a loopback service only under a name of their own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from betimes.service.access.host_names import is_loopback
from betimes.service.api.failures import answer, shown
from betimes.service.api.models import Failure

MOST_KEPT = 64  # hosts and origins of which it is remembered whether they are known


class KnownHosts:
    """ASGI middleware: requests whose Host or Origin is neither loopback nor configured are answered with 403."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        # A server that listens on every address may be called by any of them, but a name must be known.
        self._any_address = any(_is_unspecified(host) for host in self._hosts)
        self._is_known = lru_cache(MOST_KEPT)(self._knows)  # callers name the same few again and again

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is addressed to this service."""
        if scope["type"] == "http":
            stranger = self._stranger(Headers(scope=scope))
            if stranger:
                message = (
                    f"{stranger} is not an address of this service; use the one that `betimes up` prints"
                )
                await answer(403, Failure(code="not-allowed", message=message))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _stranger(self, headers: Headers) -> str | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_known(f"//{hosts[0]}"):
            return f"Host {shown(', '.join(hosts))!r}"
        for origin in headers.getlist("origin"):
            if not self._is_known(origin):
                return f"Origin {shown(origin)!r}"
        return None

    def _knows(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        if host in self._hosts or is_loopback(host):
            return True
        return self._any_address and _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_unspecified(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified
