"""Who looks: sessions of browsers, and links that sign in once."""

from __future__ import annotations

import secrets
import time

from starlette.requests import Request
from starlette.responses import Response

from betimes.service.access.auth import Caller, Tokens, bearer
from betimes.service.api.failures import Rejected, Unauthenticated

LINK_S = 60.0  # for which a link is good
SESSION_S = 30 * 86_400.0  # since it was used last
MOST_EACH = 20  # links and sessions of one token


class Stranger(Exception):
    """A request without a cookie that is known."""


class Session(Caller):
    """Who has signed in; what a browser holds is a session's id, which is nothing to the API."""

    @staticmethod
    def check_origin(request: Request) -> None:
        """Raise Rejected if another site, or another port of this host, has caused a request.

        A browser sends either header with a form; the guard of all requests has compared `Origin`.
        """
        if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Rejected(403, "not-allowed", "Another site has sent this request. Nothing was changed.")

    @staticmethod
    def bearer(request: Request, tokens: Tokens) -> Caller:
        """The holder of the token that a program presents. Raises Unauthenticated."""
        caller = tokens.caller(bearer(request.headers))
        if caller is None:
            raise Unauthenticated(
                "a token is needed: Authorization: Bearer TOKEN; the operator's is in STATE/token"
            )
        return caller


class Codes:
    """Secret codes that stand for the holder of a token for a time, s; in memory alone."""

    def __init__(self, lasts_s: float) -> None:
        self._lasts_s = lasts_s
        self._known: dict[str, tuple[float, str]] = {}  # until when, and the token's hash

    def make(self, holder: Caller) -> str:
        """A new code; the oldest of too many of one token end."""
        now_s = time.monotonic()
        self._known = {code: one for code, one in self._known.items() if now_s < one[0]}
        others = [code for code, (_, token) in self._known.items() if token == holder.token]
        for code in others[: len(others) - MOST_EACH + 1]:
            del self._known[code]
        code = secrets.token_urlsafe(24)
        self._known[code] = (now_s + self._lasts_s, holder.token)
        return code

    def find(self, code: str, tokens: Tokens) -> Caller | None:
        """Whom a code stands for; its time begins anew. None: there is no such code, or its token holds no more."""
        holder = self.take(code, tokens)
        if holder is not None:
            self._known[code] = (time.monotonic() + self._lasts_s, holder.token)
        return holder

    def take(self, code: str, tokens: Tokens) -> Caller | None:
        """Whom a code stands for, which is used up; None: as `find`."""
        until_s, token = self._known.pop(code, (0.0, ""))
        return tokens.holder(token) if time.monotonic() < until_s else None


class Sessions:
    """The browsers that are signed in, by a cookie that scripts cannot read."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens, self._ids = tokens, Codes(SESSION_S)

    def of(self, request: Request) -> Session:
        """The session of a request. Raises Stranger; Rejected for a request that another site has caused."""
        if request.method not in ("GET", "HEAD"):
            Session.check_origin(request)
        caller = self._ids.find(request.cookies.get(_name(request), ""), self._tokens)
        if caller is None:
            raise Stranger
        return Session(caller.user, caller.role, caller.token)

    def begin(self, request: Request, response: Response, holder: Caller) -> None:
        """Begin a session with the browser to which this response goes."""
        _set_cookie(request, response, self._ids.make(holder))

    def end(self, request: Request, response: Response) -> None:
        """End the session; its id is worth nothing any more."""
        self._ids.take(request.cookies.get(_name(request), ""), self._tokens)
        _set_cookie(request, response, "", max_age=0)


def _set_cookie(request: Request, response: Response, value: str, max_age: int | None = None) -> None:
    """Set the cookie. Its path is left to the browser, which sees what a proxy hides from here."""
    # Whoever claims to be a proxy with TLS changes its own cookie alone.
    is_encrypted = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    response.set_cookie(
        _name(request), value, max_age, path=None, httponly=True, samesite="strict", secure=is_encrypted
    )


def _name(request: Request) -> str:
    """One cookie a service: cookies of one host are shared by all of its ports."""
    server = request.scope.get("server")
    return f"betimes-{server[1]}" if server else "betimes"
