"""`betimes up --replay` says how far it is, and sums up at the end."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.cli.live.replayed import Tally, told_as_it_goes
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


def test_errors_of_promises_count_from_the_promise_as_those_of_accuracy_do() -> None:
    tally = Tally(jobs=2)
    for at, kind, job, finish_at, median_at in (
        (0.0, "submitted", 1, None, None),
        (50.0, "quoted", 1, 150.0, None),
        (60.0, "quoted", 1, 250.0, None),  # a later promise counts for nothing
        (100.0, "submitted", 2, None, None),
        (100.0, "quoted", 2, 180.0, 200.0),
        (200.0, "finished", 1, None, None),
        (250.0, "finished", 2, None, None),
    ):
        tally.take(at, kind, job, {"finish_at": finish_at, "quote": {"finish_median_at": median_at}})
    assert tally.errors == [0.5, 0.5]


def test_a_promise_for_the_instant_at_which_it_is_made_has_no_error() -> None:
    tally = Tally(jobs=1)
    tally.take(0.0, "submitted", 1, {})
    tally.take(1.0, "quoted", 1, {"finish_at": 1.0, "quote": {"finish_median_at": None}})
    tally.take(2.0, "finished", 1, {})
    assert (tally.over, tally.errors) == (1, [])


def test_where_jobs_stand() -> None:
    assert standing([]) == "jobs: none"
    assert standing(["held"] * 93) == "jobs: 93 held"
    several = ["held", "running", "stopping", "queued", "blocked", "running"]
    assert standing(several) == "jobs: 3 running, 2 waiting, 1 held"
