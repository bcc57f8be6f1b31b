"""Serving the API inside an event loop that the caller owns."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import resource
import socket
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from betimes.errors import InputError, ServiceError
from betimes.service.access.address import last_port, remove_address, write_address, write_port
from betimes.service.access.host_names import is_loopback
from betimes.service.access.peers import PEER, local_socket, peer_of
from betimes.service.api.limits import MOST_HEADER_BYTES, MOST_URL_BYTES

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger(__name__)

MOST_FILES = 65_536  # that are open at once, where the system allows it
MOST_CONNECTIONS = 4096  # at one socket; further ones wait until one ends
PAUSE_S = 1.0  # before connections are taken again, once the system has no room for another
REPORT_S = 60.0  # between two lines of the log about that
GOODBYE_S = 5  # for answers under way; readers who do not read are cut off then
BACKLOG = 2048  # connections that wait to be accepted
HEAD_S = 10.0  # in which a request's line and headers must have come, from its first byte or the connection's begin


class Encrypted(NamedTuple):
    """An address for connections with TLS, and the files in PEM that show who answers."""

    host: str
    port: int
    certificate: Path  # and those of the authorities between, behind it
    key: Path


async def serve(
    app: FastAPI,
    host: str,
    port: int,
    *,
    state: Path,
    stop: asyncio.Event,
    listen: bool = False,
    listening: asyncio.Future[str] | None = None,
    local: Path | None = None,
    encrypted: Encrypted | None = None,
) -> None:
    """Serve until `stop` is set; then end the streams, let answers under way finish, and return.

    Port 0 is that of the last service with this state, the only one its running jobs know, or else a free one. The URL
    is in STATE/address as long as the service listens, and is given to `listening`. Beside it, local: a Unix socket for
    the other users of the machine, where the kernel tells who is at the other end (`PEER` in a request's state);
    encrypted: an address for others.
    Signals are left to the caller. Raises InputError for a host beyond loopback without `listen`, one that cannot be
    listened on, or a certificate that cannot be used; ServiceError if a port is taken or the server dies.
    """
    if not listen and not is_loopback(host):
        raise InputError(f"{host} is not a loopback address; `--listen {host}` says that others may connect")
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(_bound(host, port) if port else _bound_as_before(host, state))
        url = _url(host, bound)
        # uvicorn would listen only a moment later, and clients must find an open door behind the address.
        bound.listen(BACKLOG)
        sockets: list[tuple[str, socket.socket, SSLContext | None]] = [(url, bound, None)]
        if local is not None:
            sockets.append((str(local), stack.enter_context(local_socket(local)), None))
        if encrypted is not None:
            shown_by = _certified(encrypted)
            at = f"{encrypted.host}:{encrypted.port}"
            sockets.append((at, stack.enter_context(_bound(encrypted.host, encrypted.port)), shown_by))
        # Half of the files are the jobs' and the store's. Each socket has its own share, so that strangers at the one
        # for other machines do not keep out the users of this one.
        most = min(MOST_CONNECTIONS, raise_file_limit() // 2 // len(sockets))
        server = _Server(_config(app), [Listener(*each, most) for each in sockets])
        running = asyncio.ensure_future(server.serve(sockets=[]))
        stopping = asyncio.ensure_future(stop.wait())
        address = None
        try:
            address = write_address(state, url)
            write_port(state, bound.getsockname()[1])
            if listening is not None and not listening.done():
                listening.set_result(url)
            await asyncio.wait((running, stopping), return_when="FIRST_COMPLETED")
            if running.done() and not stop.is_set():
                raise ServiceError(f"the server at {url} ended by itself") from running.exception()
        finally:
            stopping.cancel()
            if address is not None:
                remove_address(state, address)
            app.state.context.closing.set()
            server.should_exit = True
            await asyncio.shield(asyncio.wait((running,)))
            if running.done() and not running.cancelled():
                running.exception()


def _certified(encrypted: Encrypted) -> SSLContext:
    import ssl  # takes a while, and few services need it

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        made.load_cert_chain(encrypted.certificate, encrypted.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise InputError(
            f"--certificate {encrypted.certificate}, --key {encrypted.key}: cannot be used together ({reason}); give "
            "two files in PEM that this user can read, the key without a password"
        ) from None
    return made


def raise_file_limit() -> int:
    """Raise how many files this process may have open, as far as the system allows; returns that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_FILES
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


class Listener:
    """Takes the connections that come to one socket, as many at once as there is room for; others wait unanswered.

    asyncio's own servers take any number, and report each that finds no file left with a traceback.
    """

    def __init__(self, name: str, sock: socket.socket, context: SSLContext | None, most: int) -> None:
        self._name, self._sock, self._context, self._most = name, sock, context, most
        self._room = asyncio.Semaphore(most)
        self._protocols: dict[_Protocol, None] = {}  # the oldest first
        self._greetings: set[asyncio.Task[None]] = set()
        self._reported_s = -REPORT_S

    async def listen(self, protocol: Callable[[], _Protocol]) -> None:
        """Take connections until it is cancelled."""
        loop = asyncio.get_running_loop()
        self._sock.setblocking(False)
        self._sock.listen(BACKLOG)
        while True:
            try:
                connected, _ = await loop.sock_accept(self._sock)
            except OSError as error:  # the caller is gone, or there are no files or no memory left
                if error.errno != errno.ECONNABORTED:
                    self._report(f"connections to {self._name} wait: {error.strerror}")
                    await asyncio.sleep(PAUSE_S)
                continue
            try:
                await self._wait_for_room()
            except asyncio.CancelledError:
                connected.close()
                raise
            greeting = asyncio.ensure_future(self._greet(connected, protocol()))
            self._greetings.add(greeting)
            greeting.add_done_callback(self._greetings.discard)

    async def _wait_for_room(self) -> None:
        """End the oldest connection that asks for nothing where there is no room, so that idle ones keep nobody out."""
        while self._room.locked():
            self._report(
                f"{self._most:,} connections to {self._name} are open, as many as may be; idle ones are ended, and "
                "others wait until one ends"
            )
            idle = next((each for each in self._protocols if each.is_idle), None)
            if idle is not None:
                idle.transport.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await self._room.acquire()
                    return
        await self._room.acquire()

    def close(self) -> None:
        """Refuse all further connections."""
        self._sock.close()

    async def _greet(self, connected: socket.socket, protocol: _Protocol) -> None:
        """Let a protocol answer a connection, after TLS's handshake."""
        self._protocols[protocol] = None
        protocol.when_lost = partial(self._forget, protocol)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connected,
                ssl=self._context,
                ssl_handshake_timeout=HEAD_S if self._context is not None else None,
            )
        except OSError:  # it has ended, or speaks no TLS, which is an OSError, too
            connected.close()
            if not protocol.is_connected:
                self._forget(protocol)

    def _forget(self, protocol: _Protocol) -> None:
        del self._protocols[protocol]
        self._room.release()

    def _report(self, text: str) -> None:
        """Log a line, unless there was one a moment ago."""
        if time.monotonic() - self._reported_s >= REPORT_S:
            self._reported_s = time.monotonic()
            log.warning("%s", text)


class _Server(uvicorn.Server):
    """Answers the connections of these listeners."""

    def __init__(self, config: uvicorn.Config, listeners: Sequence[Listener]) -> None:
        super().__init__(config)
        self._listeners = listeners
        self._listening: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        protocol = partial(
            _Protocol, self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        self._listening = [asyncio.ensure_future(each.listen(protocol)) for each in self._listeners]

    async def on_tick(self, counter: int) -> bool:
        """Whether to end, at a tenth of a second; raises what a listener has failed with."""
        for each in self._listening:
            if each.done():
                each.result()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals belong to the owner of the event loop."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let answers under way finish, but cut off readers who do not read."""
        for listening in self._listening:
            listening.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        cutting = asyncio.get_running_loop().call_later(GOODBYE_S, self._cut_off)
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    def _cut_off(self) -> None:
        for connection in list(self.server_state.connections):
            # Its response then ends as with any reader who leaves; cancelling it would be logged as a failure.
            if connection.transport is not None:
                connection.transport.abort()


class _Protocol(H11Protocol):
    """Closes a connection whose request is half sent: uvicorn's own limit holds between requests only."""

    _half: asyncio.TimerHandle | None = None
    is_connected = False
    when_lost: Callable[[], None]

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way; one whose head is half sent is none."""
        return self.is_connected and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self.is_connected = True
        connected: socket.socket = transport.get_extra_info("socket")
        if connected.family == socket.AF_UNIX:
            self.app_state = {**self.app_state, PEER: peer_of(connected)}
        self._half = self.loop.call_later(HEAD_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        begun = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if not begun and self._half is not None:
            self._half.cancel()
            self._half = None
        elif begun and self._half is None:
            self._half = self.loop.call_later(HEAD_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._half is not None:
            self._half.cancel()
        self.when_lost()
        super().connection_lost(exc)


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Protocol,
        h11_max_incomplete_event_size=2 * (MOST_URL_BYTES + MOST_HEADER_BYTES),  # above named limits
        lifespan="off",
        ws="none",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a stranger's header does not prove where a request comes from
        timeout_graceful_shutdown=2 * GOODBYE_S,  # the last resort
        timeout_keep_alive=30,
    )


def _bound_as_before(host: str, state: Path) -> socket.socket:
    before = last_port(state)
    if before:
        with contextlib.suppress(ServiceError):  # another service has it now
            return _bound(host, before)
    return _bound(host, 0)


def _bound(host: str, port: int) -> socket.socket:
    name = "127.0.0.1" if host.lower().rstrip(".") == "localhost" else host.strip("[]")
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{host!r} is no address of this machine ({error}); try 127.0.0.1") from None
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = error.strerror or error
        raise ServiceError(f"cannot listen on {host}:{port}: {reason}; choose another port, or 0") from None
    return bound


def _url(host: str, bound: socket.socket) -> str:
    number, port = bound.getsockname()[:2]
    shown = number if host.lower().rstrip(".") == "localhost" else host.strip("[]")
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(number).is_unspecified:
            # Every address of the machine: clients here take loopback.
            shown = "::1" if ":" in number else "127.0.0.1"
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
