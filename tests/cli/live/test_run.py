"""`betimes run` with a service that really runs jobs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from tests.cli.conftest import Call, program


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BETIMES_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def test_it_ends_as_the_command_does(state: Path) -> None:
    async def story() -> None:
        async with running(ServiceConfig(state=state)):
            for script, code, out in (
                ("echo hello; exit 7", 7, "hello\n"),
                ("printf no-end", 0, "no-end"),
                ("kill -9 $$", 128 + signal.SIGKILL, ""),
            ):
                said = await asyncio.to_thread(program, "run", "--", "sh", "-c", script)
                assert (said.code, said.out) == (code, out)
                assert said.err.startswith("betimes: job ")
                assert said.err.count("\n") == 1
            said = await asyncio.to_thread(program, "run", "--json", "--", "echo", "out")
            assert said.json()["status"] == "finished"
            assert said.err.endswith("\nout\n")

    asyncio.run(story())


def test_an_interrupt_cancels_the_job_and_shows_the_rest_of_its_output(state: Path) -> None:
    script = "trap 'echo over; exit 3' TERM; echo begun; while :; do sleep 0.1; done"
    call = [sys.executable, "-m", "betimes", "run", "--", "sh", "-c", script]

    def interrupted() -> tuple[int, str]:
        with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            return process.wait(), first + rest

    async def story() -> None:
        async with running(ServiceConfig(state=state)):
            code, out = await asyncio.to_thread(interrupted)
            assert code == 130
            assert (out.splitlines()[0], out.splitlines()[-1]) == ("begun", "over")
            jobs = (await asyncio.to_thread(program, "jobs", "--all", "--json")).json()
            assert [job["status"] for job in jobs] == ["cancelled"]

    asyncio.run(story())


def test_a_running_job_is_followed_from_now_on(state: Path, tmp_path: Path) -> None:
    script = f"echo early; until test -e {tmp_path}/end; do echo tick; sleep 0.1; done; exit 5"
    terminal, theirs = os.openpty()

    def attached(job: str, stdin: int) -> subprocess.Popen[str]:
        call = [sys.executable, "-m", "betimes", "attach", job]
        child = subprocess.Popen(call, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "tick\n"  # it is there, and has left out what came before
        return child

    def said(child: subprocess.Popen[str]) -> str:
        """Its first line on standard error, up to the question."""
        assert child.stderr is not None
        return child.stderr.readline() + child.stderr.read(len("betimes: cancel job 1?"))

    def begun(*options: str) -> None:
        job = program("submit", "--id-only", *options, "--", "sh", "-c", script).out.strip()
        while "tick" not in program("logs", job).out:
            time.sleep(0.1)

    def try_it() -> None:
        begun("--grace", "0")
        for answer, status in ((b"\n", "running"), (b"y\n", "cancelled")):
            with attached("1", theirs) as child:
                child.send_signal(signal.SIGINT)
                assert said(child) == "\nbetimes: cancel job 1?"
                os.write(terminal, answer)
                child.communicate()
                assert child.returncode == 130
            assert program("status", "1").out == f"{status}\n"
        begun()
        with attached("2", subprocess.DEVNULL) as child:
            (tmp_path / "end").touch()
            child.communicate()
            assert child.returncode == 5

    async def story() -> None:
        async with running(ServiceConfig(state=state)):
            await asyncio.to_thread(try_it)

    try:
        asyncio.run(story())
    finally:
        os.close(terminal)
        os.close(theirs)


def test_a_job_has_this_terminal(state: Path) -> None:
    script = "trap 'stty size' WINCH; trap 'echo got; exit 3' INT; stty size; while :; do sleep 0.1; done"
    terminal, theirs = os.openpty()

    def resize(rows: int, columns: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(text: bytes) -> None:
        shown = b""
        while text not in shown:
            shown += os.read(terminal, 1024)

    def begun() -> subprocess.Popen[bytes]:
        call = [sys.executable, "-m", "betimes", "run", "--pty", "--estimate", "1s", "--", "sh", "-c", script]
        child = subprocess.Popen(call, stdin=theirs, stdout=theirs, stderr=theirs)
        until(b"33 101\r\n")
        return child

    def try_it() -> None:
        before = termios.tcgetattr(terminal)
        resize(33, 101)
        with begun() as child:
            resize(40, 90)
            child.send_signal(signal.SIGWINCH)
            until(b"40 90\r\n")
            os.write(terminal, b"\x03")
            until(b"got\r\n")
            assert child.wait() == 3
        assert termios.tcgetattr(terminal) == before
        assert "40 90" in program("logs", "1").out
        assert "(in a terminal)" in " ".join(program("job", "1").out.split())
        resize(33, 101)
        with begun() as child:
            child.kill()  # the terminal is closed
        assert program("wait", "2").code == 1
        said = subprocess.run(
            [sys.executable, "-m", "betimes", "run", "--pty", "--", "cat"],
            input=b"typed\n", capture_output=True, check=False,
        )  # fmt: skip
        assert (said.returncode, said.stdout) == (0, b"typed\r\ntyped\r\n")
        said = program("run", "--pty", "--conda", "no-such", "--", "true")
        assert said.code == 127
        assert "conda" in said.err
        assert "it does not go with --json" in program("run", "--pty", "--json", "--", "true").err

    async def story() -> None:
        async with running(ServiceConfig(state=state)):
            await asyncio.to_thread(try_it)

    try:
        asyncio.run(story())
    finally:
        os.close(terminal)
        os.close(theirs)


def test_an_array_is_refused(betimes: Call) -> None:
    said = betimes("run", "--array", "1-3", "--", "true")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "run: it takes one job" in said.err
