"""Signed-in users of the page: sessions of browsers, and links that sign in once."""

from __future__ import annotations

import json
import logging
import secrets
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from betimes.files import write_private
from betimes.service.access.auth import Caller, Tokens, bearer, hashed
from betimes.service.api.failures import Rejected, Unauthenticated

LINK_S = 60.0  # for which a link is good
SESSION_S = 30 * 86_400.0  # since it was used last
MOST_EACH = 20  # links and sessions of one token
WRITTEN_EACH_S = 86_400.0  # a session in use is written again that often

log = logging.getLogger(__name__)


class Stranger(Exception):
    """A request without a cookie that is known."""


class Session(Caller):
    """The users who have signed in; a browser holds a session's id, which the API does not accept."""

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
    """Secret codes that stand for the holder of a token for a time, s. kept: a file from which they outlast a restart.

    Only their hashes are kept, as of tokens.
    """

    def __init__(self, lasts_s: float, kept: Path | None = None) -> None:
        self._lasts_s, self._kept = lasts_s, kept
        self._known = _read(kept)  # by hash: until when, s since 1970, and the token's hash

    def make(self, holder: Caller) -> str:
        """A new code; the oldest of too many of one token end."""
        now_at = time.time()
        self._known = {code: one for code, one in self._known.items() if now_at < one[0]}
        others = [code for code, (_, token) in self._known.items() if token == holder.token]
        for code in others[: len(others) - MOST_EACH + 1]:
            del self._known[code]
        code = secrets.token_urlsafe(24)
        self._known[hashed(code)] = (now_at + self._lasts_s, holder.token)
        self._write()
        return code

    def find(self, code: str, tokens: Tokens) -> Caller | None:
        """Whom a code stands for; its time begins anew. None: there is no such code, or its token holds no more."""
        until_at, token = self._known.get(hashed(code), (0.0, ""))
        now_at = time.time()
        holder = tokens.holder(token) if now_at < until_at else None
        if holder is not None and now_at + self._lasts_s > until_at + min(WRITTEN_EACH_S, self._lasts_s / 2):
            self._known[hashed(code)] = (now_at + self._lasts_s, token)
            self._write()
        return holder

    def take(self, code: str, tokens: Tokens) -> Caller | None:
        """Whom a code stands for, which is used up; None: as `find`."""
        until_at, token = self._known.pop(hashed(code), (0.0, ""))
        self._write()
        return tokens.holder(token) if time.time() < until_at else None

    def _write(self) -> None:
        if self._kept is None:
            return
        try:
            write_private(self._kept, json.dumps(self._known))
        except OSError as error:
            log.warning(
                "sessions of the page end with this service: %s cannot be written: %s", self._kept, error
            )


def _read(kept: Path | None) -> dict[str, tuple[float, str]]:
    """The codes in a file; none where it is missing or damaged, so that everybody signs in again."""
    try:
        known = json.loads(kept.read_text("utf-8")) if kept is not None else {}
        return {str(code): (float(until_at), str(token)) for code, (until_at, token) in known.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("sessions of the page are not known any more: %s cannot be read: %s", kept, error)
        return {}


class Sessions:
    """The browsers that are signed in, by a cookie that scripts cannot read."""

    def __init__(self, tokens: Tokens, kept: Path | None = None) -> None:
        self._tokens, self._ids = tokens, Codes(SESSION_S, kept)

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
