"""A service on a Ray cluster: its machines become nodes of the service as they join and leave in Ray."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from betimes import __version__
from betimes.cluster.labels import is_label
from betimes.errors import InputError, Unavailable
from betimes.service.executors.protocol import Listener
from betimes.service.executors.ray.agent import NodeFacts
from betimes.service.executors.ray.connection import ClusterConnection, ClusterNode, Joined
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.machines.machine import Machine

NODE_ID = "ray.io/node-id"  # a label that differs for every node, as the name does
LOOK_S = 1.0  # between two looks at the cluster
NOTICES_S = 5.0  # between two looks whether rented machines are about to be taken away
AGENT_S = 60.0  # until a node's agent answers the first time
AGAIN_S = 60.0  # until a node that could run no jobs is tried again
LOST_AFTER_S = float(os.environ.get("RAY_gcs_rpc_server_reconnect_timeout_s", "60"))  # noqa: SIM112 (as Ray spells it)
"""From the whole cluster's silence until nodes that have not come back count as lost: Ray lets a node without its head
go on for so long, and its runs go on with it."""

log = logging.getLogger(__name__)


@dataclass
class RentedNodes:
    """The machines that the service has rented and that have joined the cluster, by their names."""

    service: str = ""  # the mark of its machines
    address: str = ""  # that they join
    names: set[str] = field(default_factory=set[str])  # of those on which jobs can run
    notices: dict[str, float] = field(default_factory=dict[str, float])
    """The instants at which they are taken away, s since 1970."""
    have_notices: bool = False  # whether the machines know that before


class JoinedCluster:
    """A cluster that the service has joined, with the machines that it had then.

    rented: kept up to date while it is watched; null: nothing is rented there.
    """

    def __init__(
        self,
        connection: ClusterConnection,
        share: float,
        rented: RentedNodes | None,
        machines: list[Machine],
        alive: frozenset[str],
    ) -> None:
        self.connection, self.machines = connection, machines
        self.alive = alive  # the names of its nodes then, those that could run no jobs included
        self._share, self._rented = share, rented
        self._watching: asyncio.Task[None] | None = None

    def executor(self, listener: Listener, cpu_of: Callable[[str], float]) -> RayExecutor:
        """The executor of its nodes."""
        return RayExecutor(listener, self.connection, cpu_of)

    def watch(self, has: Callable[[], Iterable[str]], report: Callable[[Change], None]) -> None:
        """Report machines that join or leave from now on; `has` returns those of the service."""
        membership = Membership(self.connection, self._share, has, self._rented)
        self._watching = asyncio.create_task(membership.watch(report))

    async def close(self) -> None:
        """Leave the cluster; runs go on."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.connection.close()


async def join(
    address: str, share_frac: float, allows_open: bool, secret: str, rented: RentedNodes | None = None
) -> JoinedCluster:
    """Join a cluster; one that has no machine yet only where some are rented.

    address: HOST:PORT, or auto. share_frac: of each node's cores, memory and GPUs. allows_open: also a cluster with
    public addresses that asks for no token. secret: of the service, which gives its agents their name.

    Raises InputError where that cannot be done, or where the cluster's ports are open to the world.
    """
    service = f"betimes-{hashlib.sha256(secret.encode()).hexdigest()[:12]}"
    connection = ClusterConnection(address, service)
    await connection.open()
    try:
        nodes = await connection.nodes()
        check_closed(nodes, await asks_for_token(connection, nodes), allows_open)
        machines = list((await Membership(connection, share_frac, list).look()).joined)
        if rented is not None:
            rented.service, rented.address = service, address
        elif not machines:
            raise InputError(
                f"--ray {address}: none of the cluster's {len(nodes)} nodes can run jobs. A node needs "
                "betimes[ray], and a whole core at least (`ray start --num-cpus`, --ray-share); `betimes doctor` checks"
            )
    except Unavailable as error:
        await connection.close()
        raise InputError(f"--ray {address}: {error}") from None
    except BaseException:
        await connection.close()
        raise
    return JoinedCluster(connection, share_frac, rented, machines, frozenset(node.name for node in nodes))


# --- joining and leaving ---


@dataclass(frozen=True)
class Change:
    """The changes since the last look."""

    joined: tuple[Machine, ...]
    left: tuple[str, ...]


class Cluster(Protocol):
    """A cluster that can be asked for its nodes."""

    joined: Joined
    lost_at: float | None

    async def nodes(self) -> list[ClusterNode]:
        """The live nodes. Raises Unavailable."""
        ...

    async def call(self, node: str, method: str, *args: Any) -> Any:
        """Call a method of a node's agent. Raises Unavailable."""
        ...


class Membership:
    """Compares the cluster's nodes with the service's, and reports changes.

    share: of each node's cores, memory and GPUs that the service may use, above 0 up to 1. rented: is kept up to date;
    machines that other services have rented are theirs alone.
    """

    def __init__(
        self,
        cluster: Cluster,
        share: float,
        has: Callable[[], Iterable[str]],
        rented: RentedNodes | None = None,
    ) -> None:
        self._cluster, self._share, self._has = cluster, share, has
        self._rented = RentedNodes() if rented is None else rented
        self._notices_at = 0.0  # by the monotonic clock: when to look for them again
        self._unusable: dict[str, float] = {}  # nodes that cannot run jobs: when to look again

    async def look(self) -> Change:
        """The changes. Raises Unavailable where the cluster does not answer, so that nothing is known of its nodes."""
        nodes = await self._cluster.nodes()
        alive = {node.name: machine_of(node, self._share) for node in nodes if not node.rented_by}
        await self._look_at_rented(
            {node.name for node in nodes if node.rented_by and node.rented_by == self._rented.service}
        )
        has = set(self._has())
        left = tuple(sorted(has - alive.keys()))
        if left and not self._counts_as_lost():
            left = ()
        now_s = time.monotonic()
        new = [
            machine
            for name, machine in alive.items()
            if name not in has and machine.cpu > 0 and self._unusable.get(name, 0.0) <= now_s
        ]
        usable = await asyncio.gather(*(self._is_usable(machine.name) for machine in new))
        return Change(tuple(machine for machine, ok in zip(new, usable, strict=True) if ok), left)

    async def watch(self, report: Callable[[Change], None]) -> None:
        """Report every change, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                change = await self.look()
            except Unavailable:  # the connection reports it, and reconnects
                continue
            if change.joined or change.left:
                report(change)

    async def _look_at_rented(self, names: set[str]) -> None:
        rented, now_s = self._rented, time.monotonic()
        if self._counts_as_lost():
            rented.names &= names
        new = [name for name in names - rented.names if self._unusable.get(name, 0.0) <= now_s]
        usable = await asyncio.gather(*map(self._is_usable, new))
        rented.names |= {name for name, ok in zip(new, usable, strict=True) if ok}
        if rented.have_notices and now_s >= self._notices_at:
            self._notices_at = now_s + NOTICES_S
            await asyncio.gather(*map(self._look_for_notice, rented.names))

    async def _look_for_notice(self, name: str) -> None:
        with contextlib.suppress(Unavailable, TimeoutError):  # it is asked again
            async with asyncio.timeout(NOTICES_S):
                at_s: float | None = await self._cluster.call(name, "taken_away_at")
            if at_s is not None:
                self._rented.notices[name] = at_s

    async def _is_usable(self, name: str) -> bool:
        """Whether a node can run jobs: it has an agent of exactly this version of Betimes."""
        try:
            async with asyncio.timeout(AGENT_S):
                facts: NodeFacts = await self._cluster.call(name, "facts")
            trouble = None if facts.betimes == __version__ else f"it has Betimes {facts.betimes}"
        except TimeoutError:
            trouble = f"its agent has not started within {AGENT_S:g} s"
        except Unavailable as error:
            trouble = str(error)
        if trouble is None:
            self._unusable.pop(name, None)
            return True
        if name not in self._unusable:
            log.warning(
                "node %s runs no jobs: %s; install betimes[ray] %s there, `betimes doctor` checks it",
                name,
                trouble,
                __version__,
            )
        self._unusable[name] = time.monotonic() + AGAIN_S
        return False

    def _counts_as_lost(self) -> bool:
        lost_at = self._cluster.lost_at
        return lost_at is None or time.monotonic() - lost_at >= LOST_AFTER_S


def machine_of(node: ClusterNode, share: float = 1.0) -> Machine:
    """A node of Ray as the service has it: whole cores and GPUs, and its labels."""
    return Machine(
        name=node.name,
        kind="ray",
        type=node.type,
        cpu=float(math.floor(node.cpu * share)),
        memory_gib=node.memory_gib * share,
        gpu=float(math.floor(node.gpu * share)),
        labels=tuple(
            sorted(
                (key, value) for key, value in node.labels.items() if key != NODE_ID and is_label(key, value)
            )
        ),
    )


async def asks_for_token(cluster: Cluster, nodes: Iterable[ClusterNode]) -> bool:
    """Whether every node refuses clients without the cluster's token.

    Each node reports that: a service with a token does not mean that nodes ask for one.
    """
    if not cluster.joined.has_token:
        return False
    try:
        async with asyncio.timeout(AGENT_S):
            facts: list[NodeFacts] = await asyncio.gather(
                *(cluster.call(each.name, "facts") for each in nodes)
            )
    except (TimeoutError, Unavailable):
        return False
    return all(each.asks_for_token for each in facts)


def check_closed(nodes: Iterable[ClusterNode], has_tokens: bool, is_allowed: bool) -> None:
    """Refuse a cluster whose ports are open to the world: a client that reaches them can run any command there.

    Raises InputError where a node has a public address and the cluster asks for no token.
    """
    open_nodes = [node for node in nodes if _is_public(node.address)]
    if not open_nodes or has_tokens or is_allowed:
        return
    first = open_nodes[0]
    raise InputError(
        f"anyone on the internet may be able to run commands on this Ray cluster: node {first.name} has the public "
        f"address {first.address}, and not every node asks for a token. Start Ray with private addresses "
        "(--node-ip-address) or tokens (RAY_AUTH_MODE=token on every node); if a firewall closes its ports, join it "
        "with --ray-open"
    )


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:  # a name
        return False
