"""What a request says before its body is bounded: the URL, and its headers together."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from betimes.service.api.failures import answer
from betimes.service.api.limits import MOST_HEADER_BYTES, MOST_URL_BYTES
from betimes.service.api.models import Failure


class BoundedHeads:
    """Refuses URLs (414) and headers (431) that are longer than any that this service needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is short enough."""
        if scope["type"] == "http":
            url = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
            headers = sum(len(name) + len(value) for name, value in scope["headers"])
            for status, what, size, most in (
                (414, "the URL has", url, MOST_URL_BYTES),
                (431, "the headers have", headers, MOST_HEADER_BYTES),
            ):
                if size > most:
                    failure = Failure(
                        code="too-large", message=f"{what} at most {most} bytes here, not {size}"
                    )
                    await answer(status, failure)(scope, receive, send)
                    return
        await self._app(scope, receive, send)
