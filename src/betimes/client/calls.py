"""Shared by all clients: calls, the way to the service, and the handling of lost answers and of failures.

The command line uses this module: loading it imports a small part of the standard library and nothing else.
"""

from __future__ import annotations

import json
import math
import os
import time
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict

from betimes.errors import (
    Conflict,
    FieldError,
    InputError,
    NotAllowed,
    NotReachable,
    Refused,
    ServiceError,
    TooMany,
    Unavailable,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from ssl import SSLContext

    from betimes.errors import BetimesError
    from betimes.service.access.address import Found
    from betimes.service.scheduling.job_states import Status

API = "/api/v1"
CONNECT_S = 10.0
ON_SOCKET = "http://localhost"  # begins the URLs of what is asked over a Unix socket
SILENT_S = 5.0  # without an answer to what only reads, before a health check, and limit of that check
READ_S = 60.0  # until an answer begins; several times the interval between keep-alives of a stream
_CLASSES: dict[str, type[BetimesError]] = {
    "unknown": Unknown,
    "conflict": Conflict,
    "not-allowed": NotAllowed,
    "unavailable": Unavailable,
    "internal": ServiceError,
}


class Conditions(TypedDict, total=False):
    """Conditions that select jobs; a job must meet all of them."""

    status: Sequence[Status | str]
    user: str
    name: str
    array_id: int
    label: Mapping[str, str]
    after: int
    limit: int
    spec: bool  # no condition: with what was submitted, of jobs that the caller may read
    intervals: bool  # likewise: with the intervals of their starts and ends, as of now


class Call(NamedTuple):
    """A request and the type of its answer: the name of a service's model, `Page of ...`, or None for a stream.

    within: the field of the answer that holds a list of models. repeatable: the request is idempotent. read_s: limit
    until the answer begins; None: no limit.
    """

    method: str
    path: str
    answer: str | None
    within: str = ""
    params: Sequence[tuple[str, str]] = ()
    body: bytes | IO[bytes] | None = None  # an archive is a file, from its beginning
    headers: dict[str, str] = {}  # noqa: RUF012 (never changed)
    repeatable: bool = True
    read_s: float | None = READ_S


class Lost(Exception):
    """A request or its answer was lost; `sent`: the service may have got it."""

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class Way:
    """The way to the service. A restarted service may listen elsewhere, so its address is looked up for each request.

    patience_s: how long a lost call is retried; infinite: until the service is back and ready. waits: called with the
    reason when the client begins to wait.
    """

    def __init__(
        self,
        locate: Callable[[], Found],
        patience_s: float = 10.0,
        waits: Callable[[str], None] | None = None,
    ) -> None:
        self.locate, self.patience_s, self.waits = locate, patience_s, waits
        self.reached = False  # whether it ever answered
        self._is_waiting = False

    def headers(self, found: Found, call: Call) -> dict[str, str]:
        """The headers of a request."""
        headers = dict(call.headers)
        if found.token:
            headers["Authorization"] = f"Bearer {found.token}"
        if isinstance(call.body, bytes):
            headers["Content-Type"] = "application/json"
        elif call.body is not None:
            headers |= {"Content-Type": "application/zip", "Content-Length": str(call.body.seek(0, 2))}
            call.body.seek(0)
        return headers

    def check(self, call: Call, response: Any) -> None:
        """Raise the service's error, or ServiceError, unless the response is a success; TooMany: wait and try again."""
        self.reached = True
        is_well = 200 <= response.status_code < 300
        if response.status_code == 429:
            raise TooMany(f"{response.url}: too many requests", float(response.retry_after or 1.0))
        if not is_well and not (
            call.answer == "Health" and response.status_code == 503 and b'"ready"' in response.content
        ):
            _raise_failure(response.status_code, response.content, str(response.url))
        self._is_waiting = False

    def pauses(self, deadline: float = math.inf) -> Iterator[float]:
        """Pauses before each new attempt, s; they end when patience does, or at `deadline`."""
        deadline = min(deadline, time.monotonic() + (self.patience_s if self.reached else 0.0))
        pause = 0.1
        while time.monotonic() < deadline:
            yield pause * (0.5 + os.urandom(1)[0] / 510)  # jitter, so that clients do not retry at once
            pause = min(2 * pause, 1.0)

    def pause_after(self, call: Call, error: Exception, pauses: Iterator[float]) -> float:
        """The pause before a failed call is made again, s.

        Raises NotReachable or Unavailable if the call must not be repeated or no pause is left.
        """
        if isinstance(error, TooMany):  # nothing was done, and it will be
            return error.retry_s
        if isinstance(error, Lost) and error.sent and not call.repeatable:
            raise self.lost(error, unsure=True) from error
        pause = next(pauses, None)
        if pause is None:
            raise self.lost(error) from error
        if self.waits is not None and not self._is_waiting:
            self._is_waiting = True
            self.waits(str(self.lost(error)))
        return pause

    def lost(self, error: Exception, unsure: bool = False) -> BetimesError:
        """The error to raise when there are no more attempts."""
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


def silent(url: str, for_s: float, unsure: bool = False) -> NotReachable:
    """The error for a service that accepts connections and answers nothing; unsure: it may have got a request."""
    may_act = "; it may still carry out what was asked" if unsure else ""
    return NotReachable(
        f"the service at {url} has not answered for {for_s:g} s, not even whether it is well{may_act}; look at its "
        "log, or start it anew"
    )


def uploaded(folder: Path, packed: Any, sent: bool) -> dict[str, Any]:
    """The fields of `Uploaded`, for a directory that the service has."""
    return {
        "folder": str(folder),
        "sha256": packed.sha256,
        "files": packed.contents.files,
        "bytes": packed.contents.bytes,
        "archive_bytes": packed.archive_bytes,
        "sent": sent,
    }


_OF_TLS = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted; BETIMES_CA=FILE names the certificate of the "
    "authority that signed it, which its operator has",
    "WRONG_VERSION_NUMBER": "it does not speak TLS; write http://, or ask its operator for the address",
}


def lost(text: str, sent: bool, url: str) -> Lost | NotReachable:
    """The error for a request that got no answer; NotReachable where no other attempt helps."""
    for mark, meaning in _OF_TLS.items():
        if mark in text:
            return NotReachable(f"{url}: {meaning} ({text})")
    return Lost(text, sent)


def trusted() -> SSLContext:
    """The trusted certificates: of the system's authorities, or of the file BETIMES_CA. Raises InputError."""
    import ssl  # takes a while, and most services are on this machine

    file = os.environ.get("BETIMES_CA") or None
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise InputError(
            f"BETIMES_CA={file}: holds no certificates in PEM ({error.strerror or error})"
        ) from None


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run slow disk work in a thread; the synchronous client has `at_once` in its place."""
    import asyncio

    return await asyncio.to_thread(work, *arguments)


def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run slow disk work in this thread."""
    return work(*arguments)


def _raise_failure(status: int, content: bytes, url: str) -> NoReturn:
    try:
        failure = json.loads(content)["error"]
        code, message, field = str(failure["code"]), str(failure["message"]), failure.get("field")
    except (ValueError, KeyError, TypeError):
        raise ServiceError(f"{url} answered {status}, and not as Betimes does") from None
    kind = _CLASSES.get(code, Refused)
    if issubclass(kind, FieldError):
        raise kind(message.removeprefix(f"{field}: "), field)
    raise kind(message)
