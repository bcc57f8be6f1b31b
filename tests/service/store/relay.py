"""Stands between a client and PostgreSQL, and cuts the connection at a commit."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

_NAME = ".s.PGSQL.5432"


class Relay:
    """A socket in a folder of its own that passes everything on to the server's socket."""

    def __init__(self, _folder: Path, server: Any) -> None:
        self._server = Path(str(server)) / _NAME
        self._temporary = tempfile.TemporaryDirectory(prefix="betimes-relay-", dir="/tmp")  # a short path
        self.folder = Path(self._temporary.name)
        self._cut: tuple[bool, bool] | None = None
        self._is_open = True
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / _NAME))
        self._listener.listen()
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _end(one)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()
        self._temporary.cleanup()

    def cut_at_commit(self, *, pass_it_on: bool, refuse_after: bool) -> None:
        """Cut the next connection that commits; let no other in, if `refuse_after`, until `let_in`."""
        self._cut = (pass_it_on, refuse_after)

    def shut_out(self) -> None:
        """Cut every connection, and let no other in until `let_in`."""
        self._is_open = False
        for one in list(self._sockets):
            _end(one)

    def let_in(self) -> None:
        self._is_open = True

    def _start(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                if not self._is_open:
                    _end(client)
                    continue
                server = socket.socket(socket.AF_UNIX)
                self._sockets.append(server)
                server.connect(str(self._server))
                self._start(self._pass_up, client, server)
                self._start(self._pass_down, server, client)

    def _pass_up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self._cut is not None and b"COMMIT" in data:
                    (pass_it_on, refuse_after), self._cut = self._cut, None
                    self._is_open = not refuse_after
                    _end(client)
                    if pass_it_on:
                        server.sendall(data)
                    break
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)  # the server finishes what it has been sent

    @staticmethod
    def _pass_down(server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                with contextlib.suppress(OSError):
                    client.sendall(data)
        _end(client)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
