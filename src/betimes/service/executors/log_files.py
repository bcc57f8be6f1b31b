"""Reading a log that is written, rotated and removed meanwhile: `log` is the newest file, `log.1` the one before."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Protocol

from betimes.service.executors.supervision.files import LOST

BLOCK = 65_536  # bytes
MOST_LOOKS = 100  # at files that are being renamed


class LogReader(Protocol):
    """Reads a run's output, wherever it is."""

    async def read(self) -> bytes:
        """The next bytes; empty: that is all for now."""
        ...

    def close(self) -> None:
        """Read no more."""
        ...


class LocalLog:
    """A log on this machine: from its oldest line, or `tail` lines before the end."""

    def __init__(self, path: Path, tail: int | None = None) -> None:
        self._path, self._tail = path, tail
        self._cursor: LogCursor | None = None

    async def read(self) -> bytes:
        """Up to 64 KiB of the next bytes."""
        if self._cursor is None:
            self._cursor = await asyncio.to_thread(LogCursor, self._path, self._tail)
        return await asyncio.to_thread(self._cursor.read)

    def close(self) -> None:
        """Close the file."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None


class LogCursor:
    """A place in a rotated log that only moves forward. It blocks on the disk: not for the event loop's thread."""

    def __init__(self, path: Path, tail: int | None = None) -> None:
        """Start at the oldest line, or `tail` lines before the end."""
        self._path = path
        self._file: BinaryIO | None = None
        self._rotated = False
        if tail is not None:
            self._seek_back(tail)

    def read(self) -> bytes:
        """Up to 64 KiB of the next bytes; empty: that is all for now."""
        while True:
            if self._file is None and not self._open_oldest():
                return b""
            assert self._file is not None
            chunk = self._file.read(BLOCK)
            if chunk:
                return chunk
            if self._rotated:  # and read to its end since then: it is no longer written to
                self._go_on()
            elif self._was_rotated():
                self._rotated = True
            else:
                if os.fstat(self._file.fileno()).st_size < self._file.tell():
                    self._file.seek(0)  # it was emptied by its writer
                    continue
                return b""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_oldest(self) -> bool:
        opened = self._open_all()
        self._keep(opened, opened[0] if opened else None)
        return self._file is not None

    def _was_rotated(self) -> bool:
        assert self._file is not None
        here = os.fstat(self._file.fileno())
        with contextlib.suppress(FileNotFoundError):  # it is between two files: the newest has a number
            return not os.path.samestat(self._path.lstat(), here)
        for newest in reversed(self._files()):
            with contextlib.suppress(FileNotFoundError):
                return not os.path.samestat(newest.lstat(), here)
        return False

    def _go_on(self) -> None:
        """Go to the next newer file; to the oldest that is left if this one is gone."""
        assert self._file is not None
        here = os.fstat(self._file.fileno())
        opened = self._open_all()
        at = next((i for i, file in enumerate(opened) if os.path.samestat(here, os.fstat(file.fileno()))), -1)
        if at + 1 < len(opened):
            self._file.close()
            self._keep(opened, opened[at + 1])
        else:
            self._keep(opened, self._file)
        self._rotated = False

    def _keep(self, opened: list[BinaryIO], kept: BinaryIO | None) -> None:
        for file in opened:
            if file is not kept:
                file.close()
        self._file = kept

    def _open_all(self) -> list[BinaryIO]:
        """All files, oldest first, as they stand at one moment: a rotation moves them one by one."""
        looks = 0
        while True:
            looks += 1
            opened = [file for file in map(_open, self._files()) if file is not None]
            if looks == MOST_LOOKS or self._numbers() == [os.fstat(file.fileno()).st_ino for file in opened]:
                return opened
            for file in opened:
                file.close()

    def _numbers(self) -> list[int]:
        """The inodes of all files, oldest first."""
        found: list[int] = []
        for path in self._files():
            with contextlib.suppress(FileNotFoundError):
                known = path.lstat()
                if stat.S_ISREG(known.st_mode):
                    found.append(known.st_ino)
        return found

    def _files(self) -> list[Path]:
        """All files of the log, oldest first."""
        numbered: list[tuple[int, Path]] = []
        name = re.compile(re.escape(self._path.name) + r"\.([0-9]{1,9})")
        try:
            with os.scandir(self._path.parent) as entries:
                for entry in entries:
                    found = name.fullmatch(entry.name)
                    if found:
                        numbered.append((int(found[1]), Path(entry.path)))
        except FileNotFoundError:
            return []
        return [path for _, path in sorted(numbered, reverse=True)] + [self._path]

    def _seek_back(self, lines: int) -> None:
        breaks = lines  # line breaks still to be passed on the way back
        last = True
        opened = self._open_all()
        for file in reversed(opened):
            at = file.seek(0, os.SEEK_END)
            if last and at:
                file.seek(at - 1)
                breaks += file.read(1) == b"\n"  # the end of the last line
                last = False
            if lines:
                at, breaks = _back(file, at, breaks)
            file.seek(at)
            if not lines or not breaks:
                self._keep(opened, file)
                return
        self._keep(opened, opened[0] if opened else None)


def lost_bytes(path: str | os.PathLike[str]) -> int:
    """The reported number of bytes lost from a log that goes on; 0 without a report."""
    try:
        report = os.open(f"{os.fspath(path)}{LOST}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # nothing is lost, or a job has put something else there
        return 0
    try:
        return max(0, int(os.read(report, 20)))
    except (OSError, ValueError):  # it is being written
        return 0
    finally:
        os.close(report)


def _back(file: BinaryIO, at: int, breaks: int) -> tuple[int, int]:
    """The place after so many line breaks backwards from `at`, and how many were not found."""
    while at and breaks:
        start = max(0, at - BLOCK)
        file.seek(start)
        block = file.read(at - start)
        found = block.count(b"\n")
        if found < breaks:
            breaks -= found
            at = start
            continue
        cut = len(block)
        for _ in range(breaks):
            cut = block.rindex(b"\n", 0, cut)
        return start + cut + 1, 0
    return at, breaks


def _open(path: Path) -> BinaryIO | None:
    """A log's file; None where there is none, or something else: a job may do anything in its folder."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return os.fdopen(handle, "rb", buffering=0)
