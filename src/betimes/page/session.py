"""Who looks: the token in a cookie that scripts cannot read, and links that sign in once."""

from __future__ import annotations

import secrets
import time

from starlette.requests import Request
from starlette.responses import Response

from betimes.service.access.auth import Caller, Tokens, bearer
from betimes.service.api.failures import Rejected, Unauthenticated

LINK_S = 60.0  # for which a link is good
MOST_LINKS = 100


class Stranger(Exception):
    """A request without a cookie that is known."""


class Session(Caller):
    """The holder of the cookie's token."""

    @classmethod
    def of(cls, request: Request, tokens: Tokens) -> Session:
        """The session of a request. Raises Stranger; Rejected for a request that another site has caused."""
        if request.method not in ("GET", "HEAD"):
            cls.check_origin(request)
        caller = tokens.caller(request.cookies.get(_name(request), ""))
        if caller is None:
            raise Stranger
        return cls(caller.user, caller.role, caller.token)

    @staticmethod
    def check_origin(request: Request) -> None:
        """Raise Rejected if another site has caused a request. Where a browser is silent, the strict cookie holds."""
        if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Rejected(403, "not-allowed", "Another site has sent this request. Nothing was changed.")

    @staticmethod
    def bearer(request: Request, tokens: Tokens) -> str:
        """The token that a program presents. Raises Unauthenticated."""
        token = bearer(request.headers)
        if tokens.caller(token) is None:
            raise Unauthenticated(
                "a token is needed: Authorization: Bearer TOKEN; the operator's is in STATE/token"
            )
        return token

    @staticmethod
    def keep(request: Request, response: Response, token: str) -> None:
        """Put a token into the cookie. Its path is left to the browser, which sees what a proxy hides from here."""
        response.set_cookie(_name(request), token, path=None, httponly=True, samesite="strict")

    @staticmethod
    def forget(request: Request, response: Response) -> None:
        """Remove the cookie."""
        response.set_cookie(_name(request), "", max_age=0, path=None, httponly=True, samesite="strict")


class Links:
    """Links that are good once, for a short time; in memory alone."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, str]] = {}

    def make(self, token: str) -> str:
        """The code of a new link, which signs in with a token."""
        while len(self._tokens) >= MOST_LINKS:
            del self._tokens[next(iter(self._tokens))]
        code = secrets.token_urlsafe(24)
        self._tokens[code] = (time.monotonic() + LINK_S, token)
        return code

    def take(self, code: str) -> str | None:
        """The token of a link, which is used up; None: there is no such link any more."""
        until_s, token = self._tokens.pop(code, (0.0, ""))
        return token if time.monotonic() < until_s else None


def _name(request: Request) -> str:
    """One cookie a service: cookies of one host are shared by all of its ports."""
    server = request.scope.get("server")
    return f"betimes-{server[1]}" if server else "betimes"
