"""One cluster, and one service on it, for all tests here that need them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.executors.ray.served import RayOnThisMachine, ServiceOnRay, service_on

RECONNECT_S = "5"  # for so long the nodes of a cluster that has lost its head go on


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the node with two cores does not see, where the service has its own."""
    disk = tmp_path_factory.mktemp("on-ray") / "disk"
    disk.mkdir()
    return disk


@pytest.fixture(scope="session")
def ray(disk: Path) -> Iterator[RayOnThisMachine]:
    """A head with one core and a node with two."""
    pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", RECONNECT_S)
        ray = RayOnThisMachine()
        if disks_can_be_hidden():
            ray.add_apart(2, disk)
        else:
            ray.add(2)
        yield ray
        ray.end()


@pytest.fixture(scope="session")
def service(ray: RayOnThisMachine, disk: Path) -> Iterator[ServiceOnRay]:
    with service_on(disk / "state", ray.address) as service:
        yield service


def disks_can_be_hidden() -> bool:
    """Whether a process can be given a disk of its own."""
    return os.geteuid() == 0 and not subprocess.run(["unshare", "--mount", "true"], check=False).returncode
