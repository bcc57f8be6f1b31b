"""Sender and receiver of the archives of uploaded directories, for nodes that do not share the service's disk.

A node keeps an archive where the service does, so that one on the service's disk has it already; it is sent once, and
stays until no job has needed it there for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import IO

from betimes.errors import Unavailable
from betimes.service.executors.ray.connection import Agents
from betimes.service.uploads.kept import Uploads

PIECE_BYTES = 4 * 2**20  # of an archive, in a call


async def send_archive(agents: Agents, node: str, session: str, archive: str) -> None:
    """Send an archive to a node unless it is there.

    Raises Unavailable; OSError where it cannot be read here, or written there.
    """
    if await agents.call(node, "has_archive", session, archive):
        return
    file = await asyncio.to_thread(Path(archive).open, "rb")
    try:
        offset = 0
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            await agents.call(node, "take_piece", session, archive, offset, piece)
            offset += len(piece)
    finally:
        file.close()
    await agents.call(node, "take_archive", session, archive)


def has_archive(archive: Path) -> bool:
    """Whether an archive is on this machine; if so, it stays for a while."""
    return Uploads(archive.parent).use(archive.stem) is not None


def take_piece(archive: Path, offset: int, piece: bytes) -> None:
    """Append a piece to an archive. OSError where there is no room, or earlier pieces are missing."""
    draft = _draft(archive)
    if offset == 0:
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(piece)


def take_archive(archive: Path) -> None:
    """Give a complete archive its name, and remove archives that have not been used for long.

    Raises Unavailable if it differs from the one sent.
    """
    draft = _draft(archive)
    with draft.open("rb") as file:
        if _sha256(file) != archive.stem:
            draft.unlink()
            raise Unavailable(f"{archive} was damaged on its way to the node")
        os.fsync(file.fileno())
    draft.replace(archive)
    uploads = Uploads(archive.parent)
    uploads.remove(uploads.old())


def _draft(archive: Path) -> Path:
    return archive.with_name(f".{archive.stem}.node")


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()
