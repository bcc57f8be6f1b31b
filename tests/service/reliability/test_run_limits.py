"""What a job's story says of its memory limit, and of output that is not kept."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.service.reliability.starting import Starter, starter, until

MIB = 1 << 20


def test_a_job_whose_processes_exceed_its_limit_together_says_so(tmp_path: Path) -> None:
    hungry = f"{sys.executable} -c 'import os, time; x = os.urandom({150 * MIB}); time.sleep(600)'"
    command = ["sh", "-c", " & ".join([hungry] * 3) + " & wait"]
    with starter() as service:
        service.start(tmp_path)
        job = submit(service, command=command, memory_gib=0.2)
        until(lambda: service.ask("GET", f"/jobs/{job}")["job"]["status"] == "failed")
        story = service.ask("GET", f"/jobs/{job}")
        assert story["job"]["reason"]["code"] == "out-of-memory"
        assert "MiB, limit 205 MiB" in story["job"]["reason"]["text"]
        (run,) = story["runs"]
        assert run["outcome"] == "out-of-memory"
        assert run["memory_limit_gib"] == 0.2
        assert run["memory_limited_by"] in ("polling", "cgroup v2")
        assert run["max_rss_gib"] > 0.2


def test_output_that_is_dropped_is_counted_while_the_job_runs_and_afterwards(tmp_path: Path) -> None:
    gate, printed = tmp_path / "gate", 200 * MIB
    script = f"head -c {printed} /dev/zero | tr '\\0' '\\n'; until [ -e {gate} ]; do sleep 0.02; done"
    with starter() as service:
        service.start(tmp_path / "state")
        job = submit(service, command=["sh", "-c", script])
        dropped = printed - 128 * MIB  # as four files of 32 MiB are kept
        until(lambda: lost_bytes(service, job) > 0)
        gate.touch()
        until(lambda: service.ask("GET", f"/jobs/{job}")["job"]["status"] == "finished")
        (run,) = service.ask("GET", f"/jobs/{job}")["runs"]
        assert dropped <= run["log_lost_bytes"] < dropped + 32 * MIB
        assert "bytes of its oldest output were dropped" in run["message"]


def submit(service: Starter, **job: object) -> int:
    return service.ask("POST", "/jobs", {"workdir": "/", **job})["job_id"]


def lost_bytes(service: Starter, job: int) -> int:
    return sum(run["log_lost_bytes"] or 0 for run in service.ask("GET", f"/jobs/{job}")["runs"])
