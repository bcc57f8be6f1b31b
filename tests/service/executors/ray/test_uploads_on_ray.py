"""Directories that are sent along with jobs, on a real Ray cluster whose nodes do not see the service's disk."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.executors.ray.served import PATIENCE_S, RayOnThisMachine, ServiceOnRay, service_on, until

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

TRIES = (
    3  # a node of Ray gives up where it does not start within its own patience, on a machine that is not idle
)
SHOW = (
    'test -e "$STATE/token" && echo sees || echo "does not see"; wc -c < data; cat sub/run.sh; echo x >> data'
)


@contextlib.contextmanager
def node_with_its_own_disk(ray: RayOnThisMachine, cores: int, folder: Path) -> Iterator[None]:
    """Another node, for which `folder` is an empty disk."""
    start = f"exec {sys.executable} -m ray.scripts.scripts start --address {ray.address} --num-cpus {cores} --block"
    command = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs betimes-test {folder} && {start}"]
    said = folder.parent / f"node-{cores}.log"
    for _ in range(TRIES):
        with said.open("wb") as file:
            node = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            if has_started(node, said):
                yield
                return
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(PATIENCE_S)
    raise AssertionError(said.read_text())


def has_started(node: subprocess.Popen[bytes], said: Path) -> bool:
    """Wait until a node is up, or has given up."""
    until(lambda: "Ray runtime started" in said.read_text() or node.poll() is not None)
    return node.poll() is None


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOnRay]:
    """A service on the head, with one core; two more nodes have two and three."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("only root can give a process a disk of its own")
    disk = tmp_path_factory.mktemp("on-ray") / "disk"
    disk.mkdir()
    with contextlib.ExitStack() as stack:
        ray = RayOnThisMachine()
        stack.callback(ray.end)
        for cores in (2, 3):
            stack.enter_context(node_with_its_own_disk(ray, cores, disk))
        service = stack.enter_context(service_on(disk / "state", ray.address))
        until(lambda: sorted(service.nodes().values()) == [1.0, 2.0, 3.0])
        yield service


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
    job = service.submit("sub/run.sh", upload=upload, env=env, min_units=6, max_units=6)

    assert service.until(job, "finished").attempt == 1
    said = [log(service, job, rank=rank)[:2] for rank in range(3)]
    assert sorted(said) == [
        ["does not see", str(10 << 20)],
        ["does not see", str(10 << 20)],
        ["sees", str(10 << 20)],
    ]


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
    running = service.submit("sh", "-c", wait, upload=upload, cpu=3.0)
    queued = service.submit("sh", "-c", wait, upload=upload, cpu=3.0)
    service.until(running, "running")

    service.end()
    service.begin()
    (tmp_path / "gate").touch()

    for job in (running, queued):
        assert service.until(job, "finished").attempt == 1
        assert log(service, job) == [str(10 << 20)]
