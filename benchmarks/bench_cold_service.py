"""With an empty cache a service takes its first job as soon as with a full one, and answers while it compiles.

From the start of `betimes up` to the answer to a submission, and to its promise; and what a submission takes while the
policy is compiled, beside what it takes afterwards.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from measuring import Table, arguments, introduce

JOB = {"command": ["true"], "workdir": "/", "hold": True}
AFTERWARDS = 50  # submissions that are timed when it has been compiled


def main() -> None:
    """Start services with an empty cache, and each again with what it has compiled."""
    given = arguments(__doc__)
    introduce(__doc__)
    table = Table("cache", "first job taken, s", "first promise, s", "a submission, ms", first=8)
    empty, full = [], []
    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory() as folder:
            empty.append(_served(Path(folder), "first"))
            full.append(_served(Path(folder), "second"))
    for name, found in (("empty", empty), ("full", full)):
        taken, promised, meanwhile = (statistics.median(each) for each in zip(*found, strict=True))
        table.line(name, taken, promised, 1000.0 * meanwhile)


def _served(folder: Path, name: str) -> tuple[float, float, float]:
    """Seconds until a job is taken, until one is promised an end, and of a submission until then or afterwards."""
    state = folder / name
    command = [sys.executable, "-m", "betimes", "up", "--service", str(state), "--json"]
    env = {**os.environ, "BETIMES_CACHE_DIR": str(folder / "cache")}
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            token = (state / "token").read_text(encoding="utf-8").strip()
            with httpx.Client(
                base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60
            ) as client:
                _submission(client)
                taken = time.perf_counter() - began
                meanwhile: list[float] = []
                while client.get("/readyz").status_code == 503:
                    meanwhile.append(_submission(client))
                    time.sleep(0.1)
                client.post("/api/v1/quote", json={**JOB, "hold": False}).raise_for_status()
                promised = time.perf_counter() - began
                return taken, promised, statistics.median(meanwhile or _several(client))
        finally:
            process.kill()


def _several(client: httpx.Client) -> list[float]:
    return [_submission(client) for _ in range(AFTERWARDS)]


def _submission(client: httpx.Client) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    client.post("/api/v1/jobs", json=JOB).raise_for_status()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
