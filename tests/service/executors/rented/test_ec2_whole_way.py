"""The whole way to machines of EC2 and back, over HTTP: moto keeps the account.

Its instances are processes here, which do what their user data says, and so become nodes of a Ray cluster.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from betimes.client import Client
from betimes.service.executors.ray.agent import METADATA
from betimes.service.executors.ray.connection import MACHINE
from betimes.service.executors.rented.ec2 import open_client
from betimes.service.executors.rented.ec2_file import Ec2Settings
from betimes.service.views.models import NodeSpec
from tests.service.executors.ray.metadata import Metadata, metadata_service
from tests.service.executors.ray.patient import PATIENCE_S
from tests.service.executors.ray.served import RAY, RayOnThisMachine, until
from tests.service.executors.rented.clouds import aws_account

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
# It ends where one of the ports that it has found is taken meanwhile.
PROGRAM = f'#!/bin/sh\nfor try in 1 2 3; do {RAY} "$@" --num-cpus 2; done\n'
SHUTDOWN = {"BASH_FUNC_shutdown%%": '() { touch "$OFF"; }'}
"""A function of the shell, which goes before any program of that name: nothing here may end this machine."""


class Instances:
    """The instances of an account, each a process here."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        self.metadata, self._folder = metadata, folder
        self._client = open_client(REGION, "ec2")
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._is_open = True
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def ids(self) -> dict[str, str]:
        """The instances that run, by the machine's name."""
        return {_name(each): each["InstanceId"] for each in self._found() if _runs(each)}

    def take(self, name: str) -> None:
        """The market takes a machine away."""
        self._client.terminate_instances(InstanceIds=[self.ids()[name]])

    def bill_usd(self, prefix: str) -> float:
        """Of the machines that have ended: each second begun, a minute at least, at the price on demand."""
        total_s = 0
        for each in self._found():
            if _name(each).startswith(prefix) and not _runs(each):
                ended = each["StateTransitionReason"].partition("(")[2].partition(" UTC")[0]
                at = datetime.strptime(f"{ended} +0000", "%Y-%m-%d %H:%M:%S %z")
                total_s += max(60, math.ceil((at - each["LaunchTime"]).total_seconds()))
        return total_s * USD_PER_H / 3600

    def close(self) -> None:
        self._is_open = False
        self._keeper.join()
        for id_ in list(self._machines):
            self._end(id_)

    def _found(self) -> list[dict[str, Any]]:
        answer = self._client.describe_instances()["Reservations"]
        return [each for one in answer for each in one["Instances"]]

    def _keep(self) -> None:
        while self._is_open:
            live = set(self.ids().values())
            for id_ in live - self._machines.keys():
                self._begin(id_)
            for id_, machine in list(self._machines.items()):
                if id_ not in live:
                    self._end(id_)
                elif (self._folder / id_ / "off").exists() or machine.poll() is not None:
                    self._client.terminate_instances(InstanceIds=[id_])
            time.sleep(0.5)

    def _begin(self, id_: str) -> None:
        folder = self._folder / id_
        folder.mkdir()
        (folder / "ray").write_text(PROGRAM)
        (folder / "ray").chmod(0o755)
        found = self._client.describe_instance_attribute(InstanceId=id_, Attribute="userData")
        (folder / "user-data").write_bytes(base64.b64decode(found["UserData"]["Value"]))
        environ = os.environ | {
            **SHUTDOWN,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path.cwd()),
            "OFF": str(folder / "off"),
            METADATA: self.metadata.address_of(id_),
        }
        with (folder / "said").open("wb") as said:
            self._machines[id_] = subprocess.Popen(
                ["bash", str(folder / "user-data")],
                env=environ,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def _end(self, id_: str) -> None:
        """The power goes."""
        machine = self._machines.pop(id_)
        all_of_it = psutil.Process(machine.pid).children(recursive=True) if machine.poll() is None else []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(machine.pid, signal.SIGKILL)
        for each in all_of_it:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        machine.wait()


def _name(instance: dict[str, Any]) -> str:
    return next(tag["Value"] for tag in instance["Tags"] if tag["Key"] == MACHINE)


def _runs(instance: dict[str, Any]) -> bool:
    return instance["State"]["Name"] in ("pending", "running")


class World:
    """An account, its instances, and the head of a Ray cluster."""

    def __init__(self, settings: Ec2Settings, instances: Instances, address: str) -> None:
        self.settings, self.instances, self.address = settings, instances, address

    @contextlib.contextmanager
    def service(self, folder: Path, offers: str, *options: str) -> Iterator[Client]:
        """A service, killed in the end."""
        zone = min(self.settings.subnets)
        file, state = folder / "aws.toml", folder / "state"
        file.write_text(
            f'[ec2]\nregion = "{REGION}"\nimage = "{self.settings.image}"\n'
            f'subnets = {{ {zone} = "{self.settings.subnets[zone]}" }}\n'
            f'security_groups = ["{self.settings.security_groups[0]}"]\n{offers}'
        )
        command = [sys.executable, "-m", "betimes", "up", "--json", "--state", str(state), *options]
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
    with metadata_service() as metadata, aws_account(REGION) as settings, contextlib.ExitStack() as stack:
        ray = RayOnThisMachine(head_cores=0)
        stack.callback(ray.end)
        instances = Instances(tmp_path_factory.mktemp("instances"), metadata)
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
        until(lambda: client.fleet().month_usd == pytest.approx(instances.bill_usd("m5.large-"), abs=0.01))
        assert [node.name for node in client.nodes()] == []


def test_eva_rents_shares_and_releases(world: World, tmp_path: Path) -> None:
    instances, done = world.instances, tmp_path / "done"
    before_usd = instances.bill_usd("m5.large-")
    with world.service(tmp_path, ON_DEMAND, "--policy", "eva:period=5") as client:
        command = waits_for(done)
        jobs = [client.submit(command=command, cpu=1, estimate_s=120.0).job_id for _ in range(4)]
        until(lambda: all(client.job(job).job.status == "running" for job in jobs))
        nodes = sorted(client.job(job).runs[-1].places[0].node for job in jobs)
        assert nodes == ["m5.large-0"] * 2 + ["m5.large-1"] * 2
        done.touch()
        until(lambda: all(client.job(job).job.status == "finished" for job in jobs))
        until(lambda: instances.ids() == {} and client.fleet().going == 0)
        bill_usd = instances.bill_usd("m5.large-") - before_usd
        until(lambda: client.fleet().month_usd == pytest.approx(bill_usd, abs=0.005))
        assert client.fleet().machines == []
