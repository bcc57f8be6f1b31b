"""What the service and the bridge process say to each other: pickled values over a socket, each after its length."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass, field
from typing import Any

_LENGTH_BYTES = 8


@dataclass(frozen=True)
class ClusterNode:
    """A living node of a Ray cluster, and what Ray has of it in all."""

    id: str  # of Ray, another one each time that Ray is started there
    name: str  # of Betimes: that of Ray with the beginning of the id, so that it is used once
    address: str  # under which the other nodes reach it
    cpu: float
    memory_gib: float
    gpu: float
    type: str  # of its accelerators; cpu: it has none
    is_head: bool
    labels: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Joined:
    """The first word of the bridge: it has joined the cluster."""

    ray: str  # version
    has_token: bool  # the bridge gives one, whether the cluster asks for it or not


@dataclass(frozen=True)
class NotJoined:
    """The first word of the bridge: it could not join the cluster; why is a sentence."""

    why: str


@dataclass(frozen=True)
class Request:
    """Something to do: `nodes`, `release` of a node's agent, or a call of an agent's method."""

    number: int
    what: str
    node: str = ""  # its id
    method: str = ""
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What came of a request: a result, what the agent raised, or why it could not be asked."""

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
