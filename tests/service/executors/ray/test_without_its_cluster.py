"""The cluster disappears: this comes last of the tests that share it, which it leaves without the second node."""

from __future__ import annotations

import pytest

from tests.service.executors.ray.served import RayOnThisMachine, ServiceOnRay, until

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings


def test_a_service_without_its_cluster_stays_up_and_goes_on_when_it_is_back(
    ray: RayOnThisMachine, service: ServiceOnRay
) -> None:
    number = service.submit("sleep", "600")
    service.until(number, "running")
    before, said = set(service.nodes()), len(service.errors_path.read_bytes())
    ray.end()
    until(lambda: b"does not answer; jobs there go on" in service.errors_path.read_bytes()[said:])
    ray.begin(int(ray.address.rpartition(":")[2]))
    until(lambda: bool(service.nodes()) and not before & set(service.nodes()))
    service.until(number, "running")
    *lost, runs = service.runs(number)  # twice where one node is missed before the other
    assert set(lost) == {("node-lost", None)}
    assert runs == (None, None)
