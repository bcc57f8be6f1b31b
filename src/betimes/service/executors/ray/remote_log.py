"""A run's output, read from the node on which it is."""

from __future__ import annotations

import secrets

from betimes.errors import Unavailable
from betimes.service.executors.ray.connection import Agents


class RemoteLog:
    """A log on a node of the cluster: from its oldest line, or `tail` lines before the end.

    While the node does not answer there is nothing to read. The agent keeps the place; one that has been restarted is
    told how much has been read.
    """

    def __init__(self, agents: Agents, node: str, path: str, tail: int | None) -> None:
        self._agents, self._node, self._path, self._tail = agents, node, path, tail
        self._reader = secrets.token_hex(8)
        self._read_bytes = 0

    async def read(self) -> bytes:
        """Up to 64 KiB of what comes next."""
        try:
            chunk: bytes = await self._agents.call(
                self._node, "read_log", self._reader, self._path, self._tail, self._read_bytes
            )
        except Unavailable:
            return b""
        self._read_bytes += len(chunk)
        return chunk

    def close(self) -> None:
        """The agent closes the file when others are read."""
