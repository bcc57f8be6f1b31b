"""Directories that are sent along with jobs, on a real Ray cluster whose nodes do not see the service's disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.service.executors.ray.conftest import disks_can_be_hidden
from tests.service.executors.ray.served import ServiceOnRay

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

SHOW = (
    'test -e "$STATE/token" && echo sees || echo "does not see"; wc -c < data; cat sub/run.sh; echo x >> data'
)


@pytest.fixture(autouse=True, scope="module")
def hidden_disk() -> None:
    if not disks_can_be_hidden():
        pytest.skip("only root can give a process a disk of its own")


@pytest.fixture(scope="module")
def upload(service: ServiceOnRay, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory of more than the one piece in which it goes to a node."""
    code = tmp_path_factory.mktemp("code")
    (code / "sub").mkdir()
    (code / "sub" / "run.sh").write_text("#!/bin/sh\n" + SHOW + "\n")
    (code / "sub" / "run.sh").chmod(0o755)
    (code / "data").write_bytes(os.urandom(10 << 20))
    first, second = service.client.upload(code), service.client.upload(code)
    assert (first.sent, second.sent) == (True, False)
    assert second.sha256 == first.sha256
    return first.sha256


def log(service: ServiceOnRay, number: int, attempt: int | None = None, rank: int | None = None) -> list[str]:
    return b"".join(service.client.logs(number, attempt=attempt, rank=rank)).decode().splitlines()


def test_every_node_of_a_job_gets_its_own_copy(service: ServiceOnRay, upload: str) -> None:
    env = {"STATE": str(service.state)}
    job = service.submit("sub/run.sh", upload=upload, env=env, min_units=3, max_units=3)

    assert service.until(job, "finished").attempt == 1
    said = [log(service, job, rank=rank)[:2] for rank in range(2)]
    assert sorted(said) == [["does not see", str(10 << 20)], ["sees", str(10 << 20)]]


def test_a_job_that_is_tried_again_gets_a_fresh_copy(service: ServiceOnRay, upload: str) -> None:
    command = f"{SHOW}; rm -r sub; sleep 0.1; exit $((2 - BETIMES_ATTEMPT))"

    env = {"STATE": str(service.state)}
    job = service.submit("sh", "-c", command, upload=upload, env=env, cpu=2.0, retries=1, backoff_s=0.0)

    assert service.until(job, "finished").attempt == 2
    first, second = (log(service, job, attempt) for attempt in (1, 2))
    assert first == second
    assert first[:2] == ["does not see", str(10 << 20)]


def test_it_outlives_the_service(service: ServiceOnRay, upload: str, tmp_path: Path) -> None:
    wait = f"until [ -e {tmp_path}/gate ]; do sleep 0.1; done; wc -c < data"
    running = service.submit("sh", "-c", wait, upload=upload, cpu=2.0)
    queued = service.submit("sh", "-c", wait, upload=upload, cpu=2.0)
    service.until(running, "running")

    service.end()
    service.begin()
    (tmp_path / "gate").touch()

    for job in (running, queued):
        assert service.until(job, "finished").attempt == 1
        assert log(service, job) == [str(10 << 20)]
