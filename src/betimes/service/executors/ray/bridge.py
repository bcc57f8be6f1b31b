"""The process that talks to Ray for the service: `python -m betimes.service.executors.ray.bridge FD ADDRESS SERVICE`.

It is the only module that imports Ray. A driver ends when its cluster does, at once and without an exception to catch;
the service, another process, outlives that. The bridge ends when the service's end of the socket closes.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from importlib import import_module
from typing import Any

from betimes.service.executors.ray.agent import NodeAgent
from betimes.service.executors.ray.connection import (
    MACHINE,
    SERVICE,
    Answer,
    ClusterNode,
    Joined,
    NotJoined,
    Request,
    read_frame,
    write_frame,
)

NAMESPACE = "betimes"
_GIB = 2**30
_CALLS_AT_ONCE = 1000  # of an agent: requests for reports wait
_ID_DIGITS = 8  # of a node's id, in its name


class Bridge:
    """A Ray cluster that this process has joined as a driver, for the service at the other end of a socket.

    Raises what Ray raises; ImportError without it.
    """

    def __init__(self, address: str, service: str, writer: asyncio.StreamWriter) -> None:
        ray = import_module("ray")
        self._ray, self._service = ray, service
        self._affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._writer = writer
        self._agents: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            configure_logging=False,
            logging_level="ERROR",
        )

    def joined(self) -> Joined:
        """Facts about the cluster as a whole."""
        return Joined(self._ray.__version__, has_token=os.environ.get("RAY_AUTH_MODE") == "token")

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer requests, many at once, until the service has gone."""
        while True:
            try:
                request: Request = await read_frame(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            task = asyncio.create_task(self._answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request) -> None:
        errors = import_module("ray.exceptions")
        try:
            answer = Answer(request.number, await self._result(request))
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, BaseException) else RuntimeError(str(error))
            answer = Answer(request.number, raised=cause)
        except errors.RayError as error:
            self._agents.pop(request.node, None)  # the next call looks for it again
            answer = Answer(request.number, unavailable=_last_line(error))
        except Exception as error:
            answer = Answer(request.number, raised=RuntimeError(f"{type(error).__name__}: {error}"))
        write_frame(self._writer, answer)
        await self._writer.drain()

    async def _result(self, request: Request) -> Any:
        if request.what == "nodes":
            return await asyncio.to_thread(self._nodes)
        agent = self._agent(request.node)
        if request.what == "release":
            self._ray.kill(agent, no_restart=True)
            del self._agents[request.node]
            return None
        return await getattr(agent, request.method).remote(*request.args)

    def _nodes(self) -> list[ClusterNode]:
        """The live nodes, by name."""
        nodes = (node_of(one, self._service) for one in self._ray.nodes() if one["Alive"])
        return sorted(nodes, key=lambda one: one.name)

    def _agent(self, node: str) -> Any:
        """The agent of a node, started if there is none yet."""
        if node not in self._agents:
            agent = self._ray.remote(NodeAgent).options(
                name=f"{self._service}-{node}",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                max_restarts=-1,
                max_concurrency=_CALLS_AT_ONCE,
                scheduling_strategy=self._affinity(node, soft=False),
            )
            self._agents[node] = agent.remote()
        return self._agents[node]


def node_of(one: dict[str, Any], service: str) -> ClusterNode:
    """A node of Ray; a machine that this service has rented keeps the name under which it was rented."""
    resources: dict[str, float] = one["Resources"]
    labels: dict[str, str] = one.get("Labels") or {}
    kinds = sorted(name.partition(":")[2] for name in resources if name.startswith("accelerator_type:"))
    rented_by = labels.get(SERVICE, "")
    name = f"{one['NodeName']}-{one['NodeID'][:_ID_DIGITS]}"
    return ClusterNode(
        id=one["NodeID"],
        name=labels.get(MACHINE, name) if rented_by == service else name,
        address=one["NodeManagerAddress"],
        cpu=resources.get("CPU", 0.0),
        memory_gib=resources.get("memory", 0.0) / _GIB,
        gpu=resources.get("GPU", 0.0),
        type=" + ".join(kinds) or "cpu",
        is_head="node:__internal_head__" in resources,
        labels=labels,
        rented_by=rented_by,
    )


def _last_line(error: Exception) -> str:
    """The message in an error of Ray, which comes last, after the traceback."""
    lines = [line.strip() for line in re.sub("\x1b\\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


async def _main(descriptor: int, address: str, service: str) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    try:
        bridge = Bridge(address, service, writer)
    except ImportError:
        write_frame(writer, NotJoined("Ray is not installed: pip install 'betimes[ray]'"))
        await writer.drain()
        return
    except Exception as error:  # of any kind, as Ray has it
        write_frame(writer, NotJoined(why_not(address, str(error))))
        await writer.drain()
        return
    write_frame(writer, bridge.joined())
    await bridge.serve(reader)


def why_not(address: str, message: str) -> str:
    """The fault and what to do, from Ray's message when it cannot join a cluster."""
    text = " ".join(re.sub("\x1b\\[[0-9;]*m", "", message).split())
    if "ersion mismatch" in text:
        return f"{text}; install the same versions of Ray and Python on every machine"
    if "Could not find any running Ray instance" in text:
        return "no Ray cluster runs on this machine: start one with `ray start --head`, or name its address"
    if "Failed to connect" in text:  # to a reachable address: Ray's message for a missing token
        return f"{text}; if it asks for a token, set RAY_AUTH_MODE=token here, and copy its ~/.ray/auth_token"
    if "node info" in text or "raylet" in text.lower():
        return (
            f"this machine is not a node of the Ray cluster at {address} ({text}); make it one with "
            f"`ray start --address={address}`"
        )
    return f"Ray cannot join the cluster at {address}: {text}"


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
    os._exit(0)  # Ray's own shutdown may wait for a cluster that is gone
