"""The way to a service: where it is now, how its answers are read, and how long to go on trying when it is lost."""

from __future__ import annotations

import json
import math
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from betimes.errors import Conflict, NotAllowed, NotReachable, Refused, ServiceError, Unavailable, Unknown
from betimes.service.access.address import find_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from betimes.client.calls import Call
    from betimes.errors import BetimesError
    from betimes.service.access.address import Found

CONNECT_S = 10.0
_CLASSES: dict[str, type[BetimesError]] = {
    "unknown": Unknown,
    "conflict": Conflict,
    "not-allowed": NotAllowed,
    "unavailable": Unavailable,
    "internal": ServiceError,
}


class Lost(Exception):
    """A request or its answer was lost; `sent`: the service may have got it."""

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class Way:
    """Where requests go. A service that restarts may listen elsewhere: its address is looked up anew every time.

    decode: makes an answer of a call's `answer` and `within` and the body, which it says it is from. patience_s: after
    a connection is lost; infinite: a service that is away or not ready is waited for. waits: is called when that
    begins, with why.
    """

    def __init__(
        self,
        locate: Callable[[], Found],
        decode: Callable[[str, str, bytes, str], Any],
        patience_s: float = 10.0,
        waits: Callable[[str], None] | None = None,
    ) -> None:
        self.locate, self.decode, self.patience_s, self.waits = locate, decode, patience_s, waits
        self.reached = False  # whether it ever answered
        self._is_waiting = False

    def headers(self, found: Found, call: Call) -> dict[str, str]:
        """What stands above the body of a request."""
        headers = dict(call.headers)
        if found.token:
            headers["Authorization"] = f"Bearer {found.token}"
        if isinstance(call.body, bytes):
            headers["Content-Type"] = "application/json"
        elif call.body is not None:
            headers |= {"Content-Type": "application/zip", "Content-Length": str(call.body.seek(0, 2))}
            call.body.seek(0)
        return headers

    def answer(self, call: Call, reply: Any) -> Any:
        """What a response means. Raises what the service did, or ServiceError."""
        self.reached = True
        is_well = 200 <= reply.status_code < 300
        if not is_well and not (
            call.answer == "Health" and reply.status_code == 503 and b'"ready"' in reply.content
        ):
            raise_failure(reply.status_code, reply.content, str(reply.url))
        self._is_waiting = False
        if call.answer is None:
            return None  # its body is a stream
        return self.decode(call.answer, call.within, reply.content, str(reply.url))

    def pauses(self, deadline: float = math.inf) -> Iterator[float]:
        """How long to wait, s, before every new attempt; it ends when patience does, or at `deadline`."""
        deadline = min(deadline, time.monotonic() + (self.patience_s if self.reached else 0.0))
        pause = 0.1
        while time.monotonic() < deadline:
            yield pause * (0.5 + os.urandom(1)[0] / 510)  # not all clients at once
            pause = min(2 * pause, 1.0)

    def note_wait(self, error: Exception) -> None:
        """Tell, once, that the service is waited for."""
        if self.waits is not None and not self._is_waiting:
            self._is_waiting = True
            self.waits(str(self.lost(error)))

    def lost(self, error: Exception, unsure: bool = False) -> BetimesError:
        """What to raise when trying is over."""
        if isinstance(error, (NotReachable, Unavailable)):
            return error
        try:
            where = self.locate().url
        except NotReachable as gone:
            return gone
        if unsure:
            return NotReachable(
                f"the connection to {where} was lost before the answer came ({error}); look whether it was carried out"
            )
        return NotReachable(f"no service answers at {where} ({error}); start one with `betimes up`")


def may_repeat(call: Call, error: Exception) -> bool:
    """Whether a call that failed so may be made again: nothing was sent, or twice is as good as once."""
    return call.repeatable or not (isinstance(error, Lost) and error.sent)


def way_to(
    decode: Callable[[str, str, bytes, str], Any],
    url: str | None,
    token: str | None,
    state: str | Path | None,
    patience_s: float,
) -> Way:
    """The way to the service that the arguments of a client mean."""
    return Way(partial(find_service, url, token, state), decode, patience_s)


def raise_failure(status: int, content: bytes, url: str) -> NoReturn:
    """Raise what the service did."""
    try:
        failure = json.loads(content)["error"]
        code, message, field = str(failure["code"]), str(failure["message"]), failure.get("field")
    except (ValueError, KeyError, TypeError):
        raise ServiceError(f"{url} answered {status}, and not as Betimes does") from None
    kind = _CLASSES.get(code)
    if kind is not None:
        raise kind(message)
    raise Refused(message.removeprefix(f"{field}: "), field)
