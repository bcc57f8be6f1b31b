"""The how-to about Ray Tune, followed: its trials are one set, whose width and promise change as jobs come."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.client import Client
from tests.docs.pages import BLOCK, text_of
from tests.service.executors.ray.served import PATIENCE_S, RayOnThisMachine, until

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytest.importorskip("tensorboardX", reason="Ray Tune is not installed (ray[tune])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
TRIALS = 4
POLICY = "wfq:thresholds=10,weights=1/2+1/2"


@pytest.fixture
def address() -> Iterator[str]:
    """A cluster of one node, for Tune alone."""
    ray = RayOnThisMachine()
    yield ray.address
    ray.end()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Client]:
    """A service on this machine."""
    command = [sys.executable, "-m", "betimes", "up", "--json", "--service", str(tmp_path / "state")]
    process = subprocess.Popen([*command, "--policy", POLICY], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    json.loads(process.stdout.readline())
    with Client(state=tmp_path / "state") as client:
        yield client
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)


def _expected(service: Client) -> float:
    """When the set is expected to be done, as of now."""
    estimate = service.job(1).job.estimate
    return -math.inf if estimate is None or estimate.finish_at is None else estimate.finish_at


def test_tunes_trials_are_one_set(address: str, service: Client, tmp_path: Path) -> None:
    for block in BLOCK.finditer(text_of("docs/how-to/ray-tune.md")):
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["body"], encoding="utf-8")
    cores = int(sum(node.cpu for node in service.nodes()))
    if cores < 2:
        pytest.skip("this machine has one core: a set has no width to change")
    # Ray keeps what it needs at home, and Tune its results.
    env = {"RAY_ADDRESS": address, "BETIMES_STATE": str(tmp_path / "state"), "HOME": str(tmp_path)}
    search = subprocess.Popen(
        [sys.executable, "search.py", str(TRIALS * cores)],
        cwd=tmp_path,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: search.poll() is not None or any(service.iterate_jobs()))
        assert search.poll() is None
        until(lambda: service.job(1).job.units == cores)
        before = _expected(service)
        other = service.submit(command=["sleep", "3"], max_units=cores, min_units=1, estimate_s=3.0).job_id
        until(lambda: service.job(1).job.units < cores)  # the short jobs' class has half of the units
        until(lambda: _expected(service) > before)
        service.wait(other)
        out, _ = search.communicate(timeout=PATIENCE_S)
        assert search.returncode == 0
        assert 0.0 <= float(out.split("best rate ")[1].split()[0]) <= 1.0
        story = service.job(1)
        assert story.job.status == "finished"
        assert [trial.status for trial in story.trials] == ["finished"] * TRIALS * cores
    finally:
        search.kill()
