"""Checks of a cluster, and how to put faults right."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from betimes import __version__
from betimes.errors import InputError, Unavailable
from betimes.service.executors.ray.agent import NodeFacts
from betimes.service.executors.ray.connection import ClusterConnection, ClusterNode
from betimes.service.executors.ray.joining import AGENT_S, INSTALL, NO_AGENT, asks_for_token, check_closed

MOST_SKEW_S = 1.0  # between the clocks of two machines, beyond the time of the question
_NAME = "betimes-doctor"  # of its agents


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str  # service, cluster, ports, agent, versions, clock, gpus, shared, python
    node: str | None  # null: it is about the service, the cluster, or this machine
    ok: bool
    text: str  # the result; if that is not ok, also what to do


async def examine(address: str, shared: Path | None) -> list[Finding]:
    """Check a cluster and each of its nodes; shared: a directory that all nodes should see."""
    connection = ClusterConnection(address, _NAME)
    try:
        await connection.open()
        nodes = await connection.nodes()
    except (InputError, Unavailable) as error:
        await connection.close()
        return [Finding("cluster", None, False, str(error))]
    try:
        found = [
            Finding("cluster", None, True, f"Ray {connection.joined.ray}, {len(nodes)} nodes"),
            _ports(nodes, await asks_for_token(connection, nodes)),
        ]
        async with _marked(shared) as mark:
            for findings in await asyncio.gather(*(_of_node(connection, node, mark) for node in nodes)):
                found += findings
        return found
    finally:
        await connection.close()


@asynccontextmanager
async def _marked(shared: Path | None) -> AsyncIterator[Path | None]:
    """A file in the shared directory while this is entered. Raises InputError where none can be written."""
    if shared is None:
        yield None
        return
    mark = shared.expanduser().absolute() / f".betimes-{secrets.token_hex(8)}"
    try:
        mark.touch()
    except OSError as error:
        raise InputError(
            f"--shared {shared}: {error.strerror}; name a directory that you can write"
        ) from None
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


def _ports(nodes: list[ClusterNode], has_tokens: bool) -> Finding:
    try:
        check_closed(nodes, has_tokens, is_allowed=False)
    except InputError as error:
        return Finding("ports", None, False, str(error))
    how = (
        "it asks for a token" if has_tokens else "its addresses are private; keep its ports closed to others"
    )
    return Finding("ports", None, True, how)


async def _of_node(connection: ClusterConnection, node: ClusterNode, mark: Path | None) -> list[Finding]:
    try:
        async with asyncio.timeout(AGENT_S):
            await connection.call(node.name, "facts")  # slow: it starts the agent
            asked_s = time.time()
            facts: NodeFacts = await connection.call(node.name, "facts")
            answered_s = time.time()
            sees = mark is None or await connection.call(node.name, "sees", os.fspath(mark))
            await connection.release(node.name)
    except TimeoutError:
        return [Finding("agent", node.name, False, NO_AGENT)]
    except Unavailable as error:
        return [Finding("agent", node.name, False, f"{error}; {INSTALL}")]
    found = [
        Finding("agent", node.name, True, f"on {facts.hostname}"),
        _versions(node, facts),
        _clock(node, facts, asked_s, answered_s),
        _gpus(node, facts),
    ]
    if mark is not None:
        where = mark.parent
        text = (
            f"sees {where}"
            if sees
            else f"does not see {where}; mount the shared directory at the same path there"
        )
        found.append(Finding("shared", node.name, sees, text))
    return found


def _versions(node: ClusterNode, facts: NodeFacts) -> Finding:
    python = ".".join(map(str, sys.version_info[:3]))
    same = facts.betimes == __version__
    text = f"Betimes {facts.betimes}, Python {facts.python}"
    if not same:
        text += f"; here it is Betimes {__version__} with Python {python}: install the same there"
    return Finding("versions", node.name, same, text)


def _clock(node: ClusterNode, facts: NodeFacts, asked_s: float, answered_s: float) -> Finding:
    off_s = max(asked_s - facts.now_s, facts.now_s - answered_s, 0.0)
    if off_s <= MOST_SKEW_S:
        return Finding("clock", node.name, True, f"agrees within {MOST_SKEW_S:g} s")
    text = f"is off by {off_s:.1f} s; set both clocks by NTP, or times in logs and files disagree"
    return Finding("clock", node.name, False, text)


def _gpus(node: ClusterNode, facts: NodeFacts) -> Finding:
    same = node.gpu == facts.gpus
    text = f"{facts.gpus} GPUs"
    if not same:
        text = (
            f"Ray has {node.gpu:g} GPUs and NVIDIA's driver {facts.gpus}: jobs see those of the driver; "
            "look at nvidia-smi there, or start Ray with --num-gpus"
        )
    return Finding("gpus", node.name, same, text)
