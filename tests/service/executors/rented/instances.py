"""An account of AWS at moto's server, whose instances are processes here that do what their user data says."""

from __future__ import annotations

import base64
import contextlib
import logging
import math
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

import psutil
import pytest

from betimes.service.executors.ray.agent import METADATA
from betimes.service.executors.ray.connection import MACHINE
from betimes.service.executors.rented.ec2 import open_client
from betimes.service.executors.rented.ec2_file import Ec2Settings
from tests.service.executors.ray.metadata import Metadata
from tests.service.executors.ray.served import RAY

OURS = "the-world-itself"  # in whose calls no answer is lost
# It ends where one of the ports that it has found is taken meanwhile.
PROGRAM = f'#!/bin/sh\nfor try in 1 2 3; do {RAY} "$@" --num-cpus 2; done\n'
SHUTDOWN = {"BASH_FUNC_shutdown%%": '() { touch "$INSTANCE/off"; }'}
"""A function of the shell, which goes before any program of that name: nothing here may end this machine."""


class Answers:
    """A server's answers, all of which `Instances` gets.

    lost: by action, so many next ones are lost, once what was asked for has happened.
    """

    def __init__(self, app: Any) -> None:
        self._app, self.lost = app, Counter[str]()
        self._launches: dict[
            str, tuple[tuple[Any, ...], list[bytes]]
        ] = {}  # by token, which moto does not heed

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Answer a request."""
        asked = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        found = {name: values[0] for name, values in parse_qs(asked.decode()).items()}
        action, token = found.get("Action", ""), found.get("ClientToken", "")
        if token not in self._launches:
            heads = list[tuple[Any, ...]]()
            body = [*self._app(environ | {"wsgi.input": BytesIO(asked)}, lambda *head: heads.append(head))]
            answer = heads[0], body
            if token:
                self._launches[token] = answer
        else:
            answer = self._launches[token]
        if self.lost[action] > 0 and OURS not in environ["HTTP_USER_AGENT"]:
            self.lost[action] -= 1
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError
        start(*answer[0])
        return answer[1]


@contextmanager
def aws_account(region: str) -> Iterator[tuple[Ec2Settings, Answers]]:
    """An account of AWS with an image, at moto's server, which this process and those that it starts find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # ten seconds
        patch.setenv("AWS_ACCESS_KEY_ID", "a")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        assert server._server is not None
        answers = server._server.app = Answers(server._server.app)
        _, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        urlopen(
            Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")
        ).close()  # of other accounts before
        client = open_client(region, "ec2")
        subnets = client.describe_subnets()["Subnets"]
        settings = Ec2Settings(
            region=region,
            image=client.register_image(Name="betimes", Architecture="x86_64")["ImageId"],
            subnets={each["AvailabilityZone"]: each["SubnetId"] for each in subnets},
            security_groups=[client.describe_security_groups()["SecurityGroups"][0]["GroupId"]],
        )
        yield settings, answers
        server.stop()


def table_of(settings: Ec2Settings) -> str:
    """The table `[ec2]` of a cluster file, with one zone."""
    zone, subnet = min(settings.subnets.items())
    return (
        f'[ec2]\nregion = "{settings.region}"\nimage = "{settings.image}"\nsubnets = {{ {zone} = "{subnet}" }}\n'
        f'security_groups = ["{settings.security_groups[0]}"]\n'
    )


class Instances:
    """The instances of an account, which join a Ray cluster with two cores each."""

    def __init__(self, region: str, folder: Path, metadata: Metadata) -> None:
        import boto3
        from botocore.config import Config

        self.metadata, self._folder = metadata, folder
        self._client = boto3.Session(region_name=region).client("ec2", config=Config(user_agent_extra=OURS))
        self._machines: dict[str, subprocess.Popen[bytes]] = {}
        self._lock, self._is_open = threading.Lock(), True
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def ids(self) -> dict[str, str]:
        """The instances that run, by the machine's name."""
        return {_name(each): each["InstanceId"] for each in self._found() if _runs(each)}

    def take(self, name: str) -> None:
        """The market takes a machine away."""
        id_ = self.ids()[name]
        with self._lock:
            self._end(id_)
            self._client.terminate_instances(InstanceIds=[id_])

    def bill_usd(self, prefix: str, usd_per_h: float) -> float:
        """Of the machines with such names that have ended: each second begun, a minute at least."""
        total_s = 0
        for each in self._found():
            if _name(each).startswith(prefix) and not _runs(each):
                ended = each["StateTransitionReason"].partition("(")[2].partition(" UTC")[0]
                at = datetime.strptime(f"{ended} +0000", "%Y-%m-%d %H:%M:%S %z")
                total_s += max(60, math.ceil((at - each["LaunchTime"]).total_seconds()))
        return total_s * usd_per_h / 3600

    def close(self) -> None:
        """Leave none."""
        self._is_open = False
        self._keeper.join()
        for id_ in list(self._machines):
            self._end(id_)

    def _found(self) -> list[dict[str, Any]]:
        answer = self._client.describe_instances()["Reservations"]
        return [each for one in answer for each in one["Instances"]]

    def _keep(self) -> None:
        while self._is_open:
            with self._lock:
                live = set(self.ids().values())
                for id_ in live - self._machines.keys():
                    self._begin(id_)
                for id_, machine in list(self._machines.items()):
                    if id_ not in live:
                        self._end(id_)
                    elif (self._folder / id_ / "off").exists() or machine.poll() is not None:
                        self._end(id_)
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
            "PYTHONPATH": str(Path(__file__).parents[4]),
            "INSTANCE": str(folder),
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
        if id_ not in self._machines:
            return
        mark = str(self._folder / id_)
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):  # it has ended, or is not ours
                if each.environ().get("INSTANCE") == mark:
                    each.kill()
        self._machines.pop(id_).wait()


def _name(instance: dict[str, Any]) -> str:
    return next(tag["Value"] for tag in instance["Tags"] if tag["Key"] == MACHINE)


def _runs(instance: dict[str, Any]) -> bool:
    return instance["State"]["Name"] in ("pending", "running")
