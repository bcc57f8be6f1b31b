"""A real service that can be killed and started again, and what is asked of it over its socket."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.service.executors.running import clear_up

PATIENCE_S = 120.0
SOURCES = Path(__file__).resolve().parents[3]


class Gone(Exception):
    """The service has not answered: nobody knows whether it did what it was asked."""


class Starter:
    """Starts services; one at a time is asked."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said = b""
        self.begin()

    def begin(self) -> None:
        """For another test: no service, and no connection to one."""
        self.pid = 0
        self.states: set[Path] = set()
        self.ready: dict[str, Any] = {}
        self.client = httpx.Client(timeout=PATIENCE_S)

    def start(self, state: Path, **options: Any) -> dict[str, Any]:
        """Start a service and wait until it is ready; what it says, or why it will not."""
        assert self.process.stdin is not None
        self.states.add(state)
        self.process.stdin.write(json.dumps({"state": str(state), **options}).encode() + b"\n")
        self.process.stdin.flush()
        pid, heard = 0, dict[int, dict[str, Any]]()
        while pid not in heard:
            said = self._heard()
            if "begun" in said:
                pid = said["begun"]
            else:  # also of an earlier one, at its end
                heard[said["pid"]] = said
        if "url" in heard[pid]:
            self.pid, self.ready = pid, heard[pid]
        return heard[pid]

    def _heard(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        give_up = time.monotonic() + PATIENCE_S
        while b"\n" not in self.said:
            if select.select([self.process.stdout], [], [], 1.0)[0]:
                more = os.read(self.process.stdout.fileno(), 65536)
                assert more, f"the starter has ended with code {self.process.wait(PATIENCE_S)}"
                self.said += more
            assert time.monotonic() < give_up, "no answer of a service that was started"
        line, _, self.said = self.said.partition(b"\n")
        return json.loads(line)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the service, and see that it has."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            until(lambda: not Path(f"/proc/{self.pid}").exists())
            self.pid = 0

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None, **params: Any) -> Any:
        """What the service answers; raises Gone, and HTTPStatusError for a refusal."""
        headers = {"Authorization": f"Bearer {self.ready['token']}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            url = f"{self.ready['url']}/api/v1{path}"
            answer = self.client.request(method, url, json=body, params=params, headers=headers)
        except httpx.TransportError as error:
            raise Gone(str(error)) from error
        answer.raise_for_status()
        return answer.json()

    def everything(self, path: str, after: int | None = None, **params: Any) -> list[dict[str, Any]]:
        """All pages of a list."""
        found: list[dict[str, Any]] = []
        while True:
            more = {} if after is None else {"after": after}
            page = self.ask("GET", path, limit=1000, **more, **params)
            found += page["items"]
            if page["following"] is None:
                return found
            after = page["following"]


_starters: dict[tuple[tuple[str, str], ...], Starter] = {}  # by environment


@contextmanager
def starter(**env: str) -> Iterator[Starter]:
    """A starter; its service is killed in the end, and the jobs with it.

    Its process, which takes seconds for its imports, serves the tests after this one, until `end_starters`.
    """
    key = tuple(sorted(env.items()))
    if key in _starters:
        _starters[key].begin()
    else:
        _starters[key] = Starter(_process(env))
    one = _starters[key]
    try:
        yield one
    finally:
        one.kill()
        for state in one.states:
            clear_up(state)
        one.client.close()


def _process(env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.service.reliability.starter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=SOURCES,
        env={**os.environ, "PYTHONPATH": f"{SOURCES / 'src'}:{SOURCES}", "NUMBA_DISABLE_JIT": "1", **env},
    )


def end_starters() -> None:
    """End the starters' processes."""
    while _starters:
        process = _starters.popitem()[1].process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait(PATIENCE_S)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended, and was not waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(holds: Any, patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    give_up = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < give_up, "in vain"
        time.sleep(0.01)


def runs_below(folder: Path) -> list[int]:
    """The processes of runs whose folders are below this one."""
    mark, found = f"BETIMES_RUN_DIR={folder}".encode(), list[int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if any(part.startswith(mark) for part in environ.split(b"\0")) and alive(int(entry.name)):
                found.append(int(entry.name))
    return found
