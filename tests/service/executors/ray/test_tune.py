"""The how-to about Ray Tune, followed: its trials are one set, whose width and promise change as jobs come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, text_of
from tests.service.executors.ray.served import PATIENCE_S, RayOnThisMachine, ServiceOnRay, until

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytest.importorskip("tensorboardX", reason="Ray Tune is not installed (ray[tune])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
TRIALS = 4


def test_tunes_trials_are_one_set(ray: RayOnThisMachine, service: ServiceOnRay, tmp_path: Path) -> None:
    for block in BLOCK.finditer(text_of("docs/how-to/ray-tune.md")):
        (tmp_path / block["file"]).write_text(block["body"], encoding="utf-8")
    before = service.client.policy().policy
    service.client.set_policy("wfq:weights=1")
    env = {"RAY_ADDRESS": ray.address, "BETIMES_STATE": str(service.state), "HOME": str(tmp_path)}
    search = subprocess.Popen(
        [sys.executable, "search.py", str(TRIALS)],
        cwd=tmp_path,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: bool(service.client.jobs(name="search").jobs))
        number = min(job.job_id for job in service.client.jobs(name="search").jobs)
        until(lambda: service.job(number).units == 3)
        promised = service.client.job(number).quotes[-1].finish_at
        other = service.submit("sleep", "1", max_units=2, min_units=2, priority=1)
        out, _ = search.communicate(timeout=PATIENCE_S)
        assert search.returncode == 0
        assert 0.0 <= float(out.split("best rate ")[1].split()[0]) <= 1.0
        service.until(other, "finished")
        story = service.client.job(number)
        assert story.job.status == "finished"
        assert [trial.status for trial in story.trials] == ["finished"] * TRIALS
        widths = [event.data["units"] for event in story.events if event.kind == "granted"]
        assert len(set(widths)) > 1
        assert len({quote.finish_at for quote in story.quotes} | {promised}) > 1
    finally:
        search.kill()
        service.client.set_policy(before)
