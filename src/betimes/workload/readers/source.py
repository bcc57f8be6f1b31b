"""The bytes of a trace file: plain or gzip (told apart by the first bytes), handed out in blocks of whole
lines.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from betimes.errors import TraceError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 4 << 20
_OPENING = 64 << 10
# No trace has such lines; without a bound a file without line feeds would be held in memory whole.
_LONGEST_LINE = 16 << 20


class Source:
    """One open trace file, read once from front to back (so a pipe will do).

    `line` is the number of lines already handed out. Raises TraceError for everything that keeps the bytes
    from being read: no such file, a folder, no permission, a damaged or truncated gzip stream.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file: IO[bytes] = self.path.open("rb")
        except (OSError, ValueError) as error:
            raise TraceError(f"cannot be opened: {_reason(error)}", self.path) from error
        self.line = 0
        self._pending = b""
        self._bytes = self._file
        try:
            buffered = cast(io.BufferedReader, self._file)
            self.gzipped = buffered.peek(2)[:2] == GZIP_MAGIC
            if self.gzipped:
                self._bytes = cast(IO[bytes], gzip.GzipFile(fileobj=self._file))
            self._pending = self._read(_OPENING).removeprefix(BYTE_ORDER_MARK)
        except (OSError, TraceError) as error:
            self.close()
            if isinstance(error, TraceError):
                raise
            raise TraceError(f"cannot be read: {_reason(error)}", self.path) from error
        self.opening = self._pending

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def stem(self) -> str:
        """The file's name without .gz and the format's suffix."""
        return Path(self.path.name.removesuffix(".gz")).stem

    def blocks(self) -> Iterator[bytes]:
        """The rest of the file as blocks of whole lines; only the last may lack its line feed.

        `line` is the number of the lines before a block while the block is being worked on.
        """
        while True:
            fresh = self._read(_BLOCK)
            held = self._pending + fresh
            if not fresh:
                self._pending = b""
                if held:
                    yield held
                    self.line += held.count(b"\n") + (not held.endswith(b"\n"))
                return
            cut = held.rfind(b"\n") + 1
            block, self._pending = held[:cut], held[cut:]
            if len(self._pending) > _LONGEST_LINE:
                line = self.line + block.count(b"\n") + 1
                raise TraceError(f"expected lines of at most {_LONGEST_LINE >> 20} MiB", self.path, line)
            if block:
                yield block
                self.line += block.count(b"\n")

    def everything(self) -> bytes:
        """The rest of the file at once, for formats that need to jump about in it."""
        held, self._pending = self._pending, b""
        parts = [held]
        while fresh := self._read(_BLOCK):
            parts.append(fresh)
        return b"".join(parts)

    def _read(self, size: int) -> bytes:
        try:
            return self._bytes.read(size)
        except EOFError as error:
            raise TraceError(
                "the gzip stream is truncated: fetch or compress the file again", self.path
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(
                f"the gzip stream is damaged ({error}): fetch the file again", self.path
            ) from error
        except OSError as error:
            raise TraceError(f"cannot be read: {_reason(error)}", self.path) from error


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
