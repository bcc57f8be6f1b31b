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
from betimes.service.executors.local import Around
from betimes.service.executors.protocol import Listener
from betimes.service.executors.ray.agent import NodeFacts
from betimes.service.executors.ray.connection import ClusterConnection, ClusterNode, Joined
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.machines.machine import Machine

NODE_ID = "ray.io/node-id"  # a label that differs for every node, as the name does
LOOK_S = 1.0  # between two looks at the cluster
NOTICES_S = 5.0  # between two looks whether rented machines are about to be taken away
AGENT_S = 300.0  # until a node's agent answers the first time: Ray takes minutes on a busy machine
OTHERS_S = 60.0  # at a start: until nodes join later, if one can run jobs
AGAIN_S = 60.0  # until a node that could run no jobs is tried again
INSTALL = f"install betimes[ray] {__version__} there, for the Python that runs Ray"
NO_AGENT = f"its agent has not started within {AGENT_S:g} s: Ray starts no workers there, or it is very busy"
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

    def executor(
        self, listener: Listener, cpu_of: Callable[[str], float], around: Around | None
    ) -> RayExecutor:
        """The executor of its nodes. around: as that of `LocalExecutor`."""
        return RayExecutor(listener, self.connection, cpu_of, around)

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
        machines = await first_machines(Membership(connection, share_frac, list))
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


async def first_machines(members: Membership) -> list[Machine]:
    """The machines that a service begins with: at least one, if any node's agent starts. Raises Unavailable."""
    try:
        joined = (await members.look(OTHERS_S)).joined
        if not joined and members.is_asking:
            log.warning("no node's agent has started within %g s; waiting, as machines may be busy", OTHERS_S)
        while not joined and members.is_asking:
            joined = (await members.look(LOOK_S)).joined
        return list(joined)
    finally:
        members.close()


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
        self._asking: dict[str, asyncio.Task[bool]] = {}  # nodes whose agents have not answered yet

    @property
    def is_asking(self) -> bool:
        """Whether agents are starting."""
        return bool(self._asking)

    def close(self) -> None:
        """Wait for no agent any longer."""
        for asking in self._asking.values():
            asking.cancel()
        self._asking.clear()

    async def look(self, patience_s: float = LOOK_S) -> Change:
        """The changes; waits so long for agents that are starting, and nodes whose agents take longer join later.

        Raises Unavailable where the cluster does not answer, so that nothing is known of its nodes.
        """
        nodes = await self._cluster.nodes()
        alive = {node.name: machine_of(node, self._share) for node in nodes if not node.rented_by}
        mine = {node.name for node in nodes if node.rented_by and node.rented_by == self._rented.service}
        has = set(self._has())
        left = tuple(sorted(has - alive.keys()))
        if left and not self._counts_as_lost():
            left = ()
        new = {name for name, machine in alive.items() if name not in has and machine.cpu > 0}
        usable = await self._usable(new | (mine - self._rented.names), patience_s)
        await self._look_at_rented(mine, usable)
        return Change(tuple(machine for name, machine in alive.items() if name in usable), left)

    async def watch(self, report: Callable[[Change], None]) -> None:
        """Report every change, for ever; of looks that fail one after the other in one way the first is logged."""
        failure = ""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    change = await self.look()
                    if change.joined or change.left:
                        report(change)
                except Unavailable:  # the connection reports it, and reconnects
                    continue
                except Exception as error:
                    if repr(error) != failure:
                        log.exception(
                            "whether machines of Ray have joined or left is not known; it is looked at every %g s",
                            LOOK_S,
                        )
                    failure = repr(error)
                else:
                    failure = ""
        finally:
            self.close()

    async def _usable(self, new: set[str], patience_s: float) -> set[str]:
        """Those of the new nodes that can run jobs, as far as their agents have answered."""
        for name in self._asking.keys() - new:
            self._asking.pop(name).cancel()
        for name in new - self._asking.keys():
            if self._unusable.get(name, 0.0) <= time.monotonic():
                self._asking[name] = asyncio.create_task(self._is_usable(name))
        if not self._asking:
            return set()
        done, _ = await asyncio.wait(self._asking.values(), timeout=patience_s)
        answered = [name for name, asking in self._asking.items() if asking in done]
        return {name for name in answered if self._asking.pop(name).result()}

    async def _look_at_rented(self, names: set[str], usable: set[str]) -> None:
        rented, now_s = self._rented, time.monotonic()
        if self._counts_as_lost():
            rented.names &= names
        rented.names |= names & usable
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
            trouble = None if facts.betimes == __version__ else f"it has Betimes {facts.betimes}; {INSTALL}"
        except TimeoutError:
            trouble = NO_AGENT
        except Unavailable as error:
            trouble = f"{error}; {INSTALL}"
        if trouble is None:
            self._unusable.pop(name, None)
            return True
        if name not in self._unusable:
            log.warning("node %s runs no jobs: %s; `betimes doctor` checks it", name, trouble)
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
