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

PATIENCE_S = 120.0  # for what happens in a moment, on a machine that is not idle
HEALTH = {"health_check_period_ms": 500, "health_check_failure_threshold": 4, "health_check_timeout_ms": 500}


class RayOnThisMachine:
    """A cluster of simulated nodes: a head with one core, and others with as many as they are given."""

    def __init__(self) -> None:
        self.begin()

    def begin(self, port: int | None = None) -> None:
        """Start the head, where it was if the port is given."""
        head: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "_system_config": HEALTH}
        if port is not None:
            head["gcs_server_port"] = port
        self.cluster = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self.cluster.address

    def add(self, cores: int, labels: dict[str, str] | None = None) -> Any:
        """Another node."""
        return self.cluster.add_node(num_cpus=cores, labels=labels)

    def kill(self, node: Any) -> None:
        """End a node as if its machine had failed."""
        self.cluster.remove_node(node, allow_graceful=False)

    def end(self) -> None:
        """End all of it."""
        self.cluster.shutdown()


class ServiceOnRay:
    """`betimes up --ray` with a client; it can be killed and started again."""

    def __init__(self, state: Path, address: str) -> None:
        self.state, self.address = state, address
        self.begin()

    def begin(self) -> None:
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "betimes", "up", "--json", "--state", str(self.state)]
        self.errors = (self.state.parent / "up.err").open("ab")
        self.process = subprocess.Popen(
            [*command, "--ray", self.address], stdout=subprocess.PIPE, stderr=self.errors
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError((self.state.parent / "up.err").read_text())
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
def service_on(state: Path, address: str) -> Iterator[ServiceOnRay]:
    """A service, ended afterwards with all its jobs."""
    service = ServiceOnRay(state, address)
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
    below = psutil.Process().children(recursive=True)
    return [one.pid for one in below if one.cmdline()[:1] == ["ray::NodeAgent"]]
