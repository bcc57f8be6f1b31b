"""`betimes up --replay` says how far it is, and sums up at the end."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.cli.live.replayed import told_as_it_goes
from betimes.cli.render.jobs import standing
from betimes.service.runtime.replay import Arrivals, cluster_for, machines_for
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.workload import Workload
from betimes.workload.generators import generate
from tests.service.serving import PATIENCE_S

JOBS = 30


def replayed(
    workload: Workload, units: int, speed: float, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """What is printed until all of the jobs have run."""
    cluster = cluster_for(units, None)
    options = ServiceConfig(state=folder, machines=machines_for(cluster), speed=speed)
    options = replace(options, arrivals=Arrivals(workload, cluster, "fifo"))
    out = err = ""

    async def main() -> None:
        nonlocal out, err
        async with running(options) as service:
            with told_as_it_goes(service.controller, len(workload)):
                async with asyncio.timeout(PATIENCE_S):
                    while not out.endswith("until Ctrl-C.\n"):  # the last thing that is said
                        await asyncio.sleep(0.01)
                        said = capsys.readouterr()
                        out += said.out
                        err += said.err

    asyncio.run(main())
    return out, err


def test_progress_and_a_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("betimes.cli.live.replayed.EVERY_S", 0.0)
    workload = generate(f"demo:jobs={JOBS}", seed=1, units=8)
    out, err = replayed(workload, 8, math.inf, tmp_path, capsys)
    lines = err.splitlines()
    assert all(line.startswith("betimes: ") and "of the trace: " in line for line in lines)
    assert lines[0].endswith("not started yet")
    assert "All of the trace has run:" in out
    assert f"{JOBS} finished" in out
    assert out.count("JCT") >= 1
    assert out.endswith("The service runs on until Ctrl-C.\n")


def test_a_replay_begins_at_the_first_submission(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    submit_s = 1_700_000_000.0  # at this speed 5.5 days after 0
    workload = Workload.from_columns(submit_s=[submit_s, submit_s + 60.0], work_s=[60.0, 60.0])
    out, _ = replayed(workload, 1, 3600.0, tmp_path, capsys)
    assert "2 finished" in out


def test_where_jobs_stand() -> None:
    assert standing([]) == "jobs: none"
    assert standing(["held"] * 93) == "jobs: 93 held"
    several = ["held", "running", "stopping", "queued", "blocked", "running"]
    assert standing(several) == "jobs: 3 running, 2 waiting, 1 held"
