"""Checks of every request before a route sees it: sizes, the addressed host, repeated parameters.

Starlette's `TrustedHostMiddleware` compares names up to the first colon, which is no host of `[::1]:8000`, and cannot
let in every address of a server that listens on all of them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import get_origin
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from betimes.service.access.host_names import is_loopback
from betimes.service.api.failures import Rejected, answer, refusal, shown
from betimes.service.api.limits import MOST_HEADER_BYTES, MOST_URL_BYTES
from betimes.service.api.models import EventQuery, Fault, JobQuery, LogQuery, WaitQuery

MOST_KEPT = 64  # hosts remembered as known or not
_LISTS = frozenset(
    name
    for query in (EventQuery, JobQuery, LogQuery, WaitQuery)
    for name, field in query.model_fields.items()
    if get_origin(field.annotation) is list
)


class Guard:
    """ASGI middleware that answers what no route should see.

    Against DNS rebinding: pages of other sites reach a loopback service only under their own names, so that Host must
    be loopback or among `hosts`. A page that sends something, as its Origin shows, must come from the same scheme, host
    and port: another port of this machine may be another user's.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        # A server that listens on every address may be called by any of them, but a name must be known.
        self._any_address = any(_is_unspecified(host) for host in self._hosts)
        self._is_known = lru_cache(MOST_KEPT)(self._knows)  # callers name the same few again and again

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on short requests addressed to this service."""
        if scope["type"] == "http":
            try:
                _check_sizes(scope)
                self._check_addresses(Headers(scope=scope), scope["scheme"])
                _check_nul(scope)
                if b"&" in scope["query_string"]:
                    _check_repeats(QueryParams(scope["query_string"]))
            except Rejected as error:
                await answer(error.status, error.failure, error.headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_addresses(self, headers: Headers, scheme: str) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_known(f"//{hosts[0]}"):
            raise _stranger("Host", ", ".join(hosts))
        for origin in headers.getlist("origin"):
            asked = _origin(f"{scheme}://{hosts[0]}")
            if asked is None or _origin(origin) != asked:
                raise _stranger("Origin", origin)

    def _knows(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            return False
        if host in self._hosts or is_loopback(host):
            return True
        return self._any_address and _is_address(host)


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None: it has none, as `null`."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None


def _check_sizes(scope: Scope) -> None:
    url = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    for status, what, size, most in (
        (414, "the URL has", url, MOST_URL_BYTES),
        (431, "the headers have", headers, MOST_HEADER_BYTES),
    ):
        if size > most:
            raise Rejected(status, "too-large", f"{what} at most {most} bytes here, not {size}")


def _check_nul(scope: Scope) -> None:
    """Reject a NUL character in a parameter: no database can look for one."""
    if b"%00" in scope["query_string"]:
        for name, value in QueryParams(scope["query_string"]).multi_items():
            if "\0" in value or "\0" in name:
                shown_name = shown(name.replace("\0", ""))
                raise Rejected(
                    422, "refused", f"{shown_name}: holds a NUL character (%00); leave it out", shown_name
                )


def _check_repeats(given: QueryParams) -> None:
    """Reject a parameter given several times, unless it is a list: the one meant cannot be known."""
    faults = [
        Fault(
            field=name,
            message=f"expected it once, found it {len(given.getlist(name))} times; leave the others out",
        )
        for name in given
        if name not in _LISTS and len(given.getlist(name)) > 1
    ]
    if faults:
        raise refusal(faults)


def _stranger(header: str, value: str) -> Rejected:
    message = (
        f"{header} {shown(value)!r} is not an address of this service; use the one that `betimes up` prints"
    )
    return Rejected(403, "not-allowed", message)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_unspecified(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified
