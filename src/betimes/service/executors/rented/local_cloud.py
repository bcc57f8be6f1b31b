"""The provider `local`: the made-up cloud, whose machines are processes of this machine.

Prices, boots, capacity and what is taken away are the made-up cloud's. A machine's process is started when the
machine is given out, and its jobs end with that process. A file a machine, its lease, is written before the process is
started and removed when the machine goes; a service that starts again ends the machines of which its log knows nothing.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from betimes.cluster import Cluster
from betimes.cluster.offer import Offer
from betimes.errors import ClusterError
from betimes.files import write_private
from betimes.service.executors.supervision import processes
from betimes.service.executors.supervisors import reap
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.machine import Kind, Machine
from betimes.service.machines.provider import CloudEvent, NoCapacity, OpenCloud, RequestId

LOCAL_OFFERS = Cluster(
    "local",
    (),
    offers=(
        Offer(type="small", cpu=1, memory_gib=1, usd_per_h=0.05, boot_s=2, bill_step_s=1, capacity=4),
        Offer(type="large", cpu=2, memory_gib=2, usd_per_h=0.09, boot_s=3, bill_step_s=1, capacity=2),
    ),
)
"""Offers where no file has any; the prices are made up."""

ALONE_S = 300.0  # without a service, until a machine ends itself
_PROCESS = str(Path(__file__).with_name("machine_process.py"))
_ENDING = ".lease"

log = logging.getLogger(__name__)


def open_local(cluster: Cluster, folder: Path, alone_s: float = ALONE_S) -> OpenCloud:
    """The cloud of a cluster's offers whose machines are processes here; folder: of their leases.

    Raises ClusterError for a machine with GPUs.
    """
    for offer in cluster.offers:
        if offer.gpu:
            raise ClusterError(
                f"offer {offer.type}, field gpu: machines that are processes here (--fleet local) have no GPUs, found "
                f"{offer.gpu:g}; leave it out"
            )

    def open_cloud(held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> LocalCloud:
        held = list(held)
        cloud = FakeCloud(cluster.offers, cluster.seed, cluster.quota, kind="rented")
        cloud.resume(held, made)
        return LocalCloud(cloud, folder, [machine.name for machine, _ in held], alone_s)

    return open_cloud


class LocalCloud:
    """A `Provider` whose machines are processes. started: machines of earlier services, which run or have ended."""

    def __init__(
        self, cloud: FakeCloud, folder: Path, started: Iterable[str] = (), alone_s: float = ALONE_S
    ) -> None:
        self._cloud, self._folder, self._alone_s = cloud, folder, alone_s
        self._started = set(started)

    @property
    def kind(self) -> Kind:
        """The kind of its machines."""
        return self._cloud.kind

    def offers(self) -> list[Offer]:
        """The instance types in the order they were given."""
        return self._cloud.offers()

    def quota(self) -> int | None:
        """The most machines that can be held at once, of all types together; null: any number."""
        return self._cloud.quota()

    def prices(self) -> dict[str, float]:
        """The price of each type's machine now, USD an hour."""
        return self._cloud.prices()

    def request(self, now_s: float, type: str, count: int) -> RequestId | NoCapacity:  # noqa: A002
        """Ask for machines, all or none. Raises CloudError, Unknown; ValueError for a count below 1."""
        answer = self._cloud.request(now_s, type, count)
        self._follow()
        return answer

    def release(self, now_s: float, id: RequestId | str) -> None:  # noqa: A002
        """Give a node back, or all of a request, booted or not. Raises CloudError, Unknown."""
        self._cloud.release(now_s, id)
        self._follow()

    def next_at_s(self) -> float:
        """The time of the next event, or of an unreported one; infinity: none."""
        return self._cloud.next_at_s()

    def poll(self) -> bool:
        """Renew the leases, and end machines that nobody holds; whether one has ended by itself."""
        self._follow()
        for name in self._started:
            try:
                os.utime(self._lease(name))
            except OSError as error:
                log.warning("the lease of machine %s cannot be renewed: %s", name, error.strerror)
        return any(self.process_of(name) is None for name in self._started)

    def advance(self, now_s: float) -> list[CloudEvent]:
        """Unreported events until now, in the order of time."""
        for name in self._started:
            if self.process_of(name) is None:
                self._cloud.lose(now_s, name)
        events = self._cloud.advance(now_s)
        self._follow()
        return events

    def machines(self) -> list[Machine]:
        """Booted machines held as of the last call, by type and number."""
        return self._cloud.machines()

    def going(self) -> int:
        """None: a process is ended at once."""
        return self._cloud.going()

    def given_out(self, request: RequestId) -> list[Machine] | None:
        """A request's machines held as of the last call; null: it has not been answered yet."""
        return self._cloud.given_out(request)

    def booting(self) -> list[Machine]:
        """Machines held but not booted yet as of the last call, by type and number."""
        return self._cloud.booting()

    def cost_usd(self, now_s: float) -> float:
        """All charges until now, machines that are gone included."""
        return self._cloud.cost_usd(now_s)

    def process_of(self, node: str) -> int | None:
        """The process of a machine; null: it has ended."""
        mark, process = self._read(node)
        if not process or not self._is_mine(node, mark):
            return None
        number, ticks = process.split()
        pid = int(number)
        if processes.lives(pid, int(ticks) if ticks.isdigit() else None):  # None where there is no /proc
            return pid
        reap(pid)
        return None

    # --- processes ---

    def _follow(self) -> None:
        """Start the processes of machines given out since the last call, and end those of machines that are gone."""
        held = {each.name for each in (*self._cloud.machines(), *self._cloud.booting())}
        for name in sorted(held - self._started):
            try:
                self._start(name)
            except OSError as error:  # it is found to have ended
                log.warning("machine %s does not start: %s", name, error)
        self._started = held
        for lease in self._folder.glob(f"*{_ENDING}"):
            if (name := unquote(lease.name.removesuffix(_ENDING))) not in held:
                self._end(name)

    def _start(self, name: str) -> None:
        self._end(name)  # one that a service killed since has started, and not logged
        lease = self._lease(name)
        mark = f"{secrets.token_hex(8)} {lease}"
        write_private(lease, f"{mark}\n")
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", _PROCESS, str(lease), mark, str(self._alone_s)],
            {"CUDA_VISIBLE_DEVICES": "", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
            file_actions=[(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in (0, 1, 2)],
            setsid=True,
        )
        write_private(lease, f"{mark}\n{pid} {processes.start_ticks(pid)}\n")

    def _end(self, name: str) -> None:
        """Remove a machine's lease, so that the machine ends, and end it at once where its process is known."""
        pid = self.process_of(name)
        self._lease(name).unlink(missing_ok=True)
        if pid is not None:
            processes.send(pid, signal.SIGKILL)

    def _lease(self, name: str) -> Path:
        return self._folder.absolute() / f"{quote(name, safe='')}{_ENDING}"

    def _read(self, name: str) -> tuple[str, str]:
        """The mark and the process in a machine's lease; empty where there is none."""
        try:
            mark, _, process = self._lease(name).read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            return "", ""
        return mark, process.strip()

    def _is_mine(self, name: str, mark: str) -> bool:
        """Whether a lease is in its place: those of a copied state directory are of the original's machines."""
        return mark.partition(" ")[2] == str(self._lease(name))
