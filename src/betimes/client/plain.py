"""The command line's client, which imports a small part of the standard library and nothing else."""

from __future__ import annotations

import json
import select
import socket
import time
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from betimes.client.calls import CONNECT_S, ON_SOCKET, Lost, Way, lost, silent, trusted
from betimes.client.synchronous import Client
from betimes.errors import ServiceError
from betimes.service.access.address import find_service, socket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from betimes.client.calls import Call

GIVEN_UP_S = 10.0  # silent for so long, also to a health check, a service is not waited for
SILENT_S = 1.0  # without an answer, before a health check, and limit of that check
MOST_LINE_BYTES = 1 << 16
PIECE_BYTES = 1 << 16


class Answer(dict[str, Any]):
    """An object of an answer: the attributes of the service's model, with values as JSON has them."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name.startswith("__"):
                raise AttributeError(name) from None
            raise ServiceError(
                f"the service's answer lacks {name!r}: it is of another version; start it again with this one"
            ) from None


class AnswerPage(NamedTuple):
    """A page of a list; `following` is the cursor of the next."""

    items: list[Any]
    following: int | None


class Response:
    """An HTTP/1.1 response of the service; `content` is its body, unless that is left to `read`."""

    def __init__(self, sock: socket.socket, url: str, stream: bool) -> None:
        self.url, self._sock, self._file = url, sock, sock.makefile("rb")
        version, _, status = self._line().partition(b" ")
        if not (version.startswith(b"HTTP/1.") and status[:3].isdigit()):
            raise OSError("what answers there does not speak HTTP")
        self.status_code = int(status[:3])
        headers: dict[bytes, bytes] = {}
        while line := self._line():
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip().lower()
        self.retry_after = headers.get(b"retry-after")
        self._is_chunked = headers.get(b"transfer-encoding") == b"chunked"
        length = headers.get(b"content-length")
        self._left = int(length) if length is not None else None
        self._pieces = self._body()
        self.content = b"" if stream and 200 <= self.status_code < 300 else b"".join(self._pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> bytes:
        """The next piece of the body; empty at its end. Raises Lost where the connection ends before the body does."""
        return next(self._pieces, b"")

    def _body(self) -> Iterator[bytes]:
        try:
            if self._is_chunked:
                while size := int(self._line().partition(b";")[0], 16):
                    yield self._exactly(size)
                    self._line()
            elif self._left is not None:
                yield self._exactly(self._left)
            else:
                while piece := self._file.read1(PIECE_BYTES):
                    yield piece
        except (OSError, ValueError) as error:
            raise Lost(str(error) or type(error).__name__, sent=True) from error

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._sock.close()

    def _line(self) -> bytes:
        line = self._file.readline(MOST_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise OSError("the connection was closed")
        return line.rstrip(b"\r\n")

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise OSError("the connection was closed")
        return found


class PlainClient(Client):
    """`Client` for jobs given as tables of fields; answers are unvalidated `Answer`s.

    waits: called with the reason when the service, once reached, is lost; the client then waits without limit. note:
    called with a text if the service accepts connections and does not answer.
    """

    def __init__(
        self,
        state: str | Path | None = None,
        *,
        waits: Callable[[str], None] | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        locate = partial(find_service, None, None, state)
        self._way = Way(locate, 10.0 if waits is None else float("inf"), waits)
        self._codec, self._note = _Tables, note

    def close(self) -> None:
        """Do nothing: every request opens and closes its connection."""

    if TYPE_CHECKING:  # arguments are tables of fields, where `Client` has models

        def submit(self, spec: Any = None, /, *, key: str | None = None, **fields: Any) -> Any:
            """The same as `Client.submit`."""
            ...

        def quote(self, spec: Any = None, /, **fields: Any) -> Any:
            """The same as `Client.quote`."""
            ...

        def what_if(self, asked: Any = None, /, **fields: Any) -> Any:
            """The same as `Client.what_if`."""
            ...

        def add_nodes(self, spec: Any) -> Any:
            """The same as `Client.add_nodes`."""
            ...

    def _send(self, call: Call, *, stream: bool = False) -> Any:
        found = self._way.locate()
        path = call.path + (f"?{urlencode(call.params)}" if call.params else "")
        sock, sent = None, False
        try:
            sock = _connected(found.url, CONNECT_S)
            sent = True
            _request(sock, found.url, call.method, path, self._way.headers(found, call), call.body)
            sock.settimeout(call.read_s)
            if not select.select([sock], [], [], SILENT_S)[0] and not _lives(found.url):
                self._note(
                    f"the service at {found.url} accepts connections and does not answer; waiting for it"
                )
                if self._way.waits is not None:
                    self._way.reached = True  # it is there
                elif not _comes(sock, found.url):
                    sock.close()
                    raise silent(found.url, GIVEN_UP_S, unsure=call.method != "GET")
            response = Response(sock, found.url + path, stream)
        except OSError as error:
            if sock is not None:
                sock.close()
            raise lost(str(error) or type(error).__name__, sent, found.url) from error
        if not (stream and 200 <= response.status_code < 300):
            response.close()
        return response


class _Tables:
    """The codec of `PlainClient`, as `models` is that of `Client`: tables of fields and answers, unvalidated."""

    @staticmethod
    def job_body(spec: Any, fields: Mapping[str, Any]) -> bytes:
        return json.dumps(fields if spec is None else spec).encode()

    tune_body = advice_body = what_if_body = job_body

    @staticmethod
    def nodes_body(spec: Any) -> bytes:
        return json.dumps(spec).encode()

    @staticmethod
    def decode(answer: str, within: str, content: bytes, url: str) -> Any:
        if answer in ("TuningView", "AdviceView"):  # code that shows them needs their models
            from betimes.client.models import decode

            return decode(answer, within, content, url)
        try:
            found = json.loads(content, object_hook=Answer)
            if answer.startswith("Page of "):
                return AnswerPage(found["items"], found["following"])
            return found[within] if within else found
        except (ValueError, KeyError):
            raise ServiceError(f"{url} answered what is no answer of Betimes: {content[:60]!r}") from None


def _connected(url: str, timeout_s: float) -> socket.socket:
    """A connection to a service. Raises OSError."""
    if (path := socket_of(url)) is not None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(timeout_s)
            sock.connect(path)
        except BaseException:
            sock.close()
            raise
        return sock
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    host = parts.hostname or ""
    address = host.encode() if host.isascii() else host  # str would load the IDNA codec
    port = parts.port or (443 if is_secure else 80)
    sock = socket.create_connection((address, port), timeout_s)  # pyright: ignore[reportArgumentType] (bytes will do)
    if not is_secure:
        return sock
    try:
        return trusted().wrap_socket(sock, server_hostname=parts.hostname)
    except BaseException:
        sock.close()
        raise


def _request(
    sock: socket.socket,
    url: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | IO[bytes] | None,
) -> None:
    """Send a request; its connection is closed after the answer. Raises OSError."""
    parts = urlsplit(url if socket_of(url) is None else ON_SOCKET)
    lines = [f"{method} {parts.path}{path} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}"]
    lines += ["Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    content = body if isinstance(body, bytes) else b""
    if body is None or isinstance(body, bytes):
        lines.append(f"Content-Length: {len(content)}")
    sock.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + content)
    if body is not None and not isinstance(body, bytes):
        sock.sendfile(body)


def _lives(url: str) -> bool:
    """Whether a silent service answers a health check: its request may just be slow."""
    try:
        with _connected(url, SILENT_S) as sock:
            _request(sock, url, "GET", "/healthz", {}, None)
            return bool(sock.recv(1))
    except OSError:
        return False


def _comes(sock: socket.socket, url: str) -> bool:
    """Whether an answer begins, or a health check is answered, before a silent service is given up."""
    until_s = time.monotonic() + GIVEN_UP_S - 2.0 * SILENT_S
    while (left_s := until_s - time.monotonic()) > 0.0:
        if select.select([sock], [], [], min(SILENT_S, left_s))[0] or _lives(url):
            return True
    return False
