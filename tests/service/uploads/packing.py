"""Archives of directories, and archives as no directory makes them."""

from __future__ import annotations

import hashlib
import io
import stat
import tempfile
import zipfile
from pathlib import Path

from betimes.service.uploads.archive import MIB, Packed, pack


def packed(folder: Path, most_bytes: int = MIB, most_files: int = 1000) -> tuple[Packed, bytes]:
    """What is told of a directory's archive, and the archive."""
    with tempfile.TemporaryFile() as file:
        told = pack(folder, file, most_bytes, most_files)
        file.seek(0)
        return told, file.read()


def some_code(folder: Path) -> Path:
    """A directory with everything in it that may be sent."""
    (folder / "lib" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "run.sh").write_text("#!/bin/sh\ncat lib/data; echo more >> lib/data\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "lib" / "data").write_text("data\n")
    (folder / "lib" / "größe 🚀").write_bytes(bytes(range(256)))
    (folder / "lib" / "deep" / "up").symlink_to("../../run.sh")
    (folder / "lib" / "latest").symlink_to("deep")
    (folder / "lib" / "nothing").symlink_to("not/there")
    return folder


def made(*entries: tuple[str, int, bytes]) -> bytes:
    """An archive of entries: name, mode with the kind of file, content."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, mode, content in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.create_system = 3
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def link(name: str, target: str) -> tuple[str, int, bytes]:
    """An entry: a link."""
    return name, stat.S_IFLNK | 0o777, target.encode()


def file(name: str, content: bytes = b"", mode: int = 0o644) -> tuple[str, int, bytes]:
    """An entry: a file."""
    return name, stat.S_IFREG | mode, content


def sha256(data: bytes) -> str:
    """Under what name it is kept."""
    return hashlib.sha256(data).hexdigest()
