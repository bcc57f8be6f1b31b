"""A command's output, kept in a few files of bounded size: `log`, and `log.1`, `log.2`, ..., ever older."""

from __future__ import annotations

import os

# A FIFO that a job has put there blocks no one.
_AT_ONCE = os.O_NONBLOCK | os.O_CLOEXEC
LOST = ".lost"  # of the file with the number of bytes lost from a log that goes on


def lost_bytes(path: str | os.PathLike[str]) -> int:
    """The reported number of bytes lost from a log that goes on; 0 without a report."""
    try:
        told = os.open(f"{os.fspath(path)}{LOST}", os.O_RDONLY | _AT_ONCE)
    except OSError:  # nothing is lost, or a job has put something else there
        return 0
    try:
        return max(0, int(os.read(told, 20)))
    except (OSError, ValueError):  # it is being written
        return 0
    finally:
        os.close(told)


class Log:
    """The newest `files` files of at most `most_bytes` each. Trouble with the disk loses output, never the job."""

    def __init__(self, path: str, most_bytes: int, files: int) -> None:
        self.path, self.most_bytes, self.files = path, most_bytes, files
        self.dropped_bytes = 0  # of the oldest output, to make way for newer
        self.failed_bytes, self.trouble = 0, ""  # that could not be written, and why
        self._file: int | None = None
        self._size = 0

    @property
    def lost_bytes(self) -> int:
        """All bytes written but not kept."""
        return self.dropped_bytes + self.failed_bytes

    def write(self, chunk: bytes) -> None:
        """Append; a file that would grow too long is rotated, where possible at the end of a line.

        The first call makes the file, also with nothing to write.
        """
        view = memoryview(chunk)
        try:
            self._open()
            while view:
                view = view[self._append(view) :]
        except OSError as error:
            self.failed_bytes += len(view)
            self.trouble = error.strerror or str(error)

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _AT_ONCE, 0o600)
            self._size = os.fstat(self._file).st_size
        return self._file

    def _append(self, view: memoryview) -> int:
        file = self._open()
        room = self.most_bytes - self._size
        if len(view) > room:
            line_end = bytes(view[: max(room, 0)]).rfind(b"\n") + 1
            room = line_end or (room if self._size == 0 else 0)
            if room <= 0:
                self._put_aside(file)
                return 0
        written = os.write(file, view[:room])
        self._size += written
        return written

    def _put_aside(self, file: int) -> None:
        self._file = None
        os.close(file)
        oldest = f"{self.path}.{self.files - 1}" if self.files > 1 else self.path
        dropped_bytes = os.stat(oldest).st_size if os.path.exists(oldest) else 0
        for number in range(self.files - 1, 0, -1):
            younger = f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(younger):
                os.replace(younger, f"{self.path}.{number}")
        if self.files == 1:
            os.unlink(self.path)
        if dropped_bytes:
            self.dropped_bytes += dropped_bytes
            self._tell_lost()

    def _tell_lost(self) -> None:
        """Write the bytes lost so far to a file: exit.json has them only at the end."""
        try:
            told = os.open(self.path + LOST, os.O_WRONLY | os.O_CREAT | _AT_ONCE, 0o600)
        except OSError:  # no room for a name: exit.json has them
            return
        try:
            os.write(told, b"%020d" % self.lost_bytes)  # always as long, so that it is written in place
        except OSError:  # no room
            return
        finally:
            os.close(told)
