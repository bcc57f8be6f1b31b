"""Clouds on a stage: what is done to their customers, and what is then running there."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from betimes.cluster import Cluster
from betimes.cluster.offer import Offer, Spot
from betimes.errors import CloudError
from betimes.service.executors.ray.joining import RentedNodes
from betimes.service.executors.rented.ec2 import Ec2
from betimes.service.executors.rented.ec2_file import Ec2Settings
from betimes.service.executors.rented.local_cloud import LocalCloud
from betimes.service.executors.rented.remote_cloud import open_remote
from betimes.service.executors.rented.scripts import Scripts
from betimes.service.executors.supervision import processes
from betimes.service.machines.fake_cloud import FakeCloud, Outage, Reclaim, SetPrice
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import CloudEvent, NoCapacity, Provider, RequestId
from tests.service.executors.rented.fake_ec2 import FakeEc2
from tests.service.machines.kinds import kind

PATIENCE = 4000  # steps
E = TypeVar("E", bound=CloudEvent)
SMALL = kind("small", 1, 1, usd_per_h=3.6, boot_s=20.0, capacity=3, notice_s=30.0)
BIG = kind("big", 2, 2, usd_per_h=7.2, boot_s=20.0)
CLUSTER = Cluster("stage", (), offers=(SMALL, BIG), quota=4)


class Stage:
    """The made-up cloud, and the service's hold of it."""

    step_s = 5.0

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, 1000.0
        self.events: list[CloudEvent] = []
        self.provider = self.open(CLUSTER, [], {})

    def open(self, cluster: Cluster, held: Sequence[tuple[Machine, float]], made: dict[str, int]) -> Provider:
        self.cloud = FakeCloud(cluster.offers, cluster.seed, cluster.quota)
        self.cloud.resume(held, made)
        return self.cloud

    # --- the service's part ---

    def ask(self, type: str = "small", count: int = 1) -> RequestId | NoCapacity:  # noqa: A002
        return self.provider.request(self.now_s, type, count)

    def rent(self, type: str = "small", count: int = 1) -> list[Machine]:  # noqa: A002
        """Machines that have been given out, and boot."""
        request = self.ask(type, count)
        assert isinstance(request, RequestId)
        self.until(lambda: self.provider.given_out(request) is not None)
        return self.provider.given_out(request) or []

    def step(self) -> None:
        self.now_s += self.step_s
        self.provider.poll()
        self.events += self.provider.advance(self.now_s)

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            if holds():
                return
            self.step()
        raise AssertionError(f"it never came: {self.events}")

    def heard(self, what: type[E]) -> E:
        """The first unread event of a kind, once it comes."""
        self.until(lambda: any(isinstance(each, what) for each in self.events))
        found = next(each for each in self.events if isinstance(each, what))
        self.events.remove(found)
        return found

    def begin_again(self, *held: Machine, made: int) -> None:
        """The service is killed, and starts again; its log knows of these machines, of so many of type small."""
        self.events.clear()
        self.provider = self.open(CLUSTER, [(each, 1000.0) for each in held], {"small": made})
        self.step()

    # --- the cloud's part ---

    def running(self) -> set[str]:
        """The machines that there really are."""
        return {each.name for each in (*self.cloud.machines(), *self.cloud.booting())}

    def take_with_notice(self, name: str) -> None:
        self.cloud.add(Reclaim(self.now_s + 1.0, name.partition("-")[0]))

    def boot_slowly(self) -> None:
        """Machines take long to boot from now on; here they do."""

    def end_of_notice(self, name: str) -> None:
        """The time of the notice is over."""

    def take(self, name: str) -> None:
        """A machine ends, and nobody has said so."""
        self.cloud.lose(self.now_s, name)

    def set_price(self, usd_per_h: float) -> None:
        self.cloud.add(SetPrice(self.now_s + 1.0, "small", usd_per_h))

    def break_down(self) -> None:
        """Calls fail from now on."""
        self.cloud.add(Outage(self.now_s, math.inf))

    def work_again(self) -> None:
        self.cloud._troubles.clear()

    def close(self) -> None:
        """Leave nothing running."""


class LocalStage(Stage):
    """Processes of this machine."""

    def open(self, cluster: Cluster, held: Sequence[tuple[Machine, float]], made: dict[str, int]) -> Provider:
        self.cloud = FakeCloud(cluster.offers, cluster.seed, cluster.quota, kind="rented")
        self.cloud.resume(held, made)
        self.local = LocalCloud(self.cloud, self.folder, [machine.name for machine, _ in held])
        return self.local

    def running(self) -> set[str]:
        found = set[str]()
        for pid in processes.everyone():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            own = [word for word in words if word.startswith(f"{self.folder}/") and word.endswith(".lease")]
            if own and processes.lives(pid, None):
                found.add(Path(own[0]).stem)
        return found

    def take(self, name: str) -> None:
        pid = self.local.process_of(name)
        assert pid is not None
        processes.send(pid, signal.SIGKILL)
        while self.local.process_of(name) is not None:
            time.sleep(0.01)

    def step(self) -> None:
        time.sleep(0.01)  # of the machines
        super().step()

    def close(self) -> None:
        for lease in self.folder.glob("*.lease"):
            lease.unlink()


SCRIPT = """#!{python} -IS
import json, os, pathlib, signal, subprocess, sys
here = pathlib.Path(__file__).parent
asked = json.load(sys.stdin)
if (here / "broken").exists():
    sys.exit("no route to the cloud")
folder = here / asked["service"]
folder.mkdir(exist_ok=True)
file = folder / asked.get("name", "")
what = pathlib.Path(__file__).name
if what == "rent":
    if (here / "dear").exists():
        print(json.dumps({{"refused": "capacity", "text": "none left"}}))
        sys.exit()
    command = ["sh", "-c", "trap '' HUP; exec sleep 600"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = "booting" if (here / "slow").exists() else "up"
    new = here / f"{{process.pid}}.new"  # read while it is written, it would be half a machine
    new.write_text(json.dumps({{"name": asked["name"], "state": state, "pid": process.pid}}))
    new.rename(file)
elif what == "release" and file.exists():
    try:
        os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)
    except ProcessLookupError:
        pass
    file.unlink()
elif what == "list":
    shown = [json.loads(each.read_text()) for each in sorted(folder.iterdir())]
    shown = [] if (here / "blind").exists() else shown
    print(json.dumps({{"machines": [each for each in shown if pathlib.Path(f"/proc/{{each['pid']}}").exists()]}}))
    sys.exit()
print("{{}}")
"""


class CommandStage(Stage):
    """Three scripts, which start processes."""

    def open(self, cluster: Cluster, held: Sequence[tuple[Machine, float]], made: dict[str, int]) -> Provider:
        for name in ("rent", "release", "list"):
            script = self.folder / name
            script.write_text(SCRIPT.format(python=sys.executable))
            script.chmod(0o755)
        never_up = any(offer.boot_failure_frac == 1.0 for offer in cluster.offers)
        self._mark("slow", never_up)
        self.step_s = 200.0 if never_up else 0.5
        self.provider = open_remote(Scripts(self.folder), cluster, self.folder, look_s=0.1)(held, made)
        return self.provider

    def step(self) -> None:
        time.sleep(0.02)
        super().step()

    def _machines(self) -> dict[Path, dict[str, Any]]:
        """What the scripts know; they may be at work meanwhile."""
        found = dict[Path, dict[str, Any]]()
        for file in self.folder.glob("betimes-*/*"):
            with suppress(FileNotFoundError):
                found[file] = json.loads(file.read_text())
        return found

    def _change(self, name: str, **changes: object) -> None:
        ((file, known),) = [each for each in self._machines().items() if each[0].name == name]
        new = self.folder / f"{name}.new"
        new.write_text(json.dumps(known | changes))
        new.rename(file)

    def _mark(self, name: str, there: bool) -> None:
        mark = self.folder / name
        if there:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)

    def running(self) -> set[str]:
        machines = self._machines().items()
        return {file.name for file, known in machines if processes.lives(known["pid"], None)}

    def take_with_notice(self, name: str) -> None:
        self._change(name, notice_s=30.0)

    def boot_slowly(self) -> None:
        self._mark("slow", True)

    def show(self, *, nothing: bool) -> None:
        """Whether `list` leaves out all machines from now on."""
        self._mark("blind", nothing)

    def end_of_notice(self, name: str) -> None:
        self.take(name)

    def take(self, name: str) -> None:
        (known,) = [known for file, known in self._machines().items() if file.name == name]
        os.kill(known["pid"], signal.SIGKILL)

    def set_price(self, usd_per_h: float) -> None:
        for file in self._machines():
            self._change(file.name, usd_per_h=usd_per_h)

    def break_down(self) -> None:
        self._mark("broken", True)

    def work_again(self) -> None:
        self._mark("broken", False)

    def close(self) -> None:
        for known in self._machines().values():
            processes.send(known["pid"], signal.SIGKILL)


class AtOnce:
    """A call that is over when it has begun."""

    is_over = True

    def __init__(self, work: Callable[[], Any]) -> None:
        self._answer, self._error = None, None
        try:
            self._answer = work()
        except CloudError as error:
            self._error = error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._answer


EC2 = Ec2Settings(
    region="eu-central-1", image="ami-1", subnets={"a": "subnet-a", "b": "subnet-b"}, security_groups=["sg-1"]
)


class Ec2Stage(Stage):
    """EC2's spot market for small machines, on demand for big ones; a machine that runs joins the cluster."""

    def __init__(self, folder: Path) -> None:
        self.ec2 = FakeEc2(lambda: self.now_s)
        self.never_up = False
        super().__init__(folder)

    def open(self, cluster: Cluster, held: Sequence[tuple[Machine, float]], made: dict[str, int]) -> Provider:
        self.never_up = any(offer.boot_failure_frac == 1.0 for offer in cluster.offers)
        self.step_s = 200.0 if self.never_up else 5.0
        small = replace(cluster.offers[0], spot=Spot(1.0), labels=(("zone", "a"),))
        offers = tuple(
            replace(each, min_bill_s=60.0, bill_step_s=1.0, bill_from="request")
            for each in (small, *cluster.offers[1:])
        )
        self.nodes = RentedNodes("betimes-test", "10.0.0.1:6379")
        self.backend = Ec2(
            EC2, offers, self.nodes, lambda *_, **__: self.ec2, AtOnce, lambda: self.now_s, lambda _: None
        )
        cluster = replace(cluster, offers=offers)
        return open_remote(self.backend, cluster, self.folder, self.nodes.names, look_s=0.0)(held, made)

    def step(self) -> None:
        names = set() if self.never_up else set(self.ec2.names())
        self.nodes.names &= names
        self.nodes.names |= names
        super().step()

    def running(self) -> set[str]:
        return set(self.ec2.names())

    def take_with_notice(self, name: str) -> None:
        self.ec2.instance(name)["notice"] = True

    def boot_slowly(self) -> None:
        self.never_up = True

    def end_of_notice(self, name: str) -> None:
        self.take(name)

    def take(self, name: str) -> None:
        self.ec2.end(self.ec2.instance(name)["InstanceId"])

    def set_price(self, usd_per_h: float) -> None:
        self.ec2.spot_usd_per_h = usd_per_h

    def break_down(self) -> None:
        self.ec2.is_down = True

    def work_again(self) -> None:
        self.ec2.is_down = False


def failing(offer: Offer) -> Offer:
    """Machines that never come up."""
    return replace(offer, boot_failure_frac=1.0)
