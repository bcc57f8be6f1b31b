"""Files that are whole or not there, whatever fails meanwhile: the process, the disk or the power.

The supervisor of a run, which imports nothing of Betimes, has what it needs of this in its own `files`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write, beside `path`; once the block ends well it is at `path`, also after a power failure.

    mode: of the new file from the first moment, less the umask. Raises OSError; then, and where the block raises, the
    old file is still there, and nothing else is.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_private(path: Path, text: str) -> None:
    """Put `text` at `path`, readable by its owner alone (0600); missing folders are made (0700). Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with whole_file(path, 0o600) as file:
        file.write(text.encode())


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, survive a power failure. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
