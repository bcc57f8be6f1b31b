"""Idle connections, and a system without room for more, keep nobody out and fill no log."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from betimes.client import Client
from betimes.service.startup import server
from betimes.service.startup.server import raise_file_limit
from tests.service.serving import Serving, served


async def while_idle(state: Path, idle: int) -> list[bool]:
    """Serve, with so many connections that ask for nothing; whether a client is answered, and each of them open."""

    def ask(url: str) -> list[bool]:
        parts = urlsplit(url)
        opened = [socket.create_connection((parts.hostname, parts.port)) for _ in range(idle)]
        with Client(state=state) as client:
            answered = bool(client.nodes())
        for each in opened:
            each.setblocking(False)
        found = [answered, *map(is_open, opened)]
        for each in opened:
            each.close()
        return found

    async with served(Serving(state), state) as url:
        return await asyncio.to_thread(ask, url)


def is_open(connected: socket.socket) -> bool:
    try:
        return bool(connected.recv(1))
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_the_oldest_idle_connections_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    answered, *are_open = asyncio.run(while_idle(tmp_path, 12))
    assert answered
    assert are_open == [False] * 9 + [True] * 3  # those, and the client's
    (record,) = caplog.records
    assert "4 connections to http://127.0.0.1" in record.message


def test_without_room_for_another_file_accepting_pauses_and_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "PAUSE_S", 0.01)
    accept, left = asyncio.SelectorEventLoop.sock_accept, iter(range(3))

    async def full_at_first(
        loop: asyncio.SelectorEventLoop, sock: socket.socket
    ) -> tuple[socket.socket, object]:
        if next(left, None) is not None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await accept(loop, sock)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_accept", full_at_first)
    assert asyncio.run(while_idle(tmp_path, 1)) == [True, True]
    (record,) = caplog.records
    assert record.message.endswith("wait: Too many open files")
    assert record.exc_info is None


def test_the_soft_limit_of_files_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        assert raise_file_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raise_file_limit() == (
            min(before[1], server.MOST_FILES) if before[1] >= 0 else server.MOST_FILES
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
