"""The server listens where it is told, says where that is, and stops in good order."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from betimes.errors import InputError, ServiceError
from betimes.service.access.address import read_address
from betimes.service.access.auth import Tokens
from betimes.service.api import create_app
from betimes.service.startup import server
from betimes.service.startup.server import serve
from betimes.service.views.models import Submitted
from tests.service.serving import PATIENCE_S, MemoryTokens, Serving, served, until

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import asyncio, signal, sys
from pathlib import Path
from betimes.service.startup import server
from betimes.service.startup.server import serve
from tests.service.serving import Serving

async def main():
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server.GOODBYE_S = float(sys.argv[3])
    state = Path(sys.argv[1])
    async with Serving(state) as it:
        job = {"command": ["x" * 4000] * 25, "hold": True}
        async with it.asking() as http:
            for _ in range(int(sys.argv[2])):
                (await http.post("/api/v1/jobs", json=job)).raise_for_status()
        (state / "token").write_text(it.token)
        await serve(it.app, "127.0.0.1", 0, state=state, stop=stop)
    it.store.close()
    print("stopped in good order", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def app() -> FastAPI:
    """The application of a service that does not run: nothing is asked of it."""
    return create_app(cast(Any, None), Tokens(MemoryTokens()))


def test_a_free_port_is_found_and_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(Serving(tmp_path), tmp_path) as url:
            address = read_address(tmp_path)
            assert address is not None
            assert (address.url, address.pid) == (url, os.getpid())
            assert (tmp_path / "address").stat().st_mode & 0o077 == 0
            async with httpx.AsyncClient() as http:
                assert (await http.get(f"{url}/healthz")).status_code == 200
        assert read_address(tmp_path) is None

    asyncio.run(run())


def test_the_port_stays_the_same_unless_somebody_else_has_it(tmp_path: Path) -> None:
    async def url() -> str:
        async with served(Serving(tmp_path), tmp_path) as url:
            return url

    async def run() -> None:
        first = await url()
        assert await url() == first  # those who run meanwhile know this one
        with socket.create_server(("127.0.0.1", int(first.rpartition(":")[2]))):
            other = await url()
        assert other != first
        assert await url() == other
        (tmp_path / "port").write_text("many")
        assert (await url()).startswith("http://127.0.0.1:")

    asyncio.run(run())


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "example.com", ""])
def test_nothing_listens_beyond_this_machine_unasked(app: FastAPI, tmp_path: Path, host: str) -> None:
    with pytest.raises(InputError, match="--listen"):
        asyncio.run(serve(app, host, 0, state=tmp_path, stop=asyncio.Event()))
    assert list(tmp_path.iterdir()) == []


def test_every_address_when_asked(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(Serving(tmp_path, hosts=("0.0.0.0",)), tmp_path, host="0.0.0.0") as url:
            assert url.startswith("http://127.0.0.1:")
            async with httpx.AsyncClient() as http:
                assert (await http.get(f"{url}/healthz")).status_code == 200

    asyncio.run(run())


def test_a_port_that_is_taken(app: FastAPI, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"cannot listen on 127.0.0.1:{port}"):
            asyncio.run(serve(app, "127.0.0.1", port, state=tmp_path, stop=asyncio.Event()))
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_is_none(app: FastAPI, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no address of this machine"):
        asyncio.run(serve(app, "no such host", 0, state=tmp_path, stop=asyncio.Event(), listen=True))


def test_an_answer_under_way_is_finished(tmp_path: Path) -> None:
    async def run() -> None:
        it, begun, go = Serving(tmp_path), asyncio.Event(), asyncio.Event()

        async def slow(*arguments: Any, **options: Any) -> list[Submitted]:
            begun.set()
            await go.wait()
            return await submit(*arguments, **options)

        async with httpx.AsyncClient(headers=it.headers, timeout=PATIENCE_S) as http:
            async with served(it, tmp_path) as url:
                submit = it.backend.submit
                it.backend.submit = slow  # type: ignore[method-assign]
                answer = asyncio.ensure_future(http.post(f"{url}/api/v1/jobs", json={"command": ["true"]}))
                await until(begun.is_set)
                asyncio.get_running_loop().call_later(0.3, go.set)
            assert (await answer).status_code == 201

    asyncio.run(run())


def test_signals_are_left_to_the_caller(tmp_path: Path) -> None:
    async def run() -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        async with served(Serving(tmp_path), tmp_path):
            assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_open_streams_and_the_service(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as (process, url):
        headers = {"Authorization": f"Bearer {(tmp_path / 'token').read_text()}"}
        with (
            httpx.Client(headers=headers, timeout=PATIENCE_S) as http,
            http.stream("GET", f"{url}/api/v1/events/stream") as first,
            http.stream("GET", f"{url}/api/v1/events/stream") as second,
        ):
            texts = [first.iter_text(), second.iter_text()]
            assert all(next(text) for text in texts)
            process.send_signal(number)
            for text in texts:
                assert list(text)[-1:] != [None]  # it ends, and not by a broken connection
        output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output, errors) == (0, "stopped in good order\n", "")
    assert read_address(tmp_path) is None


def test_a_reader_who_does_not_read_cannot_keep_it_from_stopping(tmp_path: Path) -> None:
    with running(tmp_path, jobs=500, goodbye_s=0.5) as (process, url):
        host, port = url.removeprefix("http://").split(":")
        token = (tmp_path / "token").read_text()
        with socket.create_connection((host, int(port))) as silent:
            silent.sendall(
                f"GET /api/v1/events/stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            assert silent.recv(10).startswith(b"HTTP/1.1 2")
            before, waiting = -1, 0
            while waiting != before or not waiting:  # until nothing more fits between the two
                before, waiting = waiting, _unread(silent)
                time.sleep(0.2)
            process.terminate()
            output, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output, errors) == (0, "stopped in good order\n", "")


def _unread(connection: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]


@contextlib.contextmanager
def running(state: Path, jobs: int = 1, goodbye_s: float = server.GOODBYE_S):  # type: ignore[no-untyped-def]
    """The service in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(state), str(jobs), str(goodbye_s)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not (state / "address").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield process, json.loads((state / "address").read_text())["url"]
        finally:
            process.kill()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "]
)
@pytest.mark.parametrize("after", [0, 1], ids=["at first", "after another"])
def test_half_a_request_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, after: int
) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.3)
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    async def run() -> None:
        async with served(Serving(tmp_path), tmp_path) as url, asyncio.timeout(PATIENCE_S):
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(after):
                writer.write(whole)
                assert b"200" in await reader.readline()
            if after and not sent:
                await asyncio.sleep(0.6)  # between requests it may take its time
                writer.write(whole)
                await reader.readuntil(b"HTTP/1.1 200")
            else:
                writer.write(sent)
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()  # to its end
            writer.close()

    asyncio.run(run())


ENDLESS = b"x" * 8192


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        b"POST /api/v1/quote HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST /api/v1/quote HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: ",
    ],
    ids=["url", "header", "piece of a body", "after the body"],
)
def test_what_is_no_body_is_read_up_to_a_limit(tmp_path: Path, begun: bytes) -> None:
    async def run() -> None:
        async with served(Serving(tmp_path), tmp_path) as url, asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(begun)
            sent = 0
            with contextlib.suppress(ConnectionError):
                while not writer.is_closing() and sent < 100 * len(ENDLESS):
                    writer.write(ENDLESS)
                    await writer.drain()
                    sent += len(ENDLESS)
                    await asyncio.sleep(0)
                assert b" 400 " in await reader.readline()
            assert sent < 100 * len(ENDLESS)
            writer.close()

    asyncio.run(run())


def test_many_small_pieces_of_a_body_are_read(tmp_path: Path) -> None:
    async def run() -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(2_000):
                yield 20 * b" "
            yield b"{}"

        it = Serving(tmp_path)
        async with served(it, tmp_path) as url, asyncio.timeout(PATIENCE_S):
            headers = {**it.headers, "Content-Type": "application/json"}
            async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
                answer = await http.post(f"{url}/api/v1/quote", content=pieces())
            assert answer.status_code == 422
            assert "command" in answer.text  # all of the body has been read

    asyncio.run(run())


def test_an_upgrade_that_is_only_offered_changes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        it = Serving(tmp_path)
        async with served(it, tmp_path) as url, asyncio.timeout(PATIENCE_S):
            offered = {
                "Connection": "Upgrade, HTTP2-Settings",
                "Upgrade": "h2c",
                "HTTP2-Settings": "AAMAAABkAAQ",
            }
            async with httpx.AsyncClient(headers={**it.headers, **offered}, timeout=PATIENCE_S) as http:
                job = {"command": ["true"], "workdir": "/"}
                for _ in range(2):
                    assert (await http.post(f"{url}/api/v1/jobs", json=job)).status_code == 201

    asyncio.run(run())
