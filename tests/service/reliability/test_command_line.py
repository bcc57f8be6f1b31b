"""`betimes up` as it is typed: killed, started again, and a second one beside it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.service.reliability.starting import PATIENCE_S, SOURCES, until

ENV = {**os.environ, "PYTHONPATH": str(SOURCES / "src"), "NUMBA_DISABLE_JIT": "1"}


def up(state: Path, *options: str, **env: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "betimes.cli.main", "up", "--service", str(state), "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENV, **env})


BROKEN = """
from betimes.policies import priority

@priority(summary="It does not compile.")
def broken(view, now, chosen, key):
    key[0] = view.nothing_of_this_name
"""


def ready(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE_S)[0]
    return json.loads(process.stdout.readline())


def end(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)


@pytest.mark.slow
def test_what_ran_when_the_service_was_killed_is_adopted(tmp_path: Path) -> None:
    state, gate = tmp_path / "state", tmp_path / "gate"

    def ask(url: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {(state / 'token').read_text().strip()}"}
        found = httpx.request(method, f"{url}/api/v1{path}", json=body, headers=headers, timeout=PATIENCE_S)
        return found.raise_for_status().json()

    first = up(state)
    url = ready(first)["url"]
    wait = ["sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done; exit 5"]
    job = ask(url, "POST", "/jobs", {"command": wait, "workdir": "/"})["job_id"]
    until(lambda: ask(url, "GET", f"/jobs/{job}")["job"]["status"] == "running")
    end(first, signal.SIGKILL)
    second = up(state)
    url = ready(second)["url"]
    third = up(state)
    said, trouble = third.communicate(timeout=PATIENCE_S)
    assert (third.returncode, said) == (1, b"")
    assert trouble.count(b"\n") == 1
    assert f"the service with pid {second.pid} on ".encode() in trouble
    assert ask(url, "GET", f"/jobs/{job}")["job"]["status"] == "running"
    gate.touch()
    until(lambda: ask(url, "GET", f"/jobs/{job}")["job"]["status"] == "failed")
    story = ask(url, "GET", f"/jobs/{job}")
    assert [(run["outcome"], run["exit_code"]) for run in story["runs"]] == [("exited", 5)]
    assert story["job"]["reason"]["text"] == "exited with 5"
    end(second, signal.SIGTERM)
    assert second.returncode == 0


@pytest.mark.slow
def test_a_policy_that_does_not_compile_ends_the_service_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(BROKEN, encoding="utf-8")
    named = ("--policy-files", str(tmp_path), "--policy", f"{file}:broken")
    service = up(tmp_path / "state", *named, NUMBA_DISABLE_JIT="0")
    assert ready(service)["compiling"]
    _, trouble = service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 2
    (line,) = [each for each in trouble.decode().splitlines() if "compiling policy" not in each]
    assert line.startswith("betimes: policy broken")
    assert "does not compile" in line


@pytest.mark.slow
def test_a_service_that_compiles_is_stopped_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    env = {"NUMBA_DISABLE_JIT": "0", "BETIMES_CACHE_DIR": str(tmp_path / "cache")}
    service = up(tmp_path / "state", **env)
    assert ready(service)["compiling"]
    children = psutil.Process(service.pid).children
    until(children)
    compiling = children(recursive=True)
    service.send_signal(signal.SIGINT)
    _, trouble = service.communicate(timeout=PATIENCE_S)
    assert (service.returncode, trouble) == (0, b"")
    assert not any(each.is_running() for each in compiling)
