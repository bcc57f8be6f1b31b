"""A real Ray cluster on this machine, and a service on it in a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from betimes.client import Client
from betimes.errors import NotReachable
from betimes.service.views.models import JobView
from tests.service.executors.ray import patient
from tests.service.executors.ray.patient import PATIENCE_S, agent_ports, patience

RAY = f"{sys.executable} {patient.__file__}"  # the program
TRIES = 4  # for a node: one of the ports that it has found may be taken meanwhile
CONFIG = {
    # A node that has died is missed within seconds; one that gets little of a busy machine has time to answer.
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
    "health_check_timeout_ms": 10_000,
    # Workers are started when they are needed: the tests need few.
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
}


class RayOnThisMachine:
    """A cluster of simulated nodes: a head, by default with one core, and others with as many as they are given."""

    def __init__(self, head_cores: int = 1) -> None:
        self._apart, self._head_cores = list[subprocess.Popen[bytes]](), head_cores
        self.begin()

    def begin(self, port: int | None = None) -> None:
        """Start the head, where it was if the port is given."""
        head: dict[str, Any] = {
            "num_cpus": self._head_cores,
            "include_dashboard": False,
            "include_log_monitor": False,
            "no_monitor": True,
            "_system_config": CONFIG,
            **agent_ports(),
        }
        if port is not None:
            head["gcs_server_port"] = port
        cluster = import_module("ray.cluster_utils").Cluster
        with patience():
            self.cluster = cluster(initialize_head=True, head_node_args=head)
        self.address: str = self.cluster.address

    def add(self, cores: int, labels: dict[str, str] | None = None) -> Any:
        """Another node."""
        with patience():
            return self.cluster.add_node(num_cpus=cores, labels=labels, **agent_ports())

    def add_apart(self, cores: int, folder: Path) -> None:
        """Another node, for which `folder` is an empty disk."""
        start = f"{RAY} start --address {self.address} --num-cpus {cores} --block"
        command = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs betimes-test {folder} && exec {start}"]
        said = folder.parent / f"node-{cores}.log"
        for _ in range(TRIES):
            with said.open("wb") as file:
                node = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
            self._apart.append(node)
            if has_started(node, said):
                return
        raise AssertionError(said.read_text())

    def kill(self, node: Any) -> None:
        """End a node as if its machine had failed."""
        self.cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        """End all of it."""
        for node in self._apart:
            node.send_signal(signal.SIGTERM)
        self.cluster.shutdown()
        for node in self._apart:
            node.wait(PATIENCE_S)
        self._apart.clear()


def has_started(node: subprocess.Popen[bytes], said: Path) -> bool:
    """Wait until a node is up, or has given up."""
    until(lambda: "Ray runtime started" in said.read_text() or node.poll() is not None)
    return node.poll() is None


class ServiceOnRay:
    """`betimes up --ray` with a client; it can be killed and started again."""

    def __init__(self, state: Path, address: str, *options: str) -> None:
        self.state, self.address, self.options = state, address, options
        self.begin()

    @property
    def errors_path(self) -> Path:
        """What it says on standard error, in all its lives."""
        return self.state.parent / "up.err"

    def begin(self) -> None:
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "betimes", "up", "--json", "--service", str(self.state)]
        self.errors = self.errors_path.open("ab")
        self.process = subprocess.Popen(
            [*command, "--ray", self.address, *self.options], stdout=subprocess.PIPE, stderr=self.errors
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.errors_path.read_text())
        self.said: dict[str, Any] = json.loads(line)
        self.client = Client(state=self.state)

    def end(self, number: int = signal.SIGKILL) -> None:
        """End the service; jobs go on."""
        self.client.close()
        self.process.send_signal(number)
        self.process.communicate(timeout=PATIENCE_S)
        self.errors.close()

    def submit(self, *command: str, **fields: Any) -> int:
        """A job's number."""
        return self.client.submit(command=list(command), estimate_s=5.0, **fields).job_id

    def job(self, number: int) -> JobView:
        """A job as it is."""
        return self.client.job(number).job

    def runs(self, number: int) -> list[tuple[str | None, int | None]]:
        """How each of a job's runs has ended, and with what exit code."""
        return [(run.outcome, run.exit_code) for run in self.client.job(number).runs]

    def until(self, number: int, status: str) -> JobView:
        """The job once it has that status."""
        until(lambda: self.job(number).status == status)
        return self.job(number)

    def nodes(self) -> dict[str, float]:
        """The cores of each node that is up."""
        return {node.name: node.cpu for node in self.client.nodes() if node.status == "up"}

    def node_of(self, cores: float) -> str:
        """The name of the one node with so many cores."""
        until(lambda: cores in self.nodes().values())
        return next(name for name, cpu in self.nodes().items() if cpu == cores)


@contextlib.contextmanager
def service_on(state: Path, address: str, *options: str) -> Iterator[ServiceOnRay]:
    """A service, ended afterwards with all its jobs."""
    service = ServiceOnRay(state, address, *options)
    try:
        yield service
        live = [job.job_id for job in service.client.iterate_jobs() if not job.status.is_over]
        if live:
            service.client.cancel(live, where_possible=True)
            until(lambda: all(service.job(number).status.is_over for number in live))
    finally:
        if service.process.poll() is None:
            service.end(signal.SIGINT)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that is bound to happen."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(NotReachable):
            if holds():
                return
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.1)


def agents() -> list[int]:
    """The processes of the agents of clusters that this process has started."""
    found = list[int]()
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if one.cmdline()[:1] == ["ray::NodeAgent"]:
                found.append(one.pid)
    return found
