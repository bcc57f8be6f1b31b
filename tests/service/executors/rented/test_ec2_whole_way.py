"""The whole way to machines of EC2 and back, over HTTP: moto keeps the account.

Its instances are processes here, which do what their user data says, and so become nodes of a Ray cluster.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import signal
import socket
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
from betimes.service.executors.rented.ec2_file import MACHINE
from betimes.service.views.models import NodeSpec
from tests.service.executors.ray.metadata import Metadata, metadata_service
from tests.service.executors.ray.served import PATIENCE_S, RayOnThisMachine, agent_ports, until

REGION, ZONE = "eu-central-1", "eu-central-1a"
PRICE = 3.6  # USD an hour: a cent is ten seconds
FILE = """
[ec2]
region = "{region}"
image = "{image}"
subnets = {{ {zone} = "{subnet}" }}
security_groups = ["{group}"]

[[offers]]
type = "m5.large"
cpu = 2
memory_gib = 1
usd_per_h = {price}
boot_s = 20

[[offers]]
type = "m5.large_spot"
cpu = 2
memory_gib = 1
usd_per_h = 1.0
spot = true
"""
RAY = """#!/bin/sh
for try in 1 2 3 4; do # it gives up after half a minute, which is too short on a machine that is not idle
  {python} -m ray.scripts.scripts "$@" --num-cpus 2 {ports}
done
"""
SHUTDOWN = {"BASH_FUNC_shutdown%%": '() { touch "$OFF"; }'}
"""A function of the shell, which goes before any program of that name: nothing here may end this machine."""


class Account:
    """An account of AWS whose instances are processes here."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        import boto3

        self.folder, self.metadata = folder, metadata
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.environ = {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }
        with (folder / "moto").open("wb") as said:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "--port", str(port)],
                env=os.environ | {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"},
                stdout=said,
                stderr=said,
            )
        until(lambda: "Running on" in (folder / "moto").read_text())
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environ.items():
                patch.setenv(name, value)
            self.client = boto3.Session(region_name=REGION).client("ec2")
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._is_open = True
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def instances(self, *states: str) -> list[dict[str, Any]]:
        answer = self.client.describe_instances()["Reservations"]
        found = [each for one in answer for each in one["Instances"]]
        return [each for each in found if not states or each["State"]["Name"] in states]

    def names(self) -> list[str]:
        return sorted(_name(each) for each in self.instances("pending", "running"))

    def file(self) -> Path:
        subnets = self.client.describe_subnets(Filters=[{"Name": "availability-zone", "Values": [ZONE]}])
        path = self.folder / "aws.toml"
        path.write_text(
            FILE.format(
                region=REGION,
                image=self.client.register_image(Name="betimes")["ImageId"],
                zone=ZONE,
                subnet=subnets["Subnets"][0]["SubnetId"],
                group=self.client.describe_security_groups()["SecurityGroups"][0]["GroupId"],
                price=PRICE,
            )
        )
        return path

    def take(self, name: str) -> None:
        """The market takes a machine away."""
        (id_,) = [each["InstanceId"] for each in self.instances("running") if _name(each) == name]
        self.client.terminate_instances(InstanceIds=[id_])

    def bill_usd(self) -> float:
        """On demand: each second begun, a minute at least."""
        total_s = 0
        for each in self.instances():
            if _name(each).startswith("m5.large-"):
                ended = each["StateTransitionReason"].partition("(")[2].partition(" UTC")[0]
                at = datetime.strptime(f"{ended} +0000", "%Y-%m-%d %H:%M:%S %z")
                total_s += max(60, math.ceil((at - each["LaunchTime"]).total_seconds()))
        return total_s * PRICE / 3600

    def close(self) -> None:
        self._is_open = False
        self._keeper.join()
        for id_ in list(self._machines):
            self._end(id_)
        self._server.kill()
        self._server.wait()

    # --- instances ---

    def _keep(self) -> None:
        while self._is_open:
            live = {each["InstanceId"] for each in self.instances("pending", "running")}
            for id_ in live - self._machines.keys():
                self._begin(id_)
            for id_, machine in list(self._machines.items()):
                if id_ not in live:
                    self._end(id_)
                elif (self.folder / id_ / "off").exists() or machine.poll() is not None:
                    self.client.terminate_instances(InstanceIds=[id_])
            time.sleep(0.5)

    def _begin(self, id_: str) -> None:
        folder = self.folder / id_
        folder.mkdir()
        options = " ".join(f"--{name.replace('_', '-')} {port}" for name, port in agent_ports().items())
        options = options.replace("metrics-agent-port", "dashboard-agent-grpc-port")
        (folder / "ray").write_text(RAY.format(python=sys.executable, ports=options))
        (folder / "ray").chmod(0o755)
        found = self.client.describe_instance_attribute(InstanceId=id_, Attribute="userData")
        (folder / "user-data").write_bytes(base64.b64decode(found["UserData"]["Value"]))
        environ = os.environ | {
            **SHUTDOWN,
            "RAY_raylet_start_wait_time_s": f"{PATIENCE_S:.0f}",
            "PATH": f"{folder}:{os.environ['PATH']}",
            "OFF": str(folder / "off"),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata.address_of(id_),
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


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
    with metadata_service() as metadata:
        account = Account(tmp_path, metadata)
        yield account
        account.close()


@contextlib.contextmanager
def service_with(account: Account, address: str) -> Iterator[Client]:
    state = account.folder / "state"
    command = [sys.executable, "-m", "betimes", "up", "--json", "--state", str(state), "--ray", address]
    with (account.folder / "up.err").open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--fleet", "ec2", "--cloud", str(account.file())],
            env=os.environ | account.environ,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), (account.folder / "up.err").read_text()
        with Client(state=state) as client:
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)


@pytest.mark.filterwarnings("ignore")  # Ray's own warnings
@pytest.mark.slow  # the account, a cluster, a service that is killed and instances that are processes
def test_rent_boot_join_run_be_interrupted_and_release(account: Account) -> None:
    ray = RayOnThisMachine()
    try:
        with service_with(account, ray.address) as client:

            def statuses() -> dict[str, str]:
                return {node.name: node.status for node in client.nodes()}

            for type_ in ("m5.large_spot", "m5.large"):
                client.add_nodes(NodeSpec(type=type_, kind="cloud"))
                until(lambda type_=type_: statuses().get(f"{type_}-0") == "up")
            command = [sys.executable, "-c", "import time; time.sleep(4)"]
            jobs = [
                client.submit(command=command, cpu=2, estimate_s=5.0, grace_s=1.0).job_id for _ in range(2)
            ]
            until(lambda: all(client.job(job).job.status == "running" for job in jobs))
            ran_on = {client.job(job).runs[0].places[0].node for job in jobs}
            assert ran_on == {"m5.large_spot-0", "m5.large-0"}
            (spot,) = [each for each in account.instances("running") if "spot" in _name(each)]
            account.metadata.taken_away_at[spot["InstanceId"]] = time.time() + 60
            until(lambda: statuses().get("m5.large_spot-0") in ("draining", "drained", None))
            account.take("m5.large_spot-0")
            until(lambda: "m5.large_spot-0" not in statuses())
            until(lambda: all(client.job(job).job.status == "finished" for job in jobs))
        with service_with(account, ray.address) as client:  # it was killed
            until(lambda: {node.name: node.status for node in client.nodes()}.get("m5.large-0") == "up")
            assert account.names() == ["m5.large-0"]
            client.give_back(now=True)
            until(lambda: account.names() == [] and client.fleet().going == 0)
            gone = [
                each for each in client.events() if each.kind == "node-gone" and each.node == "m5.large-0"
            ]
            assert gone[0].data["cost_usd"] == pytest.approx(account.bill_usd(), abs=0.01)
    finally:
        ray.end()
