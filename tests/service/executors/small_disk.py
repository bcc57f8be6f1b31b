"""A disk of a few hundred KiB that can be filled to the last byte."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of its own, mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filler.open("ab", buffering=0) as filler:
            for size in (4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(bytes(size))
        with pytest.raises(OSError, match="No space left"):
            (self.folder / "one more").write_bytes(bytes(4096))
        (self.folder / "one more").unlink(missing_ok=True)

    def make_room(self) -> None:
        """Give back what `fill` has taken."""
        self._filler.unlink()


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "512k") -> Iterator[SmallDisk]:
    """Mount one; the test is skipped where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system to fill")
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "betimes-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
