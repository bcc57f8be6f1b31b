"""Output is served as it was written, over rotations, and followed until its run is over."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.service.executors.log_files import LogCursor
from betimes.service.executors.virtual import DEFAULT_WORK_S
from tests.service.serving import PATIENCE_S, Serving, served, until


class Log:
    """A log as its writer sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, text: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(text)

    def rotate(self, keep: int = 9) -> None:
        for number in range(keep, 0, -1):
            old = self.path.with_name(f"log.{number}")
            if old.exists():
                old.rename(self.path.with_name(f"log.{number + 1}")) if number < keep else old.unlink()
        if self.path.exists():
            self.path.rename(self.path.with_name("log.1"))


def whole(cursor: LogCursor) -> bytes:
    text = b""
    while chunk := cursor.read():
        text += chunk
    return text


def test_files_are_read_from_the_oldest_to_the_newest(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    for number in range(12):
        log.write(f"{number}\n".encode())
        log.rotate(keep=20)
    log.write(b"last")
    (tmp_path / "log.old").write_text("another's")
    (tmp_path / "log.lock").write_text("another's")
    cursor = LogCursor(log.path)
    assert whole(cursor) == b"".join(b"%d\n" % number for number in range(12)) + b"last"
    cursor.close()


@given(
    texts=st.lists(st.lists(st.binary(max_size=6).map(lambda text: text + b"\n")), min_size=1, max_size=5),
    end=st.binary(max_size=3),
    tail=st.integers(0, 40),
)
def test_the_tail_is_the_last_lines(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[bytes]], end: bytes, tail: int
) -> None:
    log = Log(tmp_path_factory.mktemp("log") / "log")
    for number, lines in enumerate(texts):
        if number:
            log.rotate()
        log.write(b"".join(lines))
    log.write(end)
    everything = b"".join(b"".join(lines) for lines in texts) + end
    cursor = LogCursor(log.path, tail)
    lines = everything.split(b"\n")
    whole_lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    assert whole(cursor) == b"".join(whole_lines[max(0, len(whole_lines) - tail) :])
    cursor.close()


def test_the_tail_of_long_lines(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    lines = [bytes([65 + n]) * 50_000 + b"\n" for n in range(10)]
    log.write(b"".join(lines))
    cursor = LogCursor(log.path, 4)
    assert whole(cursor) == b"".join(lines[-4:])
    cursor.close()


@given(st.lists(st.sampled_from(["write", "rotate", "read"]), max_size=60))
def test_reading_and_rotating_in_any_order_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    log = Log(tmp_path_factory.mktemp("log") / "log")
    cursor = LogCursor(log.path)
    written, seen = b"", b""
    for number, step in enumerate(steps):
        if step == "write":
            log.write(b"%d\n" % number)
            written += b"%d\n" % number
        elif step == "rotate":
            log.rotate(keep=100)
        else:
            seen += cursor.read()
    assert seen + whole(cursor) == written
    cursor.close()


def test_a_writer_in_a_hurry_loses_nothing(tmp_path: Path) -> None:
    """Files are renamed at any moment of the reader's looking."""
    log = Log(tmp_path / "log")
    lines = [b"%d\n" % number for number in range(800)]

    def write() -> None:
        for number, line in enumerate(lines):
            log.write(line)
            if number % 10 == 9:
                log.rotate(keep=1000)
                os.sched_yield()

    writer = threading.Thread(target=write)
    cursor = LogCursor(log.path)
    writer.start()
    seen = b""
    while writer.is_alive():
        seen += cursor.read()
    writer.join()
    seen += whole(cursor)
    cursor.close()
    assert seen == b"".join(lines)


def test_a_reader_that_falls_behind_goes_on_with_what_is_left(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.write(b"0\n")
    cursor = LogCursor(log.path)
    assert cursor.read() == b"0\n"
    for number in range(1, 6):
        log.rotate(keep=2)
        log.write(b"%d\n" % number)
    assert whole(cursor) == b"3\n4\n5\n"
    cursor.close()


def test_a_log_that_its_writer_empties_is_read_from_its_start(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.write(b"a long first line\n")
    cursor = LogCursor(log.path)
    assert whole(cursor) == b"a long first line\n"
    os.truncate(log.path, 0)
    log.write(b"new\n")
    assert whole(cursor) == b"new\n"
    cursor.close()


def test_what_is_no_log_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of another")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "log.1")
    (tmp_path / "log.2").mkdir()
    for tail in (None, 5):
        cursor = LogCursor(tmp_path / "log", tail)
        assert whole(cursor) == b""
        cursor.close()


JOB = {"command": ["true"], "grace_s": 0}


def test_the_output_of_any_attempt(it: Serving) -> None:
    it.ask("POST", "/api/v1/jobs", json=JOB)
    it.ask("POST", "/api/v1/jobs/1/requeue")
    it.pass_time(1.0)
    it.log(1, 2).write_bytes(b"second \xff\n")
    it.log(1, 1).write_bytes(b"first\n")
    latest = it.ask("GET", "/api/v1/jobs/1/log")
    assert (latest.content, latest.headers["content-type"]) == (b"second \xff\n", "text/plain; charset=utf-8")
    assert it.ask("GET", "/api/v1/jobs/1/log", params={"attempt": 1, "tail": 1}).content == b"first\n"
    assert it.ask("GET", "/api/v1/jobs/1/log", params={"attempt": 3}).status_code == 404
    assert it.ask("GET", "/api/v1/jobs/1/log", params={"attempt": 0}).status_code == 422


def test_a_job_that_has_not_run_has_no_output(standing: Serving) -> None:
    response = standing.ask("GET", "/api/v1/jobs/1/log")
    assert response.status_code == 404
    assert "has not run" in response.json()["error"]["message"]


Life = Callable[[Serving, httpx.AsyncClient], AsyncIterator[int]]


def followed(folder: Path, life: Life, **fields: Any) -> bytes:
    """All that a follower of a job gets while `life` goes on; what it yields is how many bytes must have arrived."""
    it = Serving(folder / "service")

    async def run() -> bytes:
        text, begun = b"", asyncio.Event()
        async with (
            served(it, folder / "state") as url,
            httpx.AsyncClient(timeout=PATIENCE_S, headers=it.headers, base_url=f"{url}/api/v1") as http,
        ):
            await http.post("/jobs", json={**JOB, **fields})

            async def read() -> None:
                nonlocal text
                async with http.stream("GET", "/jobs/1/log", params={"follow": True}) as response:
                    assert response.status_code == 200
                    begun.set()
                    async for chunk in response.aiter_bytes():
                        text += chunk

            reading = asyncio.ensure_future(read())
            await until(begun.is_set)
            async for size in life(it, http):
                await until(lambda size=size: len(text) >= size)
            async with asyncio.timeout(PATIENCE_S):
                await reading
        return text

    return asyncio.run(run())


def test_a_run_is_followed_over_rotations_to_its_end(tmp_path: Path) -> None:
    async def life(it: Serving, _: httpx.AsyncClient) -> AsyncIterator[int]:
        log = Log(it.log(1))
        log.write(b"one\n")
        yield 4
        log.write(b"two\n")
        log.rotate()
        log.write(b"three\n")
        yield 14
        log.write(b"the end")
        await it.advance(DEFAULT_WORK_S)

    assert followed(tmp_path, life) == b"one\ntwo\nthree\nthe end"


def test_following_ends_with_the_attempt_though_the_job_goes_on(tmp_path: Path) -> None:
    async def life(it: Serving, http: httpx.AsyncClient) -> AsyncIterator[int]:
        it.log(1).write_bytes(b"preempted\n")
        yield 10
        await http.post("/jobs/1/requeue")
        await it.advance(1.0)
        assert (await http.get("/jobs/1")).json()["job"]["attempt"] == 2

    assert followed(tmp_path, life) == b"preempted\n"


def test_following_waits_for_the_first_run(tmp_path: Path) -> None:
    async def life(it: Serving, http: httpx.AsyncClient) -> AsyncIterator[int]:
        yield 0
        await http.post("/jobs/1/release")
        it.log(1).write_bytes(b"at last\n")
        yield 8
        await it.advance(DEFAULT_WORK_S)

    assert followed(tmp_path, life, hold=True) == b"at last\n"


def test_following_a_job_that_is_cancelled_before_it_runs_ends(tmp_path: Path) -> None:
    async def life(_: Serving, http: httpx.AsyncClient) -> AsyncIterator[int]:
        yield 0
        await http.post("/jobs/1/cancel")

    assert followed(tmp_path, life, hold=True) == b""


def test_following_ends_with_the_service(tmp_path: Path) -> None:
    it = Serving(tmp_path / "service")

    async def run() -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_S, headers=it.headers) as http:
            async with served(it, tmp_path / "state") as url:
                await http.post(f"{url}/api/v1/jobs", json=JOB)
                it.log(1).write_bytes(b"going on\n")
                request = http.build_request("GET", f"{url}/api/v1/jobs/1/log", params={"follow": True})
                response = await http.send(request, stream=True)
            assert await response.aread() == b"going on\n"

    asyncio.run(run())
