"""A service on a cluster is killed again and again: no job is lost, doubled, or ends without a record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.service.executors.ray.served import RayOnThisMachine
from tests.service.reliability.test_killed import kill_often

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

IS_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
JOBS, KILLS = (200, 25) if IS_THOROUGH else (40, 2)  # each start of a service joins the cluster, for seconds


def test_no_job_is_lost_or_doubled_whenever_the_service_is_killed(
    ray: RayOnThisMachine, tmp_path: Path
) -> None:
    found = kill_often(tmp_path, jobs=JOBS, kills=KILLS, seed=19, ray=ray.address)
    assert found["jobs"] >= JOBS
