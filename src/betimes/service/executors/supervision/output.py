"""What a command prints, kept in a few files of bounded size: `log`, and `log.1`, `log.2`, ..., ever older."""

from __future__ import annotations

import os


class Log:
    """The newest `files` files of at most `most_bytes` each. Trouble with the disk loses output, never the job."""

    def __init__(self, path: str, most_bytes: int, files: int) -> None:
        self.path, self.most_bytes, self.files = path, most_bytes, files
        self.lost_bytes, self.trouble = 0, ""
        self._file: int | None = None
        self._size = 0

    def write(self, chunk: bytes) -> None:
        """Append; a file that would grow too long is put aside, where possible at the end of a line.

        The file is there from the first call, which may have nothing to write.
        """
        view = memoryview(chunk)
        try:
            self._open()
            while view:
                view = view[self._append(view) :]
        except OSError as error:
            self.lost_bytes += len(view)
            self.trouble = error.strerror or str(error)

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
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
        for number in range(self.files - 1, 0, -1):
            younger = f"{self.path}.{number - 1}" if number > 1 else self.path
            if os.path.exists(younger):
                os.replace(younger, f"{self.path}.{number}")
        if self.files == 1:
            os.unlink(self.path)
