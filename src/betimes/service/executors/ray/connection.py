"""The service's connection to a Ray cluster, which outlives it, and is made again until the cluster answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from betimes.errors import InputError, Unavailable

PATIENCE_S = 40.0  # until Ray has joined a cluster that is there
REACH_S = 5.0  # until an address takes a connection
ANSWER_S = 10.0  # until a cluster lists its nodes; one without its head never does
AGAIN_S = 2.0  # between two tries to join a lost cluster

SERVICE, MACHINE = "betimes-service", "betimes-machine"  # labels in Ray of a rented machine

_LENGTH_BYTES = 8

log = logging.getLogger(__name__)

# --- messages between the service and the bridge process: pickled values, each after its length ---
# They are here, and not in `bridge`, since that module has another name where it is the process: `__main__`.


@dataclass(frozen=True)
class ClusterNode:
    """A live node of a Ray cluster, with its total resources in Ray."""

    id: str  # of Ray, a new one at each start of Ray there
    name: str  # of Betimes: Ray's name and the beginning of the id, so that it is used once
    address: str  # under which the other nodes reach it
    cpu: float
    memory_gib: float
    gpu: float
    type: str  # of its accelerators; cpu: it has none
    is_head: bool
    labels: dict[str, str] = field(default_factory=dict[str, str])
    rented_by: str = ""  # the service that has rented it, by the mark of its agents; empty: nobody has


@dataclass(frozen=True)
class Joined:
    """The first message of the bridge: it has joined the cluster."""

    ray: str  # version
    has_token: bool  # the bridge gives one, whether the cluster asks for it or not


@dataclass(frozen=True)
class NotJoined:
    """The first message of the bridge: it could not join the cluster; why: a sentence."""

    why: str


@dataclass(frozen=True)
class Request:
    """A request: `nodes`, `release` of a node's agent, or a call of an agent's method."""

    number: int
    what: str
    node: str = ""  # its id
    method: str = ""
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answer:
    """The answer to a request: a result, the agent's error, or why it could not be asked."""

    number: int
    result: Any = None
    raised: BaseException | None = None
    unavailable: str | None = None


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """The next value. Raises IncompleteReadError where the other side has gone."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "little")
    return pickle.loads(await reader.readexactly(length))


def write_frame(writer: asyncio.StreamWriter, value: object) -> None:
    """Send a value."""
    body = pickle.dumps(value)
    writer.write(len(body).to_bytes(_LENGTH_BYTES, "little") + body)


# --- the service's side ---


class Agents(Protocol):
    """The agents of a cluster's nodes, as an executor calls them."""

    async def call(self, node: str, method: str, *args: Any) -> Any:
        """Call a method of a node's agent. Raises Unavailable where that cannot be done now, and agents' errors."""
        ...

    async def release(self, node: str) -> None:
        """End a node's agent, whose runs go on. Raises Unavailable."""
        ...

    def address_of(self, node: str) -> str:
        """A node's address for other nodes."""
        ...


class ClusterConnection:
    """A Ray cluster over the bridge process. `service` marks its agents among those of other services.

    address: auto, or HOST:PORT.
    """

    def __init__(self, address: str, service: str) -> None:
        self.address, self.service = address, service
        self.joined = Joined("", has_token=False)
        self.lost_at: float | None = None  # by the monotonic clock: since when the cluster does not answer
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._nodes: dict[str, ClusterNode] = {}  # by name; also those that have left
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Join the cluster. Raises InputError where that cannot be done, within a minute."""
        await self._reach()
        joined, reader = await self._start()
        self.joined = joined
        self._reading = asyncio.create_task(self._keep(reader))

    async def close(self) -> None:
        """Leave the cluster; runs go on."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._end()

    async def nodes(self) -> list[ClusterNode]:
        """The live nodes. Raises Unavailable."""
        try:
            async with asyncio.timeout(ANSWER_S):
                found: list[ClusterNode] = await self._ask("nodes")
        except TimeoutError:
            self._kill()
            raise Unavailable(f"the Ray cluster at {self.address} does not answer") from None
        self._nodes |= {node.name: node for node in found}
        return found

    async def call(self, node: str, method: str, *args: Any) -> Any:
        """Call a method of a node's agent. Raises Unavailable, and the agent's errors."""
        return await self._ask("call", self._known(node).id, method, args)

    async def release(self, node: str) -> None:
        """End a node's agent, whose runs go on. Raises Unavailable."""
        await self._ask("release", self._known(node).id)

    def address_of(self, node: str) -> str:
        """A node's address for other nodes. Raises Unavailable."""
        return self._known(node).address

    def _known(self, node: str) -> ClusterNode:
        if node not in self._nodes:
            raise Unavailable(f"node {node} is not in the Ray cluster")
        return self._nodes[node]

    async def _ask(self, what: str, node: str = "", method: str = "", args: tuple[Any, ...] = ()) -> Any:
        if self._writer is None:
            raise Unavailable(f"the Ray cluster at {self.address} does not answer")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        write_frame(self._writer, Request(number, what, node, method, args))
        try:
            return await answer
        finally:
            self._waiting.pop(number, None)

    # --- the bridge ---

    async def _reach(self) -> None:
        """Check that something listens at the address. Raises InputError."""
        if self.address == "auto":
            return
        host, _, port = self.address.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            raise InputError(
                f"--ray {self.address}: expected auto, or HOST:PORT as `ray start --head` prints it"
            )
        if self.address.startswith("ray://"):
            raise InputError(
                f"--ray {self.address}: this is the address for Ray clients; give HOST:PORT, without ray://"
            )
        try:
            async with asyncio.timeout(REACH_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError) as error:
            why = os.strerror(error.errno) if error.errno else f"no answer within {REACH_S:g} s"
            raise InputError(
                f"--ray {self.address}: nothing answers there ({why}); start the cluster with `ray start --head`"
            ) from None
        writer.close()

    async def _start(self) -> tuple[Joined, asyncio.StreamReader]:
        """Start the bridge and wait until it has joined. Raises InputError."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "betimes.service.executors.ray.bridge",
                str(theirs.fileno()),
                self.address,
                self.service,
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            async with asyncio.timeout(PATIENCE_S):
                first = await read_frame(reader)
        except TimeoutError:
            first = NotJoined(f"the Ray cluster at {self.address} does not answer within {PATIENCE_S:g} s")
        except asyncio.IncompleteReadError:
            first = NotJoined(f"Ray ended while it joined the cluster at {self.address}; its logs say why")
        except BaseException:
            writer.close()
            await self._end()
            raise
        if isinstance(first, NotJoined):
            writer.close()
            await self._end()
            raise InputError(f"--ray {self.address}: {first.why}")
        self._writer = writer
        return first, reader

    async def _keep(self, reader: asyncio.StreamReader) -> None:
        """Take answers; when the bridge ends, start others until one has joined."""
        while True:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    self._take(await read_frame(reader))
            self.lost_at = time.monotonic()
            log.warning(
                "the Ray cluster at %s does not answer; jobs there go on, and nothing is started until it is back",
                self.address,
            )
            await self._end()
            while True:
                try:
                    await self._reach()
                    self.joined, reader = await self._start()
                    break
                except InputError as error:
                    log.info("%s", error)
                    await asyncio.sleep(AGAIN_S)
            log.warning("the Ray cluster at %s answers again", self.address)

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.number)
        if waiting is None or waiting.done():
            return
        if answer.raised is not None:
            waiting.set_exception(answer.raised)
        elif answer.unavailable is not None:
            waiting.set_exception(Unavailable(answer.unavailable))
        else:
            waiting.set_result(answer.result)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _end(self) -> None:
        """End the bridge, if it has not; open requests get no answer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._process is not None:
            self._kill()
            await self._process.wait()
            self._process = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Unavailable(f"the Ray cluster at {self.address} does not answer"))
