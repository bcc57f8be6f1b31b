"""The archives that a service keeps: a file each in STATE/uploads, named by the SHA-256 of its content."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from betimes.errors import Refused, Unavailable
from betimes.files import sync
from betimes.service.uploads.archive import MIB, MOST_FILES, DamagedArchive, examine

DEFAULT_BYTES = 100 * MIB
UNUSED_S = 7 * 86_400.0  # until an archive goes that no job in the store needs
_BYTES_A_FILE = 512  # of an archive beside the contents of each: names, sizes, sums
_BLOCK = MIB  # that is written at once


def uploads_of(state: Path) -> Path:
    """The folder of archives, for a service with this state directory and the nodes that run its jobs."""
    return state / "uploads"


def archive_path(state: Path, sha256: str) -> Path:
    """The path of an archive, if it is there."""
    return Uploads(uploads_of(state)).path(sha256)


class Uploads:
    """Takes archives into a folder; `most_bytes`: of the files of a directory together."""

    def __init__(self, folder: Path, most_bytes: int = DEFAULT_BYTES) -> None:
        self.folder, self.most_bytes, self.most_files = folder, most_bytes, MOST_FILES
        self._using = threading.Lock()  # no archive is removed while a job is about to name it

    @property
    def most_archive_bytes(self) -> int:
        """The largest size of an archive: incompressible files take a little more room in it."""
        return self.most_bytes + self.most_bytes // 1000 + _BYTES_A_FILE * self.most_files

    def path(self, sha256: str) -> Path:
        """The path of an archive, if it is there."""
        return self.folder / f"{sha256}.zip"

    def use(self, sha256: str) -> int | None:
        """The size of an archive, bytes, which then stays for a while; null: there is none.

        Raises Unavailable where it cannot be looked for.
        """
        path = self.path(sha256)
        with self._using:
            try:
                os.utime(path)
                return path.stat().st_size
            except FileNotFoundError:
                return None
            except OSError as error:
                raise self._trouble(error, "be read", "an operator has to mend that") from None

    async def receive(self, sha256: str, pieces: AsyncIterator[bytes]) -> int:
        """Take an archive, whose pieces are read to the end; its size, bytes.

        Raises Refused for one that does not match its name or cannot be used; Unavailable where there is no room.
        """
        path = self.path(sha256)
        draft = path.with_name(f".{sha256}.{secrets.token_hex(8)}")
        try:
            try:
                size = await self._write(draft, sha256, pieces)
                await asyncio.to_thread(self._admit, draft, path)
            except OSError as error:
                async for _ in pieces:  # else the sender does not see the answer
                    pass
                raise self._trouble(error, "be kept", "make room there, and send it again") from None
            return size
        finally:
            with contextlib.suppress(OSError):  # it has its name, or a later round removes it
                draft.unlink(missing_ok=True)

    async def _write(self, draft: Path, sha256: str, pieces: AsyncIterator[bytes]) -> int:
        draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest, size, block = hashlib.sha256(), 0, bytearray()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:

            def write(block: bytes) -> None:
                digest.update(block)
                file.write(block)

            async for piece in pieces:
                size += len(piece)
                block += piece
                if len(block) >= _BLOCK:
                    await asyncio.to_thread(write, bytes(block))
                    block.clear()
            await asyncio.to_thread(write, bytes(block))
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        if digest.hexdigest() != sha256:
            raise Refused(
                f"the SHA-256 of what came, {size:,} bytes, is {digest.hexdigest()}, and not {sha256}; send it again",
                "sha256",
            )
        return size

    def _trouble(self, error: OSError, what: str, remedy: str) -> Unavailable:
        if isinstance(error, NotADirectoryError | FileExistsError):
            return Unavailable(
                f"{self.folder} is no directory, so that nothing can be sent along with a job; an operator has to move "
                "it away"
            )
        return Unavailable(f"the upload cannot {what} in {self.folder} ({error.strerror}); {remedy}")

    def _admit(self, draft: Path, path: Path) -> None:
        """Give an archive its name; raises Refused for one that cannot be used."""
        try:
            examine(draft, self.most_bytes, self.most_files)
        except DamagedArchive as error:
            raise Refused(
                f"the upload {error}; send what `betimes submit --upload` makes", "sha256"
            ) from None
        draft.replace(path)
        sync(path.parent)

    def old(self, unused_s: float = UNUSED_S) -> list[str]:
        """Archives unused for so long; leftovers of interrupted uploads are removed."""
        old: list[str] = []
        for path in self._files(unused_s):
            if path.suffix == ".zip":
                old.append(path.stem)
            else:
                path.unlink(missing_ok=True)
        return old

    def remove(self, archives: Collection[str], unused_s: float = UNUSED_S) -> None:
        """Remove archives, unless they have been used since. Raises OSError."""
        for path in self._files(unused_s):
            if path.suffix == ".zip" and path.stem in archives:
                with self._using:
                    if _is_unused(path, unused_s):
                        path.unlink(missing_ok=True)

    def _files(self, unused_s: float) -> list[Path]:
        found = list(self.folder.iterdir()) if self.folder.is_dir() else []
        return [path for path in found if _is_unused(path, unused_s)]


def _is_unused(path: Path, unused_s: float) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mtime < time.time() - unused_s
    return False
