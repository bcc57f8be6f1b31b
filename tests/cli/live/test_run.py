"""`betimes run` with a service that really runs jobs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
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


def test_an_array_is_refused(betimes: Call) -> None:
    said = betimes("run", "--array", "1-3", "--", "true")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "run: it takes one job" in said.err
