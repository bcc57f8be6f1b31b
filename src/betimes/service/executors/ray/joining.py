"""A service on a Ray cluster: the connection, the nodes and the executor put together."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from betimes.errors import InputError, Unavailable
from betimes.service.executors.protocol import Listener
from betimes.service.executors.ray.connection import ClusterConnection
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.executors.ray.membership import Change, Membership, asks_for_token, check_closed
from betimes.service.machines.machine import Machine


@dataclass(frozen=True)
class RayOptions:
    """Which cluster, and what of it the service may use."""

    address: str = "auto"  # or HOST:PORT
    share: float = 1.0  # of each node's cores, memory and GPUs
    allows_open: bool = False  # also a cluster that has public addresses and asks for no token


class JoinedCluster:
    """A cluster that the service has joined, with the machines that it had then."""

    def __init__(
        self, connection: ClusterConnection, share: float, machines: list[Machine], alive: frozenset[str]
    ) -> None:
        self.connection, self.machines = connection, machines
        self.alive = alive  # the names of its nodes then, those that could run no jobs included
        self._share = share
        self._watching: asyncio.Task[None] | None = None

    def executor(self, listener: Listener, cpu_of: Callable[[str], float]) -> RayExecutor:
        """The executor of its nodes."""
        return RayExecutor(listener, self.connection, cpu_of)

    def watch(self, has: Callable[[], Iterable[str]], tell: Callable[[Change], None]) -> None:
        """Tell of machines that join or leave from now on; `has` are those that the service has."""
        membership = Membership(self.connection, self._share, has)
        self._watching = asyncio.create_task(membership.watch(tell))

    async def close(self) -> None:
        """Leave the cluster; what runs there goes on."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.connection.close()


async def join(asked: RayOptions, secret: str) -> JoinedCluster:
    """Join a cluster. `secret`: the service's own, from which the name of its agents comes.

    Raises InputError where that cannot be done, or where the cluster's ports are open to the world.
    """
    service = f"betimes-{hashlib.sha256(secret.encode()).hexdigest()[:12]}"
    connection = ClusterConnection(asked.address, service)
    await connection.open()
    try:
        nodes = await connection.nodes()
        check_closed(nodes, await asks_for_token(connection, nodes), asked.allows_open)
        machines = list((await Membership(connection, asked.share, list).look()).joined)
        if not machines:
            raise InputError(
                f"--ray {asked.address}: none of the cluster's {len(nodes)} nodes can run jobs. A node needs "
                "betimes[ray], and a whole core at least (`ray start --num-cpus`, --ray-share); `betimes doctor` checks"
            )
    except Unavailable as error:
        await connection.close()
        raise InputError(f"--ray {asked.address}: {error}") from None
    except BaseException:
        await connection.close()
        raise
    return JoinedCluster(connection, asked.share, machines, frozenset(node.name for node in nodes))
