"""The whole way to machines of EC2 and back: moto keeps the account, and instances become nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.client import Client
from betimes.service.executors.rented.ec2_file import Ec2Settings
from betimes.service.views.models import NodeSpec
from tests.service.executors.ray.metadata import metadata_service
from tests.service.executors.ray.patient import PATIENCE_S
from tests.service.executors.ray.served import RayOnThisMachine, until
from tests.service.executors.rented.instances import Instances, aws_account, table_of

pytestmark = [
    pytest.mark.slow,  # an account, a cluster, services that are killed, and instances that are processes
    pytest.mark.filterwarnings("ignore"),  # Ray's own warnings
]
REGION = "eu-central-1"
USD_PER_H = 3.6  # on demand: a cent is ten seconds; a spot machine is as good as free at moto
ON_DEMAND = f"""
[[offers]]
type = "m5.large"
cpu = 2
memory_gib = 1
usd_per_h = {USD_PER_H}
boot_s = 20
"""
SPOT = """
[[offers]]
type = "m5.large_spot"
cpu = 2
memory_gib = 1
usd_per_h = 1.0
spot = true
"""


class World:
    """An account, its instances, and the head of a Ray cluster."""

    def __init__(self, settings: Ec2Settings, instances: Instances, address: str) -> None:
        self.settings, self.instances, self.address = settings, instances, address

    @contextlib.contextmanager
    def service(self, folder: Path, offers: str, *options: str) -> Iterator[Client]:
        """A service, killed in the end."""
        file, state = folder / "aws.toml", folder / "state"
        file.write_text(table_of(self.settings) + offers)
        command = [sys.executable, "-m", "betimes", "up", "--json", "--service", str(state), *options]
        with (folder / "up.err").open("ab") as errors:
            process = subprocess.Popen(
                [*command, "--ray", self.address, "--fleet", "ec2", "--cloud", str(file)],
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), (folder / "up.err").read_text()
            with Client(state=state) as client:
                yield client
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
    with (
        metadata_service() as metadata,
        aws_account(REGION) as (settings, _),
        contextlib.ExitStack() as stack,
    ):
        ray = RayOnThisMachine(head_cores=0)
        stack.callback(ray.end)
        instances = Instances(REGION, tmp_path_factory.mktemp("instances"), metadata)
        stack.callback(instances.close)
        yield World(settings, instances, ray.address)


def waits_for(file: Path) -> list[str]:
    return ["sh", "-c", f"until [ -e {file} ]; do sleep 0.2; done"]


def test_rent_boot_join_run_be_interrupted_and_release(world: World, tmp_path: Path) -> None:
    instances, offers = world.instances, ON_DEMAND + SPOT
    spot, other, done = "m5.large_spot-0", "m5.large-0", tmp_path / "done"
    with world.service(tmp_path, offers, "--policy", "nodes:fifo") as client:
        client.add_nodes(NodeSpec(type="m5.large_spot", kind="cloud"))
        job = client.submit(command=waits_for(done), cpu=2, estimate_s=60.0, grace_s=1.0).job_id
        until(lambda: client.job(job).job.status == "running")
    with world.service(tmp_path, offers) as client:  # it was killed

        def places() -> list[str]:
            found = client.job(job)
            running = found.job.status == "running"
            return [each.node for each in found.runs[-1].places] if running else []

        until(lambda: places() == [spot])
        assert [*instances.ids()] == [spot]
        client.add_nodes(NodeSpec(type="m5.large", kind="cloud"))
        until(lambda: other in instances.ids())
        instances.metadata.taken_away_at[instances.ids()[spot]] = time.time() + 10
        until(lambda: any(each.kind == "node-noticed" for each in client.events()))
        instances.take(spot)
        until(lambda: places() == [other])
        done.touch()
        until(lambda: client.job(job).job.status == "finished")
        assert [run.outcome for run in client.job(job).runs[1:]] == ["exited"]
        client.give_back(now=True)
        until(lambda: instances.ids() == {} and client.fleet().going == 0)
        until(
            lambda: (
                client.fleet().month_usd
                == pytest.approx(instances.bill_usd("m5.large-", USD_PER_H), abs=0.01)
            )
        )
        assert [node.name for node in client.nodes()] == []


def test_eva_rents_shares_and_releases(world: World, tmp_path: Path) -> None:
    instances, done = world.instances, tmp_path / "done"
    before_usd = instances.bill_usd("m5.large-", USD_PER_H)
    with world.service(tmp_path, ON_DEMAND, "--policy", "eva:period=5") as client:
        command = waits_for(done)
        jobs = [client.submit(command=command, cpu=1, estimate_s=120.0).job_id for _ in range(4)]
        until(lambda: all(client.job(job).job.status == "running" for job in jobs))
        nodes = sorted(client.job(job).runs[-1].places[0].node for job in jobs)
        assert nodes == ["m5.large-0"] * 2 + ["m5.large-1"] * 2
        done.touch()
        until(lambda: all(client.job(job).job.status == "finished" for job in jobs))
        until(lambda: instances.ids() == {} and client.fleet().going == 0)
        bill_usd = instances.bill_usd("m5.large-", USD_PER_H) - before_usd
        until(lambda: client.fleet().month_usd == pytest.approx(bill_usd, abs=0.005))
        assert client.fleet().machines == []
